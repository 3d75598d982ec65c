//! `cargo xtask bench`: our figures against their floors, as a table for people.
//!
//! One process per measurement, never two at a time; repetitions are interleaved, so that a slow minute of
//! the machine touches every benchmark alike. A floor that is relative to a peer uses that peer's figure
//! from the same processes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::options::Options;
use crate::process::{self, Show, cargo};
use crate::report::{Figure, artifacts};

pub(crate) const HELP: &str = "\
cargo xtask bench [--peers] [--only NAMES] [--reps N]

Builds sinew-bench in release, runs every benchmark and prints the median of N repetitions beside the
floor that it must not exceed. A figure within 5 % above its floor counts as met.

  --peers        also measure the Rust peers that are built only for this
  --only NAMES   only the benchmarks whose name contains NAMES; several are separated by `|`
  --reps N       repetitions (5)
";

/// A benchmark as `sinew-bench --list` describes it.
pub(crate) struct Bench {
    pub(crate) name: String,
    /// The metric that the floor is about.
    pub(crate) metric: String,
    /// Numbers that only prove that it works.
    pub(crate) small: Vec<String>,
}

/// How much a figure may be, or has to be.
enum Floor {
    AtMost(f64),
    AtLeast(f64),
    /// A multiple of a peer's figure, and never more than a fixed value.
    TimesPeer {
        factor: f64,
        peer: &'static str,
        at_most: f64,
    },
    /// So much above a peer's figure.
    AbovePeer {
        peer: &'static str,
        extra: f64,
    },
    /// A multiple of the figure of the best peer that was measured.
    BestPeer(f64),
}

/// The floors, by benchmark and metric. Those of the tasks are a reference run's figures of other runtimes on 2 cores: half
/// and a quarter of Go's, may's, Go's and 1.2 times Go's, tokio's. So are those of the actors: half of actix's, 0.8 of Go's, half of
/// actix's, 0.3 of tokio's tasks; 3 times Erlang's restarts.
const FLOORS: [(&str, &str, Floor); 47] = [
    ("fiber_yield", "ns_per_roundtrip", Floor::TimesPeer { factor: 3.0, peer: "corosensei", at_most: 15.0 }),
    ("fiber_spawn", "ns_per_fiber", Floor::AtMost(80.0)),
    ("fiber_try", "ns_per_try", Floor::AtMost(100.0)),
    ("fiber_raise", "ns_per_raise", Floor::AbovePeer { peer: "std", extra: 500.0 }),
    ("fiber_chain", "ns_per_level", Floor::AtMost(11.0)),
    ("fiber_mem", "bytes_each", Floor::AtMost(4900.0)),
    ("spawn_join", "ns_per_task", Floor::AtMost(118.0)),
    ("yield_2", "ns_per_yield", Floor::AtMost(18.5)),
    ("yield_100", "ns_per_yield", Floor::AtMost(21.8)),
    ("skynet", "ns_per_actor", Floor::AtMost(133.0)),
    ("sleepers", "wall_ms", Floor::AtMost(258.0)),
    ("sleepers", "cpu_ms", Floor::AtMost(360.0)),
    ("sleepers_future", "wall_ms", Floor::AtMost(171.0)),
    ("sleepers_future", "cpu_ms", Floor::AtMost(141.0)),
    ("idle_mem", "rss_bytes_each", Floor::AtMost(4600.0)),
    ("idle_mem_future", "rss_bytes_each", Floor::AtMost(439.0)),
    ("dump_100k", "ms", Floor::AtMost(200.0)),
    ("stall", "p99_ms", Floor::AtMost(20.0)),
    ("tcp_echo", "ns_per_round", Floor::BestPeer(1.0)),
    ("tcp_idle_future", "rss_bytes_each", Floor::BestPeer(1.0)),
    ("par8", "efficiency", Floor::AtLeast(0.9)),
    ("lag", "us_p95", Floor::AtMost(100.0)),
    ("block_then_compute", "efficiency", Floor::AtLeast(0.85)),
    ("fair", "p99_ms", Floor::AtMost(5.0)),
    ("neighbours", "ratio", Floor::AtMost(1.1)),
    ("scale", "spawn_join_growth", Floor::AtMost(1.3)),
    ("scale", "timer_growth", Floor::AtMost(1.3)),
    ("mutex_contended_2", "ns_per_lock", Floor::BestPeer(1.0)),
    ("mutex_contended_64", "ns_per_lock", Floor::BestPeer(1.0)),
    ("pingpong_unbuffered", "ns_per_roundtrip", Floor::AtMost(78.0)),
    ("pingpong_cross", "ns_per_roundtrip", Floor::TimesPeer { factor: 4.0, peer: "bare", at_most: 470.0 }),
    ("chan_spsc_buf1024", "ns_per_item", Floor::AtMost(10.1)),
    ("chan_spsc_cross", "ns_per_item", Floor::AtMost(12.0)),
    ("chan_mpmc_4x4", "ns_per_item", Floor::AtMost(10.1)),
    ("select_8", "ns_per_item", Floor::BestPeer(1.0)),
    ("wake_1_of_1000", "ns_per_wake", Floor::BestPeer(1.0)),
    ("wake_1_of_1000_future", "ns_per_wake", Floor::BestPeer(1.0)),
    ("chan_thread", "ns_per_item", Floor::BestPeer(1.0)),
    ("actor_pingpong", "ns_per_roundtrip", Floor::AtMost(62.3)),
    ("actor_fanin", "ns_per_msg", Floor::AtMost(20.4)),
    ("actor_ring", "ns_per_hop", Floor::AtMost(35.3)),
    ("skynet_actor", "ns_per_actor", Floor::AtMost(163.7)),
    ("idle_mem_actor", "rss_bytes_each", Floor::AtMost(384.0)),
    ("restart_20000", "restarts_per_s", Floor::AtLeast(205_925.0)),
    ("actor_ask", "ns_per_ask", Floor::BestPeer(0.5)),
    ("actor_spawn_stop", "ns_per_actor", Floor::BestPeer(0.5)),
    ("flooded", "p99_us", Floor::BestPeer(0.5)),
];

