//! The modules of a crate form layers: a module names only modules of lower layers.
//!
//! ARCHITECTURE.md lists the layers of each crate in a block, top first. The modules of a line do
//! not name each other, and `--` starts a comment:
//!
//! ````text
//! ```layers sinew-chan
//! select      -- the first of several operations
//! chan sync   -- channels; locks
//! source      -- what can be received from
//! ```
//! ````
//!
//! A line that starts with `knot:` lists modules that do name each other. A knot is a cycle that is still to be cut: it
//! has to be exactly one, so that it shrinks on the page when it shrinks in the code.
//!
//! A module is a file `src/x.rs` or a folder `src/x/`. It names another with a path from the root
//! of the crate (`crate::x`, or `super::x` where that climbs so far), also by a name that the root
//! imports from it. The root itself (`lib.rs` or `main.rs`) and tests may name every module. What is
//! defined in the root is in no layer, so every module may name it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::code::{Token, imports, item, paths, tokens, without_tests};
use super::hygiene::is_production;
use crate::{Failure, workspace};

pub(crate) const HELP: &str = "\
cargo xtask layers <crate>

Prints which modules each module of a crate names, and the cycles among them. The crate's layers in
ARCHITECTURE.md follow from that; `cargo xtask ci hygiene` checks them.
";

const PAGE: &str = "ARCHITECTURE.md";

/// Stands for all modules, which `use crate::*` names.
const EVERYTHING: &str = "*";

/// Prints the modules that each module of a crate names, and the cycles among them.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let [name] = arguments else {
        return Err(Failure::Usage("layers takes the name of one crate".to_owned()));
    };
    let Some(folder) = workspace::crates().into_iter().find(|folder| folder.ends_with(name)) else {
        return Err(Failure::Usage(format!("there is no crate {name:?} in crates/")));
    };
    let package = Package::read(&folder).map_err(Failure::Work)?;
    let named = package.named_modules();
    let width = named.keys().map(|module| module.len()).max().unwrap_or(0);
    for (module, others) in &named {
        println!("{module:<width$} -> {}", spaced(others));
    }
    for cycle in cycles(&named) {
        println!("cycle: {}", spaced(&cycle));
    }
    Ok(())
}

/// Every place where a crate and its layers in ARCHITECTURE.md disagree.
pub(super) fn faults() -> Result<Vec<String>, String> {
    let page = workspace::root().join(PAGE);
    let text = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let packages =
        workspace::crates().iter().map(|folder| Package::read(folder)).collect::<Result<Vec<_>, _>>()?;
    Ok(compare(&packages, &blocks(&text)))
}

/// The source of one crate.
struct Package {
    name: String,
    files: Vec<SourceFile>,
}

struct SourceFile {
    /// The path in `src/`, with `/` between its parts.
    path: String,
    text: String,
}

/// A place where one module names another.
#[derive(Debug, PartialEq, Eq)]
struct Naming {
    module: String,
    named: String,
    /// The path in `src/`.
    file: String,
    line: usize,
}

impl Package {
    fn read(folder: &Path) -> Result<Package, String> {
        let name = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let mut files = Vec::new();
        for file in workspace::rust_files(folder).into_iter().filter(|file| is_production(folder, file)) {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let inside = file.strip_prefix(folder.join("src")).expect("a production file is in src/");
            files.push(SourceFile { path: inside.to_string_lossy().into_owned(), text });
        }
        Ok(Package { name, files })
    }

    /// The files outside of the root, without those of modules that are declared for tests only.
    fn module_files(&self) -> Vec<&SourceFile> {
        let of_tests: BTreeSet<Vec<&str>> = self.files.iter().flat_map(SourceFile::test_modules).collect();
        let is_module = |file: &&SourceFile| {
            let path = file.module_path();
            let is_test = (1..=path.len()).any(|length| of_tests.contains(&path[..length]));
            path.first().is_some_and(|first| *first != "bin") && !is_test
        };
        self.files.iter().filter(is_module).collect()
    }

    /// The top-level modules, each with its own file, or with any in its folder if it has none.
    fn modules(&self) -> BTreeMap<&str, &SourceFile> {
        let mut files = self.module_files();
        files.sort_by_key(|file| Reverse(file.module_path().len()));
        files.into_iter().map(|file| (file.module_path()[0], file)).collect()
    }

