//! Timing several programs of one shape side by side, and what a process weighs.

use std::fs;
use std::time::Duration;

use crate::Bench;

/// One program of a shape: its name in the RESULT line, and a function that does `n` rounds and returns the
/// time that they took, without setting up and taking down.
pub(crate) type Side = (&'static str, fn(u64) -> Duration);

/// How often each side is measured; the median counts.
const ROUNDS: usize = 5;

/// Measures all sides and prints a RESULT line for each, in nanoseconds per round.
///
/// The sides take turns, so that a slow moment of the machine does not fall on one of them alone. Each does
/// an unmeasured turn first: caches, pools and branch predictors are warm for all.
pub(crate) fn compare(bench: &Bench, n: u64, sides: &[Side]) {
    let sides: Vec<AnySide> =
        sides.iter().map(|(program, run)| (*program, run as &dyn Fn(u64) -> Duration)).collect();
    compare_as(bench.name, bench.metric, n, &sides);
}

/// [`Side`] with numbers of its own.
pub(crate) type AnySide<'a> = (&'static str, &'a dyn Fn(u64) -> Duration);

/// [`compare`] for a shape that has a number in the name of its figure.
pub(crate) fn compare_as(name: &str, metric: &str, n: u64, sides: &[AnySide]) {
    compare_by(|seconds, n| seconds * 1e9 / n, name, metric, n, sides);
}

/// [`compare_as`] in rounds per second.
pub(crate) fn compare_rates(name: &str, metric: &str, n: u64, sides: &[AnySide]) {
    compare_by(|seconds, n| n / seconds, name, metric, n, sides);
}

fn compare_by(figure: fn(f64, f64) -> f64, name: &str, metric: &str, n: u64, sides: &[AnySide]) {
    let n = n.div_ceil(ROUNDS as u64);
    for (_, run) in sides {
        run(n.div_ceil(4));
    }
    let mut figures = vec![Vec::with_capacity(ROUNDS); sides.len()];
    for _ in 0..ROUNDS {
        for (side, (_, run)) in sides.iter().enumerate() {
            figures[side].push(figure(run(n).as_secs_f64(), n as f64));
        }
    }
    for ((program, _), figures) in sides.iter().zip(figures) {
        report_as(program, name, metric, median(figures));
    }
}

pub(crate) fn report(program: &str, bench: &Bench, value: f64) {
    report_as(program, bench.name, bench.metric, value);
}

/// [`report`] for a shape that has a number in the name of its figure.
pub(crate) fn report_as(program: &str, name: &str, metric: &str, value: f64) {
    println!("RESULT {program} {name} {metric} {value:.2}");
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The bytes of memory that this process occupies: resident pages and page tables.
pub(crate) fn occupied_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux describes a process in /proc");
    kilobytes(&status, "VmRSS:") * 1024 + kilobytes(&status, "VmPTE:") * 1024
}

fn kilobytes(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("the kernel reports VmRSS and VmPTE in kB")
}

/// The processor time that this process has used, its threads that have ended included; in steps of 10 ms.
pub(crate) fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux describes a process in /proc");
    // Behind the name, which is in brackets: the 12th and 13th fields are user and system time in ticks.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_an_outlier() {
        assert_eq!(median(vec![3.0, 1000.0, 1.0, 2.0, 4.0]), 3.0);
    }

    #[test]
    fn fields_of_the_status_are_read_in_kilobytes() {
        let status = "Name:\tx\nVmRSS:\t    1234 kB\nVmPTE:\t      56 kB\n";
        assert_eq!(kilobytes(status, "VmRSS:"), 1234);
        assert_eq!(kilobytes(status, "VmPTE:"), 56);
        assert!(occupied_bytes() > 0);
    }
}
