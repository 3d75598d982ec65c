//! Every public item of the lower crates is re-exported by `sinew`, or left out on purpose.
//!
//! The check reads the source text: the names in `pub use`, `pub mod` and `pub fn` of the crate
//! roots and of `sinew_chan::chan`, whose items are listed one by one. Modules that `sinew` re-exports
//! by a glob need no check.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Files whose public names have to be placed.
const LOWER: [&str; 7] = [
    "sinew-core/src/lib.rs",
    "sinew-fiber/src/lib.rs",
    "sinew-sched/src/lib.rs",
    "sinew-chan/src/lib.rs",
    "sinew-chan/src/chan/mod.rs",
    "sinew-io/src/lib.rs",
    "sinew-kernel/src/lib.rs",
];

/// Names that programs do not need, with the reason.
const LEFT_OUT: [(&str, &str); 10] = [
    ("wire", "messages between nodes, which do not exist yet"),
    ("json", "writes JSON for `Dump::to_json` and `Snapshot::to_json`"),
    ("Intensity", "`Supervisor::max_restarts` takes its parts"),
    ("RestartHistory", "counts restarts in a supervisor"),
    ("RestartDelay", "computes delays in a supervisor"),
    ("NameTable", "keeps the names of a node"),
    ("NameTaken", "the error of `NameTable`; users get `RegisterError`"),
    ("PathTable", "keeps the paths of a node"),
    ("Errno", "errors of guests, in `sinew-fd`"),
    ("Inbox", "the messages of an actor that another crate runs; hidden"),
];

#[test]
fn every_public_item_of_the_lower_crates_is_placed_or_left_out_on_purpose() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let read = |file: &Path| fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));

    let mut placed = BTreeSet::new();
    for entry in fs::read_dir(crates.join("sinew/src")).unwrap() {
        placed.extend(public_names(&read(&entry.unwrap().path())));
    }
    let mut expected = BTreeSet::new();
    for file in LOWER {
        expected.extend(public_names(&read(&crates.join(file))));
    }
    assert!(expected.len() > 200, "only {} names were found", expected.len());

    let left_out: BTreeSet<String> = LEFT_OUT.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: BTreeSet<String> = expected.difference(&placed).cloned().collect();
    let forgotten: Vec<_> = missing.difference(&left_out).collect();
    assert!(forgotten.is_empty(), "add to a module of crates/sinew, or to LEFT_OUT: {forgotten:?}");
    let stale: Vec<_> = left_out.difference(&missing).collect();
    assert!(stale.is_empty(), "no longer left out, or gone: {stale:?}");
}

/// The names that `source` declares or re-exports, without hidden ones. Of a glob, the module that
/// it re-exports; of a renamed item, the original name.
fn public_names(source: &str) -> Vec<String> {
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.map(|line| format!("{}\n", line.split(" // ").next().unwrap())).collect();
    let mut names = Vec::new();
    for item in public_items(&code, "pub use ") {
        let path = item[..item.find(';').unwrap()].trim_end_matches('}').trim_end_matches("::*");
        for name in path.rsplit('{').next().unwrap().split(',') {
            let original = name.split(" as ").next().unwrap();
            names.push(original.rsplit("::").next().unwrap().trim().to_owned());
        }
    }
    for item in public_items(&code, "pub mod ").chain(public_items(&code, "pub fn ")) {
        let end = item.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap();
        names.push(item[..end].to_owned());
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The text behind each `keyword` of `code`, without hidden items.
fn public_items<'c>(code: &'c str, keyword: &'static str) -> impl Iterator<Item = &'c str> {
    code.match_indices(keyword).filter_map(move |(start, _)| {
        let is_hidden = code[..start].trim_end().ends_with("#[doc(hidden)]");
        (!is_hidden).then_some(&code[start + keyword.len()..])
    })
}