    /// Where modules name others; the first place in each file.
    fn namings(&self) -> Vec<Naming> {
        let names = self.names_in_root();
        let mut namings = Vec::new();
        for file in self.module_files() {
            let module_path = file.module_path();
            let mut seen = BTreeSet::from([module_path[0]]);
            for (path, line) in paths_from_root(&without_tests(&tokens(&file.text)), module_path.len()) {
                for named in names.modules(&path).into_iter().filter(|named| seen.insert(named)) {
                    let (module, named) = (module_path[0].to_owned(), named.to_owned());
                    namings.push(Naming { module, named, file: file.path.clone(), line });
                }
            }
        }
        namings
    }

    fn names_in_root(&self) -> RootNames<'_> {
        let modules: BTreeSet<&str> = self.modules().into_keys().chain([EVERYTHING]).collect();
        let mut imported = Vec::new();
        for root in self.files.iter().filter(|file| file.module_path().is_empty()) {
            for (path, name) in imports(&without_tests(&tokens(&root.text))) {
                let first = path.split("::").find(|part| !["crate", "self"].contains(part));
                imported.extend(first.and_then(|first| modules.get(first)).map(|module| (name, *module)));
            }
        }
        RootNames { modules, imported }
    }

    /// The modules that each module names.
    fn named_modules(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut named: BTreeMap<String, BTreeSet<String>> =
            self.modules().keys().map(|module| ((*module).to_owned(), BTreeSet::new())).collect();
        for naming in self.namings() {
            named.entry(naming.module).or_default().insert(naming.named);
        }
        named
    }
}

/// The names that a path from the root can start with and that come from a module.
struct RootNames<'a> {
    modules: BTreeSet<&'a str>,
    /// Names that the root imports from its modules, each with the module that it is from.
    imported: Vec<(String, &'a str)>,
}

impl<'a> RootNames<'a> {
    /// The modules that a path from the root names. A function can have the name of a module:
    /// `name::..` is the module, and `name` alone can be either.
    fn modules(&self, path: &str) -> Vec<&'a str> {
        let first = path.split("::").next().unwrap_or(path);
        let module = self.modules.get(first).copied();
        let imported = self.imported.iter().filter(|(name, _)| name == first).map(|(_, module)| *module);
        let imported = imported.filter(|_| module.is_none() || path == first);
        module.into_iter().chain(imported).collect()
    }
}

impl SourceFile {
    /// The names of the module and of those that it is in, outermost first; none for the root.
    fn module_path(&self) -> Vec<&str> {
        let path = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        let path = path.strip_suffix("/mod").unwrap_or(path);
        if ["lib", "main"].contains(&path) { Vec::new() } else { path.split('/').collect() }
    }

    /// The paths of the modules that this file declares for tests only.
    fn test_modules(&self) -> Vec<Vec<&str>> {
        let all = tokens(&self.text);
        let kept = declared_modules(&without_tests(&all));
        let dropped = declared_modules(&all).into_iter().filter(|name| !kept.contains(name));
        dropped.map(|name| [self.module_path(), vec![name]].concat()).collect()
    }
}

/// The modules that are declared with `mod name;`.
fn declared_modules<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let declarations = tokens.windows(3).filter(|three| three[0].text == "mod" && three[2].text == ";");
    declarations.map(|three| three[1].text).collect()
}

/// The paths that start at the root of the crate, without the `crate` or `super`s before them, and
/// their lines. `depth` is the number of `super`s that lead from these tokens to the root.
fn paths_from_root(tokens: &[Token<'_>], depth: usize) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut outside = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if token.text == "mod" && tokens.get(at + 2).is_some_and(|brace| brace.text == "{") {
            let end = at + item(&tokens[at..]);
            found.extend(paths_from_root(&tokens[at + 3..end], depth + 1));
            at = end;
        } else {
            outside.push(*token);
            at += 1;
        }
    }
    for (path, line) in paths(&outside, &["crate", "self", "super"]) {
        let parts: Vec<&str> = path.split("::").filter(|part| *part != "self").collect();
        let supers = parts.iter().take_while(|part| **part == "super").count();
        match parts.first() {
            Some(&"crate") => found.push((parts[1..].join("::"), line)),
            Some(_) if supers == depth => found.push((parts[supers..].join("::"), line)),
            _ => {}
        }
    }
    found
}

/// The layers of a crate, as ARCHITECTURE.md has them.
struct Block<'a> {
    package: &'a str,
    line: usize,
    listed: Vec<Listed<'a>>,
}

