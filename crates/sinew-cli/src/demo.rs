//! `sinew demo`: a supervised tree of actors at work: workers that crash and are restarted, one that blocks, one that is flooded.
//!
//! What it shows, and the books at its end, come from [`NodeRef::snapshot`](sinew_kernel::NodeRef::snapshot).

mod books;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use books::Books;
use sinew_io::signal::{SIGINT, Signals};
use sinew_kernel::{
    Actor, ActorInfo, ChildSpec, Ctx, Flow, Kind, Node, NodeRef, Payload, Policy, Snapshot, Strategy,
    SupervisorRef,
};
use sinew_sched::{WaitError, sleep};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Between two lots of messages.
const TICK: Duration = Duration::from_millis(10);
/// Who is sent how many messages in a tick.
const LOTS: [(&str, u32); 5] =
    [("worker 1", 20), ("worker 2", 20), ("worker 3", 20), ("blocker", 1), ("flooded", 5_000)];

/// Who is there, as the tree that they are, and what each does.
const ACTORS: &str = "\
root         supervisor: restarts each of its children that crashes
  blocker    sleeps at each job; its mailbox fills up, and drops the oldest
  flooded    is sent more than its mailbox holds, which refuses the rest
  workers    supervisor: restarts its workers
    worker 1 crashes at some of its jobs
    worker 2 as worker 1
    worker 3 as worker 1
";

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

/// Handles fewer jobs than it is sent: it pauses at each sixteenth.
struct Flooded;

impl Actor for Flooded {
    type Msg = Job;

    fn handle(&mut self, Job(number): Job, _: &mut Ctx<Job>) -> Flow {
        if number % 16 == 0 {
            sleep(Duration::from_millis(1));
        }
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
        .spawn()?;
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
    let ctrl_c = Signals::new([SIGINT])?;
    let node = Node::builder().log_off().build()?;
    let root = tree(*node)?;
    let before = node.snapshot().totals.accepted();
    let mut out = io::stdout().lock();
    let live = out.is_terminal();
    let between = if live { Duration::from_millis(200) } else { Duration::from_secs(1) };
    let intro = format!("Actors at work for {seconds} s, crashes included; Ctrl-C ends it.\n\n{ACTORS}");
    if !live {
        writeln!(out, "{intro}")?;
    }

    let (start, mut sent, mut shown) = (Instant::now(), Sent::default(), None::<Instant>);
    while start.elapsed() < Duration::from_secs(seconds) {
        sent.lot(*node, &node.snapshot());
        if shown.is_none_or(|shown| shown.elapsed() >= between) {
            shown = Some(Instant::now());
            let (seen, books) = Books::look(*node, before, &sent);
            if live {
                // Home, and clear what is below; rows are cut at the edge, so that all of it fits into 24 lines.
                write!(out, "\x1b[H\x1b[J{intro}\n{books}\n\n\x1b[?7l{}\x1b[?7h", table(&seen))?;
            } else {
                writeln!(out, "{}", line(&seen, &books, start.elapsed()))?;
            }
            out.flush()?;
        }
        match ctrl_c.recv_timeout(TICK) {
            Ok(_) => break,
            Err(WaitError::Timeout) => (),
            Err(WaitError::Refused(refused)) => return Err(refused.into()),
        }
    }

    root.stop();
    root.join()?;
    writeln!(out, "\n{}", Books::of(&node.snapshot(), before, &sent).close()?)?;
    Ok(())
}

fn table(seen: &Snapshot) -> String {
    let mut text = format!(
        "{:<12} {:>8} {:>9} {:>8}  {:<24} last error\n",
        "actor", "mailbox", "handled", "restarts", "state"
    );
    add_rows(&mut text, seen, seen.roots().collect(), 0);
    text
}

/// Rows for these actors, each with its children under it.
fn add_rows(text: &mut String, seen: &Snapshot, mut actors: Vec<&ActorInfo>, depth: usize) {
    // By name: whoever takes another's place takes its row.
    actors.sort_by_key(|actor| &actor.name);
    for actor in actors {
        let name = actor.name.as_deref().unwrap_or("");
        let error = actor.last_error.as_ref().map(ToString::to_string).unwrap_or_default();
        let row = format!(
            "{:<12} {:>8} {:>9} {:>8}  {:<24} {}",
            format!("{:1$}{name}", "", 2 * depth),
            format!("{}/{}", actor.queued, actor.capacity),
            actor.handled,
            actor.restarts,
            actor.state.to_string(),
            error.lines().next().unwrap_or("")
        );
        let _ = writeln!(text, "{}", row.trim_end());
        add_rows(text, seen, seen.children(actor.id).collect(), depth + 1);
    }
}

fn line(seen: &Snapshot, books: &Books, at: Duration) -> String {
    let restarts: u32 = seen.actors.iter().map(|actor| actor.restarts).sum();
    let blocked = seen.actors.iter().filter(|actor| actor.state.blocked().is_some()).count();
    format!("{:>3} s: {books}; {blocked} blocked, {restarts} restarts", at.as_secs())
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
        // A lot takes the flooded actor longer than it takes to send, so its mailbox is full sooner or later.
        for lot in 0.. {
            sent.lot(*node, &node.snapshot());
            if lot >= 20 && sent.refused > 0 {
                break;
            }
        }
        root.stop();
        root.join().unwrap();
        let ended = node.snapshot();
        Books::of(&ended, before, &sent).close().unwrap();

        sent.messages += 1;
        let books = Books::of(&ended, before, &sent);
        assert!(books.close().unwrap_err().to_string().contains("do not balance"));
        assert!(books.to_string().contains("about"), "{books} does not add up and does not say so");
    }

    #[test]
    fn the_table_and_what_is_said_of_the_actors_show_the_same_tree() {
        let node = Node::builder().log_off().build().unwrap();
        let _root = tree(*node).unwrap();
        let table = table(&node.snapshot());
        let actors =
            |text: &str| text.lines().map(|line| line[..12].trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(actors(&table)[1..], actors(ACTORS));
    }
}
