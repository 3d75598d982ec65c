//! The test programs of a crate, built by cargo and run without it.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{self, Show, cargo};
use crate::report::{artifacts, listed_tests};
use crate::workspace;

/// A built test program.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Where cargo would start it.
    folder: PathBuf,
}

/// Builds the unit and integration tests of those of `packages` that exist, with `profile` and whatever
/// else `set` asks of cargo.
pub(crate) fn build(
    packages: &[&str],
    profile: &str,
    set: impl Fn(&mut Command),
) -> Result<Vec<Program>, String> {
    let mut command = cargo(["test", "--no-run", "--lib", "--tests"]);
    for name in workspace::existing(packages) {
        command.args(["--package", name]);
    }
    command.args(["--profile", profile, "--message-format=json-render-diagnostics"]);
    set(&mut command);
    let finished = process::run(&mut command, Show::Stderr)?;
    if !finished.end.is_success() {
        return Err(format!("make the tests of {} build ({})", packages.join(", "), finished.end));
    }
    // A library that the tests use is built too, but is no program.
    let programs = artifacts(finished.lines()).into_iter().filter_map(|artifact| {
        let folder = folder_of(artifact.package)?.into();
        artifact.executable.map(|path| Program { path: path.into(), folder })
    });
    Ok(programs.collect())
}

/// The folder of a package of this workspace, by its id.
fn folder_of(package: &str) -> Option<&str> {
    package.strip_prefix("path+file://")?.split('#').next()
}

impl Program {
    /// A command that runs the program as cargo would.
    pub(crate) fn command(&self) -> Command {
        self.under(Command::new(&self.path))
    }

    /// `command`, which runs the program, started where cargo would start it.
    pub(crate) fn under(&self, mut command: Command) -> Command {
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// The names of its tests.
    pub(crate) fn tests(&self) -> Result<Vec<String>, String> {
        let listed = process::run(self.command().arg("--list"), Show::Nothing)?;
        Ok(listed_tests(listed.lines()).into_iter().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_package_is_in_its_id() {
        assert_eq!(folder_of("path+file:///w/crates/a#0.1.0"), Some("/w/crates/a"));
        assert_eq!(folder_of("registry+https://x#libc@0.2"), None);
    }
}