const TOLERANCE: f64 = 1.05;

/// What a floor means that a figure has to reach.
const AT_LEAST: &str = "at least";

/// Longer than any benchmark takes with its default numbers; one that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(300);

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut options = Options::new(arguments);
    let with_peers = options.switch("--peers");
    let only = options.text("--only")?;
    let repetitions = options.number("--reps", 5)?;
    options.finish()?;

    let program = build(with_peers).map_err(Failure::Work)?;
    let mut benches = list(&program).map_err(Failure::Work)?;
    if let Some(only) = &only {
        benches.retain(|bench| only.split('|').any(|part| bench.name.contains(part)));
        if benches.is_empty() {
            return Err(Failure::Usage(format!("no benchmark has a name that contains {only:?}")));
        }
    }

    let mut figures = Vec::new();
    for repetition in 1..=repetitions {
        for bench in &benches {
            eprintln!("repetition {repetition} of {repetitions}: {}", bench.name);
            figures.extend(measure(&program, &bench.name, &[]).map_err(Failure::Work)?);
        }
    }

    println!("{}", machine());
    println!("median of {repetitions}\n");
    print!("{}", table(&medians(&figures)));
    Ok(())
}

/// Builds `sinew-bench` and says where it is.
pub(crate) fn build(with_peers: bool) -> Result<PathBuf, String> {
    let mut command = cargo(["build", "--release", "--package", "sinew-bench"]);
    command.arg("--message-format=json-render-diagnostics");
    // Floors are relative to the actor libraries, so they are always there.
    command.args(["--features", if with_peers { "actors-peers,peers" } else { "actors-peers" }]);
    let finished = process::run(&mut command, Show::Stderr)?;
    if !finished.end.is_success() {
        return Err(format!("make `cargo build --release --package sinew-bench` pass ({})", finished.end));
    }
    let program = artifacts(finished.lines()).into_iter().find_map(|artifact| artifact.executable);
    program.map(PathBuf::from).ok_or_else(|| "sinew-bench was built without a program".to_owned())
}

/// The benchmarks that `program` has.
pub(crate) fn list(program: &Path) -> Result<Vec<Bench>, String> {
    let finished = process::run(Command::new(program).arg("--list"), Show::Stderr)?;
    let benches: Option<Vec<Bench>> = finished.stdout.iter().map(|line| listed(line)).collect();
    benches
        .filter(|benches| finished.end.is_success() && !benches.is_empty())
        .ok_or_else(|| "`sinew-bench --list` must print `<bench> <metric> <small numbers>` lines".to_owned())
}