/// A module in a layer; line numbers grow downwards, and so they order the layers.
struct Listed<'a> {
    module: &'a str,
    line: usize,
    is_in_knot: bool,
}

/// Starts the line of a knot.
const KNOT: &str = "knot:";

impl Block<'_> {
    fn listed(&self, module: &str) -> Option<&Listed<'_>> {
        self.listed.iter().find(|listed| listed.module == module)
    }

    /// The knots, each with its line.
    fn knots(&self) -> BTreeMap<usize, BTreeSet<String>> {
        let mut knots: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for listed in self.listed.iter().filter(|listed| listed.is_in_knot) {
            knots.entry(listed.line).or_default().insert(listed.module.to_owned());
        }
        knots
    }
}

/// The blocks of `page`.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().zip(1..);
    while let Some((text, line)) = lines.next() {
        let Some(package) = text.trim().strip_prefix("```layers ") else { continue };
        let layers = lines.by_ref().take_while(|(text, _)| !text.trim_start().starts_with("```"));
        let listed = layers.flat_map(|(text, line)| {
            let (is_in_knot, text) = match text.trim_start().strip_prefix(KNOT) {
                Some(modules) => (true, modules),
                None => (false, text),
            };
            let modules = text.split_whitespace().take_while(|word| *word != "--");
            modules.map(move |module| Listed { module, line, is_in_knot })
        });
        blocks.push(Block { package: package.trim(), line, listed: listed.collect() });
    }
    blocks
}

/// Every place where `packages` and `blocks` disagree.
fn compare(packages: &[Package], blocks: &[Block<'_>]) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, Block { package, line, .. }) in blocks.iter().enumerate() {
        if packages.iter().all(|existing| existing.name != *package) {
            faults.push(format!("{PAGE}:{line}: there is no crate {package} in crates/: remove its layers"));
        }
        if blocks[..at].iter().any(|earlier| earlier.package == *package) {
            faults.push(format!("{PAGE}:{line}: {package} has layers above already: keep one block"));
        }
    }
    for package in packages {
        let (name, modules) = (&package.name, package.modules());
        match blocks.iter().find(|block| block.package == name) {
            Some(block) => faults.extend(compare_layers(package, block)),
            None if modules.len() < 2 => {}
            None => faults.push(format!(
                "{PAGE}:1: {name} has {} modules and no layers: add a block \"```layers {name}\"; \
                 `cargo xtask layers {name}` prints which modules name which",
                modules.len()
            )),
        }
    }
    faults
}

fn compare_layers(package: &Package, block: &Block<'_>) -> Vec<String> {
    let (name, modules) = (&package.name, package.modules());
    let mut faults = Vec::new();
    for (at, Listed { module, line, .. }) in block.listed.iter().enumerate() {
        if !modules.contains_key(module) {
            faults.push(format!("{PAGE}:{line}: {name} has no module `{module}`: remove it from the layers"));
        }
        if block.listed[..at].iter().any(|earlier| earlier.module == *module) {
            faults.push(format!("{PAGE}:{line}: `{module}` is in the layers of {name} twice: keep one"));
        }
    }
    for (module, file) in &modules {
        if block.listed(module).is_none() {
            faults.push(format!(
                "crates/{name}/src/{}:1: `{module}` is not in the layers of {name} ({PAGE}): \
                 add it above the modules that it names",
                file.path
            ));
        }
    }
    let cycles = cycles(&package.named_modules());
    for (line, knot) in block.knots() {
        if !cycles.contains(&knot) {
            let nearest = cycles.iter().max_by_key(|cycle| cycle.intersection(&knot).count());
            let is_one = nearest.map_or("no cycle".to_owned(), |cycle| format!("\"{}\"", spaced(cycle)));
            faults.push(format!(
                "{PAGE}:{line}: this knot of {name} is not a cycle as it is in the code, which has {is_one}: list that, \
                 and give the others lines of their own"
            ));
        }
    }
    for Naming { module, named, file, line } in package.namings() {
        let is_allowed = match (block.listed(&module), block.listed(&named)) {
            (Some(above), Some(below)) => {
                above.line < below.line || (above.line == below.line && above.is_in_knot)
            }
            // One of them is not listed, which is a fault of its own.
            _ => named != EVERYTHING,
        };
        if !is_allowed {
            faults.push(format!(
                "crates/{name}/src/{file}:{line}: `{module}` names `{named}`, which is not below it in the layers \
                 of {name} ({PAGE}): move what both need down, or change the layers"
            ));
        }
    }
    faults
}

