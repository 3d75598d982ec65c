//! `sinew-bench <bench> [numbers]` runs one benchmark shape and prints a line per figure:
//!
//! ```text
//! RESULT <program> <bench> <metric> <value>
//! ```
//!
//! Sinew's figure, the one that a floor is about, comes first; peers that are measured in the same process
//! follow. Without numbers a shape runs with its defaults. An unknown shape exits with status 3, so that a
//! caller with a longer list can tell "does not have it" from "failed".

#![forbid(unsafe_code)]

mod actor;
mod channel;
mod dump;
mod fair;
mod fiber;
mod idle;
mod lock;
mod measure;
mod net;
mod placement;
mod stall;
mod task;
mod wasm;

use std::process::ExitCode;

/// One shape.
struct Bench {
    name: &'static str,
    about: &'static str,
    /// The metric of the first figure.
    metric: &'static str,
    numbers: &'static [Number],
    /// Runs it with as many numbers as `numbers` has.
    run: fn(&Bench, &[u64]),
}

/// One number of a shape.
struct Number {
    name: &'static str,
    default: u64,
    /// Enough to prove that the shape works, too little to mean anything.
    small: u64,
}

/// The benchmark exists and could not be run as asked.
const BAD_USAGE: u8 = 2;
/// There is no such benchmark.
const UNKNOWN_BENCH: u8 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(result) = net::run_other(&arguments) {
        return match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(what) => {
                eprintln!("{what}");
                ExitCode::FAILURE
            }
        };
    }
    match arguments.split_first() {
        None => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        Some((first, _)) if ["--help", "-h", "help"].contains(&first.as_str()) => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        Some((first, _)) if first == "--list" => {
            print!("{}", list());
            ExitCode::SUCCESS
        }
        Some((name, numbers)) => match benches().find(|bench| bench.name == name) {
            None => {
                eprint!("there is no benchmark {name:?}\n\n{}", help());
                ExitCode::from(UNKNOWN_BENCH)
            }
            Some(bench) => match bench.numbers(numbers) {
                Ok(numbers) => {
                    (bench.run)(bench, &numbers);
                    ExitCode::SUCCESS
                }
                Err(what) => {
                    eprintln!("{what}");
                    ExitCode::from(BAD_USAGE)
                }
            },
        },
    }
}

fn benches() -> impl Iterator<Item = &'static Bench> {
    let benches = [
        &fiber::BENCHES[..],
        &actor::BENCHES,
        &actor::beside::BENCHES,
        &task::BENCHES,
        &idle::BENCHES,
        &placement::BENCHES,
        &fair::BENCHES,
        &stall::BENCHES,
        &lock::BENCHES,
        &channel::BENCHES,
        &dump::BENCHES,
        &net::BENCHES,
        &wasm::BENCHES,
    ];
    benches.into_iter().flatten()
}

fn help() -> String {
    let mut help = "\
sinew-bench <bench> [numbers]   run one benchmark; defaults are in brackets
sinew-bench --list              a line per benchmark: its name, its metric, numbers for a quick try
sinew-bench http ADDR           serve \"Hello, World!\" until SIGTERM, for a client such as wrk

"
    .to_owned();
    for bench in benches() {
        let numbers: Vec<String> =
            bench.numbers.iter().map(|number| format!("{} [{}]", number.name, number.default)).collect();
        help += &format!(
            "  {:<18} {}\n  {:<18} {}; {}\n",
            bench.name,
            bench.about,
            "",
            bench.metric,
            numbers.join(", ")
        );
    }
    help
}

fn list() -> String {
    let mut list = String::new();
    for bench in benches() {
        let small: Vec<String> = bench.numbers.iter().map(|number| number.small.to_string()).collect();
        list += &format!("{} {} {}\n", bench.name, bench.metric, small.join(" "));
    }
    list
}

impl Bench {
    /// The given numbers, filled up with the defaults.
    fn numbers(&self, given: &[String]) -> Result<Vec<u64>, String> {
        if given.len() > self.numbers.len() {
            return Err(format!("{} takes at most {} numbers", self.name, self.numbers.len()));
        }
        let values = self.numbers.iter().enumerate().map(|(at, number)| match given.get(at) {
            None => Ok(number.default),
            Some(text) => text.parse().ok().filter(|value| *value > 0).ok_or_else(|| {
                format!("{}: {} must be a whole number above 0, not {text:?}", self.name, number.name)
            }),
        });
        values.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCH: Bench = Bench {
        name: "x",
        about: "",
        metric: "ns",
        numbers: &[
            Number { name: "rounds", default: 10, small: 1 },
            Number { name: "depth", default: 4, small: 2 },
        ],
        run: |_, _| {},
    };

    fn numbers(given: &[&str]) -> Result<Vec<u64>, String> {
        BENCH.numbers(&given.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn missing_numbers_are_the_defaults() {
        assert_eq!(numbers(&[]).unwrap(), [10, 4]);
        assert_eq!(numbers(&["7"]).unwrap(), [7, 4]);
        assert_eq!(numbers(&["7", "8"]).unwrap(), [7, 8]);
    }

    #[test]
    fn bad_numbers_are_named() {
        assert!(numbers(&["ten"]).unwrap_err().contains("\"ten\""));
        assert!(numbers(&["0"]).unwrap_err().contains("rounds"));
        assert!(numbers(&["1", "2", "3"]).unwrap_err().contains("at most 2"));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = benches().map(|bench| bench.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