fn listed(line: &str) -> Option<Bench> {
    let mut words = line.split_whitespace().map(str::to_owned);
    Some(Bench { name: words.next()?, metric: words.next()?, small: words.collect() })
}

/// Runs one benchmark in a process of its own; at least one figure, sinew's among them.
pub(crate) fn measure(program: &Path, bench: &str, numbers: &[String]) -> Result<Vec<Figure>, String> {
    let mut command = Command::new(program);
    command.arg(bench).args(numbers);
    let finished = process::run_within(&mut command, Show::Stderr, LIMIT, |_, _| {})?;
    if !finished.end.is_success() {
        return Err(format!("sinew-bench {bench} failed: {}", finished.end));
    }
    let figures: Vec<Figure> =
        finished.stdout.iter().filter_map(|line| Figure::read(line)).collect::<Result<_, _>>()?;
    // A shape may put a number into the name of its figure: `yield` prints `yield_2`.
    let of_this =
        |name: &str| name.strip_prefix(bench).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    match figures.iter().find(|figure| !of_this(&figure.bench)) {
        Some(other) => Err(format!("sinew-bench {bench} printed a figure of {}", other.bench)),
        None if figures.is_empty() => Err(format!("sinew-bench {bench} printed no RESULT line")),
        None => Ok(figures),
    }
}

/// One figure per peer, benchmark and metric: the median; in the order of first appearance.
fn medians(figures: &[Figure]) -> Vec<Figure> {
    let same = |a: &Figure, b: &Figure| (&a.peer, &a.bench, &a.metric) == (&b.peer, &b.bench, &b.metric);
    let mut medians: Vec<Figure> = Vec::new();
    for figure in figures {
        if medians.iter().any(|known| same(known, figure)) {
            continue;
        }
        let mut values: Vec<f64> =
            figures.iter().filter(|other| same(other, figure)).map(|other| other.value).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let value =
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        medians.push(Figure { value, ..figure.clone() });
    }
    medians
}

/// The floor of a figure in numbers and in words; `None` for peers, and for what has no floor.
fn floor(figure: &Figure, all: &[Figure]) -> Option<(f64, String)> {
    if figure.peer != "sinew" {
        return None;
    }
    let same = |other: &&Figure| (&other.bench, &other.metric) == (&figure.bench, &figure.metric);
    let of_peer =
        |peer: &str| all.iter().filter(same).find(|other| other.peer == peer).map(|other| other.value);
    let name = (figure.bench.as_str(), figure.metric.as_str());
    let (.., floor) = FLOORS.iter().find(|(bench, metric, _)| (*bench, *metric) == name)?;
    Some(match floor {
        Floor::AtMost(value) => (*value, String::new()),
        Floor::AtLeast(value) => (*value, AT_LEAST.to_owned()),
        Floor::TimesPeer { factor, peer, at_most } => {
            ((factor * of_peer(peer)?).min(*at_most), format!("{factor}x {peer}, at most {at_most}"))
        }
        Floor::AbovePeer { peer, extra } => (of_peer(peer)? + extra, format!("{peer} + {extra}")),
        Floor::BestPeer(factor) => {
            let peers = all.iter().filter(same).filter(|other| !other.peer.starts_with("sinew"));
            let best = peers.min_by(|one, other| one.value.total_cmp(&other.value))?;
            let share = if *factor == 1.0 { String::new() } else { format!("{factor}x ") };
            (factor * best.value, format!("{share}{}, the best", best.peer))
        }
    })
}

fn table(figures: &[Figure]) -> String {
    let mut table = format!(
        "{:<18} {:<16} {:<17} {:>10} {:>10}  {:<11} floor is\n",
        "bench", "program", "metric", "value", "floor", "met"
    );
    for figure in figures {
        let Figure { peer, bench, metric, value } = figure;
        let (limit, met, meaning) = match floor(figure, figures) {
            None => (String::new(), "", String::new()),
            Some((limit, meaning)) => {
                let excess = if meaning == AT_LEAST { limit / value } else { value / limit };
                let met = if excess <= 1.0 {
                    "yes"
                } else if excess <= TOLERANCE {
                    "within 5 %"
                } else {
                    "NO"
                };
                (number(limit), met, meaning)
            }
        };
        let row = format!(
            "{bench:<18} {peer:<16} {metric:<17} {:>10} {limit:>10}  {met:<11} {meaning}",
            number(*value)
        );
        table += row.trim_end();
        table += "\n";
    }
    table
}

