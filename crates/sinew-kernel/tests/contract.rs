//! `docs/semantics.md`: each sentence has a number of its own, and tests that exist and cite it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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
    let (mut numbers, mut faults) = (BTreeSet::new(), Vec::new());
    for line in text.lines().filter(|line| line.starts_with("- ")) {
        let number = line.split("**").nth(1).unwrap_or_else(|| panic!("no number: {line}"));
        assert!(numbers.insert(number), "{number} is there twice");
        let cited: Vec<_> = line.split('`').filter_map(|cited| cited.split_once(".rs::")).collect();
        if cited.is_empty() {
            faults.push(format!("{number} has no test"));
        }
        for (file, test) in cited {
            let source =
                fs::read_to_string(here.join("tests").join(format!("{file}.rs"))).unwrap_or_default();
            match cited_by(&source, test) {
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
