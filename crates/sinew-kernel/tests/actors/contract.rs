//! `docs/semantics.md`: each sentence has a number of its own, and tests that exist and cite it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The text of each file of tests, by its name; a `main.rs` has the name of its folder in front.
fn sources(tests: &Path) -> BTreeMap<String, String> {
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, mut files): (Vec<_>, Vec<_>) = entries(tests).partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| entries(folder)));
    let mut sources = BTreeMap::new();
    for path in files {
        let name = path.strip_prefix(tests).unwrap().to_str().unwrap();
        let name = if name.ends_with("/main.rs") { name } else { name.rsplit('/').next().unwrap() };
        if name.ends_with(".rs") && name != "mod.rs" {
            let other = sources.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
            assert!(other.is_none(), "there are two files {name}");
        }
    }
    sources
}

/// Numbers in the comments right above a test. None if there is no such test.
fn cited_by<'a>(source: &'a str, test: &str) -> Option<BTreeSet<&'a str>> {
    let (before, _) = source.split_once(&format!("\nfn {test}() {{"))?;
    let above = before.rsplit("\n\n").next()?;
    above.contains("#[test]").then(|| {
        let comments = above.lines().filter_map(|line| line.trim_start_matches('/').strip_prefix(' '));
        comments.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric())).collect()
    })
}

#[test]
fn every_sentence_of_the_contract_has_a_test_that_cites_it() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(here.join("../../docs/semantics.md")).unwrap();
    let sources = sources(&here.join("tests"));
    let (mut numbers, mut faults) = (BTreeSet::new(), Vec::new());
    for line in text.lines().filter(|line| line.starts_with("- ")) {
        let number = line.split("**").nth(1).unwrap_or_else(|| panic!("no number: {line}"));
        assert!(numbers.insert(number), "{number} is there twice");
        let cited: Vec<_> = line.split('`').filter_map(|cited| cited.split_once(".rs::")).collect();
        if cited.is_empty() {
            faults.push(format!("{number} has no test"));
        }
        for (file, test) in cited {
            let source = sources.get(&format!("{file}.rs")).map_or("", String::as_str);
            match cited_by(source, test) {
                None => faults.push(format!("{number}: there is no test {file}.rs::{test}")),
                Some(cites) if !cites.contains(number) => {
                    faults.push(format!("{number}: {file}.rs::{test} has no comment that cites it"));
                }
                Some(_) => (),
            }
        }
    }
    assert!(faults.is_empty(), "docs/semantics.md:\n{}", faults.join("\n"));
    assert!(numbers.len() > 100, "{}", numbers.len());
}
