//! `sinew demo`: a supervised tree of actors at work: workers that crash and are restarted, one that blocks, one that is flooded.
//!
//! What it shows, and the books at its end, come from [`NodeRef::snapshot`](sinew_kernel::NodeRef::snapshot).

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use sinew_kernel::{
    Actor, ChildSpec, Ctx, Flow, Kind, Node, NodeRef, Payload, Policy, Snapshot, Strategy, SupervisorRef,
};
use sinew_sched::sleep;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Between two lots of messages.
const TICK: Duration = Duration::from_millis(10);
/// Who is sent how many messages in a tick.
const LOTS: [(&str, u32); 5] =
    [("worker 1", 20), ("worker 2", 20), ("worker 3", 20), ("blocker", 1), ("flooded", 5_000)];

/// Crashes at some of its jobs.
struct Worker;

/// Job with this number.
struct Job(u64);

impl Actor for Worker {
    type Msg = Job;

    fn handle(&mut self, Job(number): Job, _: &mut Ctx<Job>) -> Flow {
        assert!(number % 997 != 0, "job {number} is broken");
        Flow::Continue
    }
}

/// Waits at each of its jobs.
struct Blocker;

impl Actor for Blocker {
    type Msg = Job;

    fn handle(&mut self, _: Job, _: &mut Ctx<Job>) -> Flow {
        sleep(Duration::from_millis(50)); // its thread runs others
        Flow::Continue
    }
}

/// Has little to do, and too much of it.
struct Flooded;

impl Actor for Flooded {
    type Msg = Job;

    fn handle(&mut self, _: Job, _: &mut Ctx<Job>) -> Flow {
        Flow::Continue
    }
}

fn tree(node: NodeRef) -> Outcome<SupervisorRef> {
    let workers = move || {
        let workers = node.supervisor(Strategy::OneForOne).max_restarts(1_000, Duration::from_secs(1));
        ["worker 1", "worker 2", "worker 3"]
            .into_iter()
            .fold(workers, |workers, name| workers.child(ChildSpec::new(name, || Worker).name(name)))
    };
    let blocker =
        ChildSpec::new("blocker", || Blocker).name("blocker").mailbox(64).policy(Policy::DropOldest);
    let flooded = ChildSpec::new("flooded", || Flooded).name("flooded").mailbox(256).policy(Policy::Refuse);
    let root = node
        .supervisor(Strategy::OneForOne)
        .name("root")
        .max_restarts(1_000, Duration::from_secs(1))
        .child(ChildSpec::supervisor("workers", workers).name("workers"))
        .child(blocker)
        .child(flooded)
        .start()?;
    root.wait_started()?;
    Ok(root)
}

/// What was sent, and what came back.
#[derive(Default)]
struct Sent {
    messages: u64,
    refused: u64,
}

impl Sent {
    /// One lot for all that the snapshot knows. Who has crashed since gets none: those come back.
    fn lot(&mut self, node: NodeRef, seen: &Snapshot) {
        for (name, count) in LOTS {
            let Some(actor) = seen.named(name) else { continue };
            for _ in 0..count {
                self.messages += 1;
                let job = Payload::value(Job(self.messages));
                self.refused += u64::from(node.send(actor.id, Kind(0), job).is_err());
            }
        }
    }
}

pub(crate) fn run(seconds: u64) -> Outcome {
    std::panic::set_hook(Box::new(|_| ())); // crashes are part of the show: the table has them
    let node = Node::builder().log_off().build()?;
    let root = tree(*node)?;
    let before = node.snapshot().totals.accepted();
    let mut out = io::stdout().lock();
    let live = out.is_terminal();
    let between = if live { Duration::from_millis(200) } else { Duration::from_secs(1) };

    let (start, mut sent, mut shown) = (Instant::now(), Sent::default(), None::<Instant>);
    while start.elapsed() < Duration::from_secs(seconds) {
        let seen = node.snapshot();
        sent.lot(*node, &seen);
        if shown.is_none_or(|shown| shown.elapsed() >= between) {
            shown = Some(Instant::now());
            if live {
                write!(out, "\x1b[H\x1b[J{}", table(&seen, &sent))?; // home, and clear what is below
            } else {
                writeln!(out, "{}", line(&seen, &sent, start.elapsed()))?;
            }
            out.flush()?;
        }
        sinew_sched::sleep(TICK);
    }

    root.stop();
    root.join()?;
    let ended = node.snapshot();
    writeln!(out, "{}", books(&ended, before, &sent)?)?;
    Ok(())
}