/// A figure for people: small ones are ratios, where the second digit counts.
fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// What the figures were measured on.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor".to_owned(), |rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
    let kernel = read("/proc/sys/kernel/osrelease");
    let rustc = process::run(Command::new("rustc").arg("--version"), Show::Nothing)
        .ok()
        .and_then(|finished| finished.stdout.first().cloned())
        .unwrap_or_default();
    format!("{cpus} CPUs, {model}, Linux {}, {rustc}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(peer: &str, bench: &str, metric: &str, value: f64) -> Figure {
        Figure { peer: peer.into(), bench: bench.into(), metric: metric.into(), value }
    }

    #[test]
    fn the_median_is_taken_per_peer_and_metric() {
        let runs = [9.0, 1.0, 5.0].map(|value| figure("sinew", "fiber_try", "ns_per_try", value));
        let mut figures = runs.to_vec();
        figures.push(figure("std", "fiber_try", "ns_per_try", 2.0));
        figures.push(figure("std", "fiber_try", "ns_per_try", 4.0));
        let medians = medians(&figures);
        assert_eq!(medians.iter().map(|figure| figure.value).collect::<Vec<_>>(), [5.0, 3.0]);
    }

    #[test]
    fn a_floor_may_depend_on_a_peer_and_has_a_cap() {
        let ours = figure("sinew", "fiber_yield", "ns_per_roundtrip", 12.0);
        let slow_peer = figure("corosensei", "fiber_yield", "ns_per_roundtrip", 8.0);
        let fast_peer = figure("corosensei", "fiber_yield", "ns_per_roundtrip", 3.0);
        assert_eq!(floor(&ours, &[ours.clone(), slow_peer]).unwrap().0, 15.0);
        assert_eq!(floor(&ours, &[ours.clone(), fast_peer.clone()]).unwrap().0, 9.0);
        assert!(floor(&ours, std::slice::from_ref(&ours)).is_none());
        assert!(floor(&fast_peer, std::slice::from_ref(&ours)).is_none());
    }

    #[test]
    fn a_floor_may_be_the_best_peer() {
        let [ours, slow, fast] = [("sinew", 3.0), ("tokio", 9.0), ("parking_lot", 2.0)]
            .map(|(peer, value)| figure(peer, "mutex_contended_2", "ns_per_lock", value));
        let (limit, meaning) = floor(&ours, &[ours.clone(), slow, fast]).unwrap();
        assert_eq!((limit, meaning.as_str()), (2.0, "parking_lot, the best"));
        assert!(floor(&ours, std::slice::from_ref(&ours)).is_none());
    }

    #[test]
    fn a_floor_may_be_a_share_of_the_best_peer() {
        let [ours, slow, fast] = [("sinew", 3.0), ("kameo", 9.0), ("actix", 4.0)]
            .map(|(peer, value)| figure(peer, "actor_ask", "ns_per_ask", value));
        let (limit, meaning) = floor(&ours, &[ours.clone(), slow, fast]).unwrap();
        assert_eq!((limit, meaning.as_str()), (2.0, "0.5x actix, the best"));
    }

    #[test]
    fn the_table_says_whether_a_floor_is_met() {
        let at = |value| table(&[figure("sinew", "fiber_spawn", "ns_per_fiber", value)]);
        assert!(at(79.0).contains(" yes"));
        assert!(at(83.0).contains(" within 5 %"));
        assert!(at(90.0).contains(" NO"));
        let at = |value| table(&[figure("sinew", "par8", "efficiency", value)]);
        assert!(at(0.95).contains(" yes"));
        assert!(at(0.88).contains(" within 5 %"));
        assert!(at(0.5).contains(" NO"));
    }

    #[test]
    fn a_listed_benchmark_has_a_name_a_metric_and_small_numbers() {
        let bench = listed("fiber_raise ns_per_raise 100 1").unwrap();
        assert_eq!((bench.name.as_str(), bench.metric.as_str()), ("fiber_raise", "ns_per_raise"));
        assert_eq!(bench.small, ["100", "1"]);
        assert!(listed("fiber_raise").is_none());
    }
}
