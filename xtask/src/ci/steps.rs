//! The steps that are cargo commands.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Broken, Ran};
use crate::bench;
use crate::process::{self, End, Finished, Show, cargo};
use crate::report::{Tests, artifacts, failures, models as model_lines, output_of_failed_programs};
use crate::workspace;

/// The crates that a model checker builds: those whose protocols it explores, and nothing above them.
const MODELLED: [&str; 6] =
    ["sinew-sync", "sinew-fiber", "sinew-sched", "sinew-chan", "sinew-io", "sinew-wasm"];

/// Those that are modelled under shuttle only: loom has no references to trait objects.
const MODELLED_AT_RANDOM: [&str; 2] = ["sinew-kernel", "sinew-fd"];

/// The crates whose dependencies take longer to build than all of ours: wasmtime, and the runtimes that are measured beside
/// ours.
const HEAVY: [&str; 3] = ["sinew-wasm", "sinew-wasm-seam", "sinew-bench"];

/// No example and no demo takes this long; one that does hangs.
const PROGRAM_LIMIT: Duration = Duration::from_secs(120);

pub(super) fn formatting() -> Result<Ran, Broken> {
    needs_component("fmt", "rustfmt")?;
    let check = ["fmt", "--all", "--check", "--", "--color=never"];
    must_succeed(
        &process::run(&mut cargo(check), Show::Everything)?,
        "run `cargo fmt --all` and look at the difference",
    )?;
    // Only the verbose form names the files, and its differences are hard to read; so it runs second.
    let finished = process::run(cargo(check).arg("--verbose"), Show::Nothing)?;
    let files = finished.lines().filter(|line| line.starts_with("Formatting ")).count();
    Ok(Ran::new(files, format!("{files} files")))
}

pub(super) fn clippy() -> Result<Ran, Broken> {
    let mut packages = vec!["--workspace"];
    HEAVY.iter().for_each(|package| packages.extend(["--exclude", package]));
    lint(&packages)
}

/// Clippy for these packages.
fn lint(packages: &[&str]) -> Result<Ran, Broken> {
    needs_component("clippy", "clippy")?;
    let mut command =
        cargo(["clippy", "--all-targets", "--all-features", "--message-format=json-render-diagnostics"]);
    command.args(packages).args(["--", "-Dwarnings"]);
    let finished = process::run(&mut command, Show::Stderr)?;
    must_succeed(&finished, "mend what clippy reports above; an `#[allow]` needs a reason beside it")?;
    let targets = artifacts(finished.lines()).len();
    Ok(Ran::new(targets, format!("{targets} targets")))
}

pub(super) fn heavy() -> Result<Ran, Broken> {
    let packages: Vec<&str> = HEAVY.iter().flat_map(|package| ["--package", package]).collect();
    let linted = lint(&packages)?;
    let mut command = cargo(["test", "--no-fail-fast"]);
    let tested = test(command.args(&packages))?;
    Ok(Ran { what: format!("{}, {}", linted.what, tested.what), ..tested })
}

pub(super) fn docs() -> Result<Ran, Broken> {
    let mut command = cargo(["doc", "--workspace", "--no-deps", "--message-format=json-render-diagnostics"]);
    command.env("RUSTDOCFLAGS", "-Dwarnings").env_remove("CARGO_ENCODED_RUSTDOCFLAGS");
    let finished = process::run(&mut command, Show::Stderr)?;
    must_succeed(&finished, "mend what rustdoc reports above")?;
    let found = artifacts(finished.lines());
    let crates: BTreeSet<&str> =
        found.iter().filter(|artifact| artifact.is_documentation).map(|artifact| artifact.package).collect();
    Ok(Ran::new(crates.len(), format!("{} crates", crates.len())))
}

pub(super) fn tests() -> Result<Ran, Broken> {
    let adapters = "sinew-io/futures-io,sinew-io/hyper,sinew-kernel/tracing";
    let mut command = cargo([
        "test",
        "--workspace",
        "--features",
        adapters,
        "--lib",
        "--bins",
        "--tests",
        "--no-fail-fast",
    ]);
    without_heavy(&mut command);
    // Stress is for optimised builds: here each path is taken some times.
    test(command.env("SINEW_STRESS", "0.05"))
}

pub(super) fn doctests() -> Result<Ran, Broken> {
    let mut command = cargo(["test", "--workspace", "--exclude", "sinew-docs", "--doc", "--no-fail-fast"]);
    without_heavy(&mut command);
    test(&mut command)
}

fn without_heavy(command: &mut Command) {
    HEAVY.iter().for_each(|package| _ = command.args(["--exclude", package]));
}

/// Stack switching and unwinding differ with optimisation, so the debug run does not stand for this one; and what is done by the
/// million is done so only here.
pub(super) fn release_tests() -> Result<Ran, Broken> {
    test(&mut cargo([
        "test",
        "--profile=release-test",
        "--package=sinew-fiber",
        "--package=sinew-sched",
        "--package=sinew-chan",
        "--package=sinew-io",
        "--package=sinew-kernel",
        "--package=sinew-fd",
        "--lib",
        "--tests",
        "--no-fail-fast",
    ]))
}

/// Runs a `cargo test` and counts. Only the output of programs that fail is shown: tests of reports and panics print many.
pub(super) fn test(command: &mut Command) -> Result<Ran, Broken> {
    let finished = process::run(command, Show::TestProgress)?;
    let tests = Tests::count(finished.lines());
    if !finished.end.is_success() {
        output_of_failed_programs(&finished.stdout, &finished.stderr)
            .iter()
            .for_each(|line| println!("{line}"));
        let remedy = "mend the tests that failed above".to_owned();
        return Err(Broken { remedy, tests, failures: failures(finished.lines()) });
    }
    Ok(Ran { amount: tests.passed, what: format!("{tests} in {} programs", tests.programs), tests })
}