fn table(seen: &Snapshot, sent: &Sent) -> String {
    let mut text = format!("{} messages sent, {} refused\n\n", sent.messages, sent.refused);
    let _ = writeln!(
        text,
        "{:<10} {:>8} {:>9} {:>8}  {:<24} last error",
        "actor", "mailbox", "handled", "restarts", "state"
    );
    // By name: whoever takes another's place takes its row.
    let mut actors: Vec<_> = seen.actors.iter().collect();
    actors.sort_by_key(|actor| &actor.name);
    for actor in actors {
        let name = actor.name.as_deref().unwrap_or("");
        let error = actor.last_error.as_ref().map(ToString::to_string).unwrap_or_default();
        let row = format!(
            "{name:<10} {:>8} {:>9} {:>8}  {:<24} {}",
            format!("{}/{}", actor.queued, actor.capacity),
            actor.handled,
            actor.restarts,
            actor.state.to_string(),
            error.lines().next().unwrap_or("")
        );
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

fn line(seen: &Snapshot, sent: &Sent, at: Duration) -> String {
    let restarts: u32 = seen.actors.iter().map(|actor| actor.restarts).sum();
    let blocked = seen.actors.iter().filter(|actor| actor.state.blocked().is_some()).count();
    format!(
        "{:>3} s: {} sent, {} refused, {} handled, {} queued; {} actors, {blocked} blocked, {restarts} restarts",
        at.as_secs(),
        sent.messages,
        sent.refused,
        seen.totals.handled,
        seen.totals.queued,
        seen.totals.actors
    )
}

/// The books, if they balance. `before` is how many messages there were before the first that was `sent`.
fn books(ended: &Snapshot, before: u64, sent: &Sent) -> Outcome<String> {
    let totals = &ended.totals;
    let handled = totals.handled - before.min(totals.handled);
    let accounted = handled + totals.failed + sent.refused + totals.dead_letters + totals.queued;
    let books = format!(
        "{} messages in = {handled} handled + {} failed and reported + {} refused + {} dead letters",
        sent.messages, totals.failed, sent.refused, totals.dead_letters
    );
    match totals.queued == 0 && accounted == sent.messages {
        true => Ok(books),
        false => Err(format!("the books do not balance: {books}; {} queued", totals.queued).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_books_balance_with_crashes_a_flood_and_a_blocked_actor() {
        let node = Node::builder().log_off().build().unwrap();
        let root = tree(*node).unwrap();
        let before = node.snapshot().totals.accepted();
        let mut sent = Sent::default();
        for _ in 0..20 {
            sent.lot(*node, &node.snapshot());
        }
        root.stop();
        root.join().unwrap();
        let ended = node.snapshot();
        assert!(sent.refused > 0, "the flooded one had room for all");
        books(&ended, before, &sent).unwrap();

        sent.messages += 1;
        assert!(books(&ended, before, &sent).unwrap_err().to_string().contains("do not balance"));
    }

    #[test]
    fn the_table_has_a_row_for_each_actor_of_the_tree() {
        let node = Node::builder().log_off().build().unwrap();
        let _root = tree(*node).unwrap();
        let text = table(&node.snapshot(), &Sent::default());
        for name in ["root", "workers", "worker 1", "worker 2", "worker 3", "blocker", "flooded"] {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name} is not in:\n{text}");
        }
    }
}
