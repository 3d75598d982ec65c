//! The Rust code blocks of README.md and docs/*.md, which the crate in `docs/` compiles and runs.
//!
//! That crate names each page once; a page with Rust code that it does not name would go unchecked, so
//! this step compares.

use std::fs;
use std::path::PathBuf;

use super::{Broken, Ran, steps};
use crate::process::cargo;
use crate::workspace;

pub(super) fn check() -> Result<Ran, Broken> {
    let list = workspace::root().join("docs/snippets.rs");
    let named = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut pages: Vec<PathBuf> = workspace::entries(&workspace::root().join("docs"));
    pages.push(workspace::root().join("README.md"));
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
        let name = page.file_name().expect("a page has a name").to_string_lossy();
        if has_rust(&text) && !named.contains(&format!("{name}\"")) {
            return Err(
                format!("{name} has Rust code: name it in docs/snippets.rs, so that it is tested").into()
            );
        }
    }
    steps::test(&mut cargo(["test", "--package", "sinew-docs", "--doc", "--no-fail-fast"]))
}

/// True if a page has a block that rustdoc takes for Rust: one that says so, or one without a language.
fn has_rust(text: &str) -> bool {
    let fences = text.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
    // Every second fence closes a block.
    fences.step_by(2).any(|language| language.is_empty() || language.starts_with("rust"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_rust_if_a_block_says_so_or_says_nothing() {
        assert!(has_rust("text\n```rust\nlet a = 1;\n```\n"));
        assert!(has_rust("```text\nx\n```\n```\nlet a = 1;\n```\n"));
        assert!(!has_rust("```sh\ncargo build\n```\n"));
        assert!(!has_rust("no code"));
    }
}
