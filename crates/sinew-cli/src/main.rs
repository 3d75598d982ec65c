//! The `sinew` program.

#![forbid(unsafe_code)]

mod demo;

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
        /// For how many seconds.
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let outcome = match command {
        Command::Demo { seconds } => demo::run(seconds),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sinew: {error}");
            ExitCode::FAILURE
        }
    }
}
