//! Generators: a recursive walk that produces items one by one, and two of them merged.
//!
//! `cargo run -p sinew --example generator`

use sinew::fiber::{Generator, StackError, Yielder};

/// A directory with its files and subdirectories, sorted by name.
struct Directory {
    name: &'static str,
    files: &'static [&'static str],
    directories: Vec<Directory>,
}

/// Yields the path of every file, from any depth of the recursion: the body has a stack of its own, so nothing
/// has to be turned inside out.
fn walk(directory: &Directory, above: &str, out: &Yielder<String>) {
    let here = format!("{above}{}/", directory.name);
    for file in directory.files {
        out.yield_(format!("{here}{file}"));
    }
    for below in &directory.directories {
        walk(below, &here, out);
    }
}

fn files(directory: Directory) -> Result<Generator<String>, StackError> {
    Generator::new(move |out| walk(&directory, "", out))
}

/// Merges two sorted sequences into one. A generator reads others like any iterator, and is lazy itself.
fn merge<T: Ord + 'static>(
    left: impl Iterator<Item = T> + 'static,
    right: impl Iterator<Item = T> + 'static,
) -> Result<Generator<T>, StackError> {
    Generator::new(move |out| {
        let (mut left, mut right) = (left.peekable(), right.peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(l), Some(r)) if l <= r => left.next(),
                (_, Some(_)) => right.next(),
                (Some(_), None) => left.next(),
                (None, None) => return,
            };
            out.yield_(next.expect("just peeked at"));
        }
    })
}

fn main() -> Result<(), StackError> {
    let leaf = |name, files| Directory { name, files, directories: vec![] };
    let source = Directory {
        name: "src",
        files: &["lib.rs", "main.rs"],
        directories: vec![leaf("net", &["socket.rs", "tls.rs"])],
    };
    let tests = leaf("tests", &["slow.rs"]);

    // Nothing has been walked yet. Each item walks just far enough to find the next file.
    let mut walker = files(source)?;
    assert_eq!(walker.next().as_deref(), Some("src/lib.rs"));
    println!("first: src/lib.rs; the rest, merged with the tests:");

    let merged: Vec<String> = merge(walker, files(tests)?)?.collect();
    for path in &merged {
        println!("  {path}");
    }
    assert_eq!(merged, ["src/main.rs", "src/net/socket.rs", "src/net/tls.rs", "tests/slow.rs"]);

    // An endless generator is fine, too: when it is dropped in the middle, its destructors run.
    let mut fibonacci = Generator::new(|out| {
        let (mut a, mut b) = (0u64, 1);
        loop {
            out.yield_(a);
            (a, b) = (b, a + b);
        }
    })?;
    let first: Vec<u64> = fibonacci.by_ref().take(10).collect();
    println!("Fibonacci: {first:?}, then {:?}", fibonacci.next());
    assert_eq!(first, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]);
    Ok(())
}
