//! The published list of host calls is that of the host.

use std::collections::BTreeSet;

use wasmtime::ValType;

use super::all;

/// A row as `docs/abi.md` has it: module, name and type.
type Row = (String, String, String);

fn listed() -> BTreeSet<Row> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/abi.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut module, mut rows) = (String::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            module = title.strip_prefix("Module `").unwrap_or("").trim_end_matches('`').to_owned();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if !module.is_empty() && cells.len() > 3 && cells[1].starts_with('`') {
            let code = |cell: &str| cell.trim_matches('`').to_owned();
            let is_new = rows.insert((module.clone(), code(cells[1]), code(cells[2])));
            assert!(is_new, "twice: {line}");
        }
    }
    rows
}

fn linked() -> BTreeSet<Row> {
    let list = |types: &[ValType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let rows = all().map(|call| {
        let params = list(call.params);
        let results = match call.results {
            [] => String::new(),
            results => format!(" -> {}", list(results)),
        };
        (call.module.to_owned(), call.name.to_owned(), format!("({params}){results}"))
    });
    rows.collect()
}

#[test]
fn the_page_lists_every_call_with_its_type_and_no_other() {
    let (listed, linked) = (listed(), linked());
    let missing: Vec<_> = linked.difference(&listed).collect();
    let unknown: Vec<_> = listed.difference(&linked).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "not in docs/abi.md: {missing:#?}\nnot in the host: {unknown:#?}");
}
