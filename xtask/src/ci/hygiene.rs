//! Four rules about what a crate may name, checked on the source text.
//!
//! - Only sinew-sync names std's atomics, locks and threads, loom or shuttle; everybody else goes through
//!   it, or a model checker would not see them. Tests, examples and the tools outside `crates/` may.
//! - `unsafe` stays in the crates that own stacks and memory; every other crate root forbids it.
//! - No library prints with a macro that panics if standard output or standard error fails: reports go through
//!   `sinew_fiber::raw::report`, which counts what is lost. (sinew-sync runs models, whose counts the test harness captures.)
//! - The modules of a crate name each other only downwards, by the layers in ARCHITECTURE.md: see `layers`.

use std::fs;
use std::path::{Path, PathBuf};

use super::code::{paths, tokens, without_tests};
use super::{Broken, Ran, layers};
use crate::workspace;

/// The crate that names what nobody else may.
const SYNC: &str = "sinew-sync";

/// The crate that is used by tests only.
const TEST_KIT: &str = "sinew-test-kit";

/// The crates that may use `unsafe`.
const UNSAFE: [&str; 8] = [
    "sinew-sync",
    "sinew-fiber",
    "sinew-sched",
    "sinew-chan",
    "sinew-io",
    "sinew-wasm",
    "sinew-wasm-seam",
    TEST_KIT,
];

/// What all may name of `std::sync` and `std::thread`: it neither blocks nor orders anything.
const HARMLESS: [&str; 5] =
    ["sync::Arc", "sync::Weak", "thread::panicking", "thread::LocalKey", "thread::AccessError"];

/// Macros that panic if what they print cannot be written.
const PRINTING: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];

pub(super) fn check() -> Result<Ran, Broken> {
    let mut faults = Vec::new();
    let mut files = 0;
    let tools = ["bench", "docs", "xtask"].map(|name| workspace::root().join(name));
    for folder in workspace::crates().into_iter().chain(tools) {
        let name = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let is_library = folder.starts_with(workspace::root().join("crates"));
        for file in workspace::rust_files(&folder) {
            files += 1;
            let source = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let shown = workspace::shown(&file);
            if is_library && ![SYNC, TEST_KIT].contains(&name.as_str()) && is_production(&folder, &file) {
                faults.extend(forbidden_names(&source).into_iter().map(|(path, line)| {
                    format!("{shown}:{line}: names {path}; take it from sinew_sync, so that models see it")
                }));
                faults.extend(printing_macros(&source).into_iter().map(|(name, line)| {
                    format!("{shown}:{line}: {name}! panics if nobody reads it; use sinew_fiber::raw::report, or writeln!")
                }));
            }
            if !UNSAFE.contains(&name.as_str()) {
                faults.extend(
                    unsafe_lines(&source)
                        .into_iter()
                        .map(|line| format!("{shown}:{line}: `unsafe` outside of {}", UNSAFE.join(", "))),
                );
                if is_crate_root(&folder, &file) && !forbids_unsafe(&source) {
                    faults.push(format!("{shown}: add `#![forbid(unsafe_code)]`"));
                }
            }
        }
    }
    faults.extend(layers::faults()?);
    faults.iter().for_each(|fault| println!("{fault}"));
    match faults.len() {
        0 => Ok(Ran::new(files, format!("{files} files"))),
        count => Err(format!("mend the {count} places above").into()),
    }
}

/// True for a file under `src/` that is not a file of tests.
pub(super) fn is_production(folder: &Path, file: &Path) -> bool {
    let Ok(inside) = file.strip_prefix(folder.join("src")) else { return false };
    !inside.iter().any(|part| part == "tests" || part == "tests.rs")
}

fn is_crate_root(folder: &Path, file: &Path) -> bool {
    let roots: [PathBuf; 2] = ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root));
    roots.iter().any(|root| root == file) || file.parent() == Some(&folder.join("src/bin"))
}

