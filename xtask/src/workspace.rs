//! Where things are in this repository.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the root of the workspace")
}

/// The folders under `crates/`, by name.
pub(crate) fn crates() -> Vec<PathBuf> {
    entries(&root().join("crates")).into_iter().filter(|path| path.join("Cargo.toml").is_file()).collect()
}

/// Those of `names` that exist under `crates/`.
pub(crate) fn existing<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().copied().filter(|name| root().join("crates").join(name).is_dir()).collect()
}

/// The Rust files under `folder`, at any depth, in order; none if there is no such folder.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in entries(folder) {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// What lies directly in `folder`, in order; nothing if there is no such folder.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// `path` as seen from the root, for messages.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
