//! Sinew's own commands, as `cargo xtask <command>`: everything that a contributor or a build machine runs.
//!
//! The crate has no dependencies, so that it builds in a second and `ci` can report on a workspace that
//! does not compile.

#![forbid(unsafe_code)]

mod bench;
mod ci;
mod guests;
mod options;
mod process;
mod programs;
mod report;
mod stress;
mod workspace;

use std::process::ExitCode;

/// What a command ends with when it did not do what it was asked.
#[derive(Debug)]
enum Failure {
    /// The command line was not understood; the text says how.
    Usage(String),
    /// The work failed; the text says what and what to do.
    Work(String),
    /// The work failed, and the command has said all about it.
    Reported,
}

type Run = fn(&[String]) -> Result<(), Failure>;

const HELP: &str = "\
cargo xtask <command>

Commands:
  test           check formatting, lints, tests and the demo: what a change needs first
  ci [step]...   check everything, or only the named steps
  bench          measure Sinew and print a table of figures against their floors
  stress         repeat the release tests under different numbers of test threads
  guests         build the WebAssembly guests and compare them with the committed modules
  layers <crate> print which modules of a crate name which, and their cycles
  help           print this text

`cargo xtask <command> --help` lists a command's options.
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let wants_help = rest.iter().any(|argument| argument == "--help" || argument == "-h");

    let (help, run): (String, Run) = match command.as_str() {
        "test" => (ci::TEST_HELP.to_owned(), ci::test),
        "ci" => (ci::help(), ci::run),
        "bench" => (bench::HELP.to_owned(), bench::run),
        "stress" => (stress::HELP.to_owned(), stress::run),
        "guests" => (guests::HELP.to_owned(), guests::run),
        "layers" => (ci::layers::HELP.to_owned(), ci::layers::run),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        "" => {
            eprint!("cargo xtask needs a command\n\n{HELP}");
            return ExitCode::from(2);
        }
        unknown => {
            eprint!("cargo xtask has no command {unknown:?}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if wants_help {
        print!("{help}");
        return ExitCode::SUCCESS;
    }
    match run(&rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(what)) => {
            eprint!("{what}\n\n{help}");
            ExitCode::from(2)
        }
        Err(Failure::Work(what)) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
        Err(Failure::Reported) => ExitCode::FAILURE,
    }
}