/// The paths in `source`, tests left out, that only sinew-sync may name.
fn forbidden_names(source: &str) -> Vec<(String, usize)> {
    let mut found = paths(&without_tests(&tokens(source)), &["std", "core", "loom", "shuttle"]);
    found.retain(|(path, _)| {
        let (root, rest) = path.split_once("::").unwrap_or((path, ""));
        let part =
            |from: &str| rest == from || rest.strip_prefix(from).is_some_and(|end| end.starts_with("::"));
        match root {
            "loom" | "shuttle" => true,
            _ => (part("sync") || part("thread")) && !HARMLESS.iter().any(|harmless| part(harmless)),
        }
    });
    found
}

/// The macros in `source`, tests left out, that print and panic if they cannot.
fn printing_macros(source: &str) -> Vec<(&str, usize)> {
    let tokens = without_tests(&tokens(source));
    let calls = tokens.windows(3).filter(|call| {
        PRINTING.contains(&call[0].text) && call[1].text == "!" && ["(", "[", "{"].contains(&call[2].text)
    });
    calls.map(|call| (call[0].text, call[0].line)).collect()
}

fn unsafe_lines(source: &str) -> Vec<usize> {
    tokens(source).into_iter().filter(|token| token.text == "unsafe").map(|token| token.line).collect()
}

fn forbids_unsafe(source: &str) -> bool {
    let words: Vec<&str> = tokens(source).into_iter().map(|token| token.text).collect();
    words.windows(8).any(|window| window == ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &str) -> Vec<String> {
        forbidden_names(source).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn atomics_locks_and_threads_are_found_however_they_are_imported() {
        assert_eq!(names("use core::sync::atomic::AtomicU8;"), ["core::sync::atomic::AtomicU8"]);
        assert_eq!(names("use std::{sync::{Arc, Once}, thread};"), ["std::sync::Once", "std::thread"]);
        assert_eq!(names("fn f() { std::thread::spawn(g); }"), ["std::thread::spawn"]);
        assert_eq!(names("loom::model(f)"), ["loom::model"]);
        assert_eq!(names("use std::sync;"), ["std::sync"]);
    }

    #[test]
    fn panicking_thread_locals_and_tests_are_fine() {
        let source = "std::thread::panicking(); std::thread_local! {} std::panic::catch_unwind(f);\n\
            use std::sync::Arc; // std::sync::Mutex\n\
            #[cfg(test)] mod tests { use std::sync::Mutex; }";
        assert_eq!(names(source), Vec::<String>::new());
    }

    #[test]
    fn macros_that_panic_when_they_cannot_print_are_found_outside_of_tests_and_comments() {
        let source = "/// println!(\"\")\nfn f() { std::eprintln!(\"{x}\"); writeln!(out, \"println!\") }\n\
            #[cfg(test)] mod tests { fn f() { println!(); } }\nfn g() { print!(\"x\") }";
        assert_eq!(printing_macros(source), [("eprintln", 2), ("print", 4)]);
        assert!(printing_macros("fn print(x: bool) { if print != x {} }").is_empty());
    }

    #[test]
    fn unsafe_is_a_word_of_its_own() {
        assert_eq!(unsafe_lines("#![forbid(unsafe_code)]\n// unsafe\nfn f() { unsafe {} }"), [3]);
        assert!(forbids_unsafe("//! x\n#![forbid(unsafe_code)]"));
        assert!(!forbids_unsafe("//! #![forbid(unsafe_code)]"));
    }

    #[test]
    fn only_source_files_that_are_no_tests_are_production() {
        let folder = Path::new("/c");
        assert!(is_production(folder, Path::new("/c/src/pool.rs")));
        assert!(!is_production(folder, Path::new("/c/src/pool/tests.rs")));
        assert!(!is_production(folder, Path::new("/c/tests/pool.rs")));
        assert!(!is_production(folder, Path::new("/c/examples/pool.rs")));
    }
}
