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
    /// Show what Sinew can do today.
    Demo,
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let outcome = match command {
        Command::Demo => demo::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sinew: {error}");
            ExitCode::FAILURE
        }
    }
}
