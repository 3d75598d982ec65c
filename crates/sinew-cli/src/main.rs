//! The `sinew` program.

#![forbid(unsafe_code)]

mod demo;

use std::error::Error;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sinew: an actor microkernel.
#[derive(Parser)]
#[command(name = "sinew", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show a tree of actors that crash, block and are flooded, and the books at the end.
    Demo {
        /// For how many seconds; Ctrl-C ends it earlier.
        #[arg(long, default_value = "10", value_parser = seconds, allow_negative_numbers = true)]
        seconds: NonZeroU64,
    },
}

fn seconds(text: &str) -> Result<NonZeroU64, &'static str> {
    text.parse().map_err(|_| "give whole seconds, at least 1, such as 5")
}

/// Whether whoever read the output has enough of it, such as `head`.
fn is_unread(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let outcome = match command {
        Command::Demo { seconds } => demo::run(seconds.get()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_unread(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "sinew: {error}"); // the exit code says it as well
            ExitCode::FAILURE
        }
    }
}