pub(super) fn models() -> Result<Ran, Broken> {
    let mut total = Ran::new(0, String::new());
    for checker in ["loom", "shuttle"] {
        let target = Path::new("target").join(checker);
        let mut command = cargo(["test", "--profile=release-test", "--lib", "--no-fail-fast"]);
        for name in workspace::existing(&MODELLED) {
            command.args(["--package", name]);
        }
        if checker == "shuttle" {
            for name in workspace::existing(&MODELLED_AT_RANDOM) {
                command.args(["--package", name]);
            }
        }
        command.args(["--", "--nocapture"]);
        command.env("RUSTFLAGS", format!("--cfg {checker}")).env_remove("CARGO_ENCODED_RUSTFLAGS");
        command.env("CARGO_TARGET_DIR", workspace::root().join(target));

        let finished = process::run(&mut command, Show::Everything)?;
        let tests = Tests::count(finished.lines());
        total.tests += tests;
        let found = model_lines(finished.lines());
        let idle: Vec<&str> = found.iter().filter(|(_, runs)| *runs == 0).map(|(name, _)| *name).collect();
        if !finished.end.is_success() || found.is_empty() || !idle.is_empty() {
            let remedy = if !finished.end.is_success() {
                format!("mend the models that failed under {checker} above")
            } else if found.is_empty() {
                format!("no model ran under {checker}: models call `sinew_sync::model`")
            } else {
                format!("these models ran no execution under {checker}: {}", idle.join(", "))
            };
            return Err(Broken { remedy, tests: total.tests, failures: failures(finished.lines()) });
        }
        let executions: u64 = found.iter().map(|(_, runs)| runs).sum();
        let separator = if total.what.is_empty() { "" } else { "; " };
        total.what += &format!("{separator}{checker}: {} models, {executions} executions", found.len());
        total.amount += found.len();
    }
    Ok(total)
}

pub(super) fn examples() -> Result<Ran, Broken> {
    let mut names = Vec::new();
    for folder in workspace::crates() {
        let package = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let files = workspace::entries(&folder.join("examples"));
        let sources: Vec<_> =
            files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")).collect();
        if sources.is_empty() {
            continue;
        }
        must_succeed(
            &process::run(
                &mut cargo(["build", "--quiet", "--package", &package, "--all-features", "--examples"]),
                Show::Everything,
            )?,
            &format!("make the examples of {package} build"),
        )?;
        for source in sources {
            let name = source.file_stem().expect("a source file has a name").to_string_lossy();
            println!("-- {package} {name}");
            prints_and_succeeds(
                &mut cargo(["run", "--quiet", "--package", &package, "--all-features", "--example", &name]),
                &format!("the example {name} of {package}"),
            )?;
            names.push(name.into_owned());
        }
    }
    Ok(Ran::new(names.len(), format!("{} examples: {}", names.len(), names.join(", "))))
}

pub(super) fn bench_smoke() -> Result<Ran, Broken> {
    let program = bench::build(true)?;
    let listed = bench::list(&program)?;
    let mut figures = 0;
    for bench in &listed {
        let found = bench::measure(&program, &bench.name, &bench.small)?;
        // The referee reads the floor's metric from the first line.
        let first = found.first().map(|figure| (figure.peer.as_str(), figure.metric.as_str()));
        if first != Some(("sinew", bench.metric.as_str())) {
            return Err(format!("the first RESULT of {} must be sinew's {}", bench.name, bench.metric).into());
        }
        found.iter().for_each(|figure| {
            println!("RESULT {} {} {} {}", figure.peer, figure.bench, figure.metric, figure.value);
        });
        figures += found.len();
    }
    let unknown = process::run(Command::new(&program).arg("no_such_bench"), Show::Nothing)?;
    if unknown.end != End::Exited(Some(3)) {
        return Err(format!("an unknown benchmark must exit with status 3, not: {}", unknown.end).into());
    }
    Ok(Ran::new(figures, format!("{} benchmarks, {figures} figures", listed.len())))
}

pub(super) fn demo() -> Result<Ran, Broken> {
    let build = process::run(&mut cargo(["build", "--release"]), Show::Everything)?;
    must_succeed(&build, "make `cargo build --release` pass")?;
    let lines = prints_and_succeeds(&mut cargo(["run", "--release", "--quiet", "--", "demo"]), "the demo")?;
    Ok(Ran::new(lines, format!("{lines} lines of the demo")))
}

/// Runs a program that must end well and print something; the number of lines that it printed.
fn prints_and_succeeds(command: &mut Command, name: &str) -> Result<usize, Broken> {
    let finished = process::run_within(command, Show::Everything, PROGRAM_LIMIT, |_, _| {})?;
    must_succeed(&finished, &format!("{name} must exit with 0 within {} s", PROGRAM_LIMIT.as_secs()))?;
    match finished.stdout.len() {
        0 => Err(format!("{name} printed nothing: let it show what it does").into()),
        lines => Ok(lines),
    }
}

fn must_succeed(finished: &Finished, remedy: &str) -> Result<(), Broken> {
    if finished.end.is_success() {
        return Ok(());
    }
    Err(format!("{remedy} ({})", finished.end).into())
}

fn needs_component(subcommand: &str, component: &str) -> Result<(), Broken> {
    let finished = process::run(&mut cargo([subcommand, "--version"]), Show::Nothing)?;
    if finished.end.is_success() {
        return Ok(());
    }
    Err(format!("{component} is missing: run `rustup component add {component}`").into())
}
