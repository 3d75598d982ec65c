//! `docs/semantics.md`: each sentence has a number of its own, and a test that exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_sentence_of_the_contract_has_a_test() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(here.join("../../docs/semantics.md")).unwrap();
    let mut numbers = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("- **")) {
        let number = line.split("**").nth(1).unwrap();
        assert!(numbers.insert(number), "{number} is there twice");
        let (_, cited) =
            line.trim_end_matches('`').rsplit_once('`').unwrap_or_else(|| panic!("{number} has no test"));
        let (file, test) = cited.split_once("::").unwrap_or_else(|| panic!("{number}: {cited} is no test"));
        let source = fs::read_to_string(here.join("tests").join(file)).unwrap_or_default();
        assert!(source.contains(&format!("fn {test}(")), "{number}: there is no test {cited}");
    }
    assert!(numbers.len() > 100, "{}", numbers.len());
}