/// The sets of modules that name each other, directly or through others.
fn cycles(named: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        named.keys().map(|module| (module.as_str(), reachable(named, module))).collect();
    let reaches = |from: &str, to: &str| reachable.get(from).is_some_and(|modules| modules.contains(to));
    let in_cycles = reachable.keys().filter(|module| reaches(module, module));
    in_cycles
        .map(|module| {
            let cycle = reachable[module].iter().filter(|other| reaches(other, module));
            cycle.map(|other| (*other).to_owned()).collect()
        })
        .collect()
}

/// The modules that `from` names, directly or through others.
fn reachable<'a>(named: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&str> = named[from].iter().map(String::as_str).collect();
    while let Some(module) = left.pop() {
        if reached.insert(module) {
            left.extend(named.get(module).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}

fn spaced(modules: &BTreeSet<String>) -> String {
    modules.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(files: &[(&str, &str)]) -> Package {
        let file =
            |(path, text): &(&str, &str)| SourceFile { path: (*path).to_owned(), text: (*text).to_owned() };
        Package { name: "x".to_owned(), files: files.iter().map(file).collect() }
    }

    /// The modules that `a` names with this text in its file `path`; beside it are `b` and `c`.
    fn named_by_a(path: &str, text: &str) -> Vec<String> {
        let root =
            "mod a; mod b; mod c; use std::mem; pub use b::{Name, inner::Other as Alias}; pub use c::b;";
        let package = package(&[("lib.rs", root), (path, text), ("b.rs", ""), ("c/mod.rs", "")]);
        let namings = package.namings();
        assert!(namings.iter().all(|naming| naming.module == "a" && naming.file == path), "{namings:?}");
        namings.into_iter().map(|naming| naming.named).collect()
    }

    fn faults_of(files: &[(&str, &str)], page: &str) -> Vec<String> {
        compare(&[package(files)], &blocks(page))
    }

    const NONE: [String; 0] = [];

    #[test]
    fn a_module_is_named_by_paths_and_use_trees_from_the_root() {
        assert_eq!(named_by_a("a.rs", "fn f() { crate::b::g() }"), ["b"]);
        assert_eq!(named_by_a("a.rs", "use crate::{b::{self, X}, c};"), ["b", "c"]);
        assert_eq!(named_by_a("a.rs", "fn f(x: &<crate::b::X as crate::c::Y>::Z) {}"), ["b", "c"]);
        assert_eq!(named_by_a("a.rs", "macro_rules! m { () => { $crate::c::m() } }"), ["c"]);
        assert_eq!(named_by_a("a.rs", "use crate::a::X; use std::c::Y; // crate::b"), NONE);
        assert_eq!(named_by_a("a.rs", "use crate::*;"), [EVERYTHING]);
    }

    #[test]
    fn a_module_is_named_by_super_where_that_climbs_to_the_root() {
        assert_eq!(named_by_a("a.rs", "use super::b::X;"), ["b"]);
        assert_eq!(named_by_a("a/mod.rs", "use self::super::b::X;"), ["b"]);
        assert_eq!(named_by_a("a/d.rs", "use super::b::X;"), NONE);
        assert_eq!(named_by_a("a/d.rs", "use super::{super::b::X, c};"), ["b"]);
        assert_eq!(named_by_a("a.rs", "mod d { use super::c; } use super::b::X;"), ["b"]);
        assert_eq!(named_by_a("a.rs", "mod d { use super::super::c; }"), ["c"]);
    }

    #[test]
    fn a_module_is_named_by_what_the_root_imports_from_it() {
        assert_eq!(named_by_a("a.rs", "use crate::Name;"), ["b"]);
        assert_eq!(named_by_a("a.rs", "use super::Alias;"), ["b"]);
        assert_eq!(named_by_a("a.rs", "use crate::{Other, mem};"), NONE);
    }

    #[test]
    fn a_name_of_a_module_and_of_a_function_is_both_unless_the_path_goes_on() {
        assert_eq!(named_by_a("a.rs", "use crate::b;"), ["b", "c"]);
        assert_eq!(named_by_a("a.rs", "use crate::b::X;"), ["b"]);
    }

    #[test]
    fn tests_name_what_they_like() {
        assert_eq!(named_by_a("a.rs", "#[cfg(test)] use crate::b::X;"), NONE);
        assert_eq!(named_by_a("a.rs", "#[cfg(all(test, not(loom)))] mod tests { use crate::b; }"), NONE);
        let package = package(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod models;"),
            ("a.rs", "#[cfg(all(test, not(loom)))] mod models;"),
            ("a/models.rs", "use crate::b;"),
            ("a/models/more.rs", "use crate::b;"),
            ("b.rs", ""),
            ("models.rs", "use crate::b;"),
        ]);
        assert_eq!(package.namings(), []);
        assert_eq!(package.modules().into_keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn each_file_of_a_module_is_reported_once_for_a_module_that_it_names() {
        let files =
            [("a.rs", "\nuse crate::b;\nuse crate::b::X;"), ("a/d.rs", "use crate::b;"), ("b.rs", "")];
        let places: Vec<(String, usize)> =
            package(&files).namings().into_iter().map(|naming| (naming.file, naming.line)).collect();
        assert_eq!(places, [("a.rs".to_owned(), 2), ("a/d.rs".to_owned(), 1)]);
    }

    #[test]
    fn the_modules_of_a_knot_may_name_each_other_and_it_is_exactly_one_cycle() {
        let cycle = [("a.rs", "use crate::b;"), ("b.rs", "use crate::a;"), ("c.rs", "")];
        assert_eq!(faults_of(&cycle, "```layers x\nknot: a b -- to be cut\nc\n```"), NONE);
        let too_large = faults_of(&cycle, "```layers x\nknot: a b c\n```");
        assert!(matches!(&too_large[..], [fault] if fault.contains("which has \"a b\"")), "{too_large:?}");
        let cut = [("a.rs", "use crate::b;"), ("b.rs", "")];
        let no_cycle = faults_of(&cut, "```layers x\nknot: a b\n```");
        assert!(matches!(&no_cycle[..], [fault] if fault.contains("which has no cycle")), "{no_cycle:?}");
    }

    #[test]
    fn a_module_may_name_modules_of_lower_layers_only() {
        let names_b = [("a.rs", "use crate::b;"), ("b.rs", "")];
        assert_eq!(faults_of(&names_b, "# Layers\n```layers x\na -- uses b\n\nb\n```\n"), NONE);
        for page in ["```layers x\nb\na\n```", "```layers x\na b\n```"] {
            assert_eq!(
                faults_of(&names_b, page),
                [
                    "crates/x/src/a.rs:1: `a` names `b`, which is not below it in the layers of x (ARCHITECTURE.md): \
                  move what both need down, or change the layers"
                ]
            );
        }
        let faults = faults_of(&[("a.rs", "use crate::*;")], "```layers x\na\n```");
        assert!(faults.len() == 1 && faults[0].contains("`a` names `*`"), "{faults:?}");
    }

    #[test]
    fn a_module_is_in_the_layers_once_if_it_exists_and_not_otherwise() {
        let faults = faults_of(&[("a/d.rs", ""), ("a.rs", ""), ("b.rs", "")], "```layers x\nb c\nb\n```");
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[0].starts_with("ARCHITECTURE.md:2: x has no module `c`"), "{faults:?}");
        assert!(faults[1].starts_with("ARCHITECTURE.md:3: `b` is in the layers of x twice"), "{faults:?}");
        assert!(faults[2].starts_with("crates/x/src/a.rs:1: `a` is not in the layers of x"), "{faults:?}");
    }

    #[test]
    fn a_crate_of_several_modules_has_one_block_and_a_block_has_a_crate() {
        let two = [("lib.rs", ""), ("a.rs", ""), ("b.rs", "")];
        let faults = faults_of(&two, "```text\nlayers x\n```");
        assert!(faults.len() == 1 && faults[0].contains("x has 2 modules and no layers"), "{faults:?}");
        assert_eq!(faults_of(&two[..2], ""), NONE);

        let faults = faults_of(&two, "```layers x\na b\n```\n```layers x\na b\n```\n```layers y\n```");
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("ARCHITECTURE.md:4: x has layers above already"), "{faults:?}");
        assert!(faults[1].starts_with("ARCHITECTURE.md:7: there is no crate y"), "{faults:?}");
    }

    #[test]
    fn modules_that_name_each_other_through_others_are_one_cycle() {
        let package = package(&[
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::{c, e};"),
            ("c.rs", "use crate::a;"),
            ("d.rs", "use crate::{a, e};"),
            ("e.rs", ""),
        ]);
        let cycles: Vec<String> = cycles(&package.named_modules()).iter().map(spaced).collect();
        assert_eq!(cycles, ["a b c"]);
    }
}
