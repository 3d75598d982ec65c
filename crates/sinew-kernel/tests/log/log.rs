//! The log: what its lines look like, which there are, that nobody waits for it, and that what is lost is said.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sinew_core::payload::{Log, SystemPayload};
use sinew_kernel::{
    Actor, ActorId, ActorRef, Builder, ChildSpec, Ctx, ExitReason, Flow, Kind, Level, LevelFilter, LocalNode,
    Message, Node, NodeRef, Payload, Strategy,
};
use sinew_sched::{ManualClock, Runtime};

use crate::kept::Kept;

/// A node on this thread with these options, at nine seconds after the epoch.
fn local(options: impl FnOnce(Builder) -> Builder) -> (LocalNode, Kept, ManualClock) {
    let (kept, clock) = (Kept::default(), ManualClock::new());
    clock.hold(true);
    clock.advance(Duration::from_millis(9_050));
    let builder = Node::builder().runtime(Runtime::builder().manual_clock(&clock)).log_to(kept.clone());
    (options(builder).build_current_thread().unwrap(), kept, clock)
}

fn written(node: NodeRef, kept: &Kept) -> String {
    node.logger().flush().unwrap();
    kept.text()
}

/// Logs what it is told.
struct Says;

impl Actor for Says {
    type Msg = (Level, &'static str);

    fn handle(&mut self, (level, text): (Level, &'static str), ctx: &mut Ctx<(Level, &'static str)>) -> Flow {
        if text == "fail" {
            panic!("it fails");
        }
        ctx.log(level, text);
        Flow::Continue
    }
}

const AT: &str = "[1970-01-01T00:00:09.050Z]";

#[test]
fn a_line_has_its_time_its_level_and_who_says_it() {
    let (node, kept, clock) = local(|options| options);
    let says = node.spawn(Says).unwrap();
    says.tell((Level::Info, "hello")).unwrap();
    says.tell((Level::Error, "it is\n[late]")).unwrap();
    node.run_until_idle();
    clock.advance(Duration::from_secs(60));
    node.log(Level::Warn, format_args!("{} and all", 1));
    let id = says.id();
    let expected = format!(
        "{AT} INFO [{id}] hello\n{AT} ERROR [{id}] it is\n    [late]\n[1970-01-01T00:01:09.050Z] WARN [1.0] 1 and all\n"
    );
    assert_eq!(written(*node, &kept), expected);
}

#[test]
fn a_line_of_an_actor_that_has_a_name_begins_with_it() {
    let (node, kept, _clock) = local(|options| options);
    let named = node.actor().name("orders").spawn(Says).unwrap();
    node.register("/shop/orders", named.id()).unwrap();
    let odd = node.actor().name("a\n[b] \"c\"").spawn(Says).unwrap();
    for actor in [&named, &odd] {
        actor.tell((Level::Info, "hello")).unwrap();
    }
    let (named, odd) = (named.id(), odd.id());
    node.run_until_idle();
    let log = node.logger().actor().unwrap();
    node.send(log, Kind::LOG, payload(Level::Info, named, "by message")).unwrap();
    node.run_until_idle();
    let expected = format!(
        "{AT} INFO [{named}] \"orders\": hello\n{AT} INFO [{odd}] \"a\\n[b] \\\"c\\\"\": hello\n{AT} INFO [{named}] \"orders\": by message\n"
    );
    assert_eq!(written(*node, &kept), expected);
}

#[test]
fn the_node_logs_what_code_of_an_actor_logs_as_a_line_of_that_actor() {
    let (node, kept, _clock) = local(|options| options);
    let actor = node.actor().spawn_raw((), |_, _, ctx| {
        ctx.node().log(Level::Info, "by the node");
        Flow::Stop
    });
    let id = actor.unwrap().id();
    node.send(id, Kind(1), Vec::new()).unwrap();
    node.run_until_idle();
    let reference = *node;
    node.handle().spawn(move || reference.log(Level::Info, "by a task")).detach();
    node.run_until_idle();
    let expected = format!("{AT} INFO [{id}] by the node\n{AT} INFO [1.0] by a task\n");
    assert_eq!(written(*node, &kept), expected);
}

#[test]
fn lines_below_the_level_are_not_logged_and_not_made() {
    struct Asked(Arc<AtomicBool>);
    impl std::fmt::Display for Asked {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.store(true, Ordering::Release);
            f.write_str("asked")
        }
    }
    let (node, kept, _clock) = local(|options| options.log_level(Level::Warn));
    let asked = Arc::new(AtomicBool::new(false));
    assert_eq!(node.logger().level(), LevelFilter::Warn);
    node.log(Level::Info, Asked(asked.clone()));
    assert!(!asked.load(Ordering::Acquire));
    node.logger().set_level(Level::Debug);
    node.log(Level::Debug, Asked(asked.clone()));
    assert!(asked.load(Ordering::Acquire));
    node.logger().set_level(LevelFilter::Off);
    node.log(Level::Error, "nobody hears");
    assert_eq!(written(*node, &kept), format!("{AT} DEBUG [1.0] asked\n"));
}

#[test]
fn levels_of_one_actor_and_of_a_target_change_while_the_node_runs() {
    let (node, kept, _clock) = local(|options| options);
    let [one, other] = [(); 2].map(|()| node.spawn(Says).unwrap());
    let log = node.logger();
    let say = |level, text| {
        for actor in [&one, &other] {
            actor.tell((level, text)).unwrap();
        }
        node.run_until_idle();
    };
    log.set_actor(one.id(), LevelFilter::Debug);
    say(Level::Debug, "a");
    let module = module_path!();
    log.set_target(module, LevelFilter::Error);
    say(Level::Warn, "b"); // the actor's rule goes first
    log.unset_actor(one.id());
    say(Level::Warn, "c");
    log.set_target(&format!("{module}::Says"), LevelFilter::Warn);
    say(Level::Warn, "d");
    log.unset_target(&format!("{module}::Says"));
    log.unset_target(module);
    say(Level::Info, "e");
    log.say(Level::Info, "any::target", "f");
    log.set_target("any", LevelFilter::Off);
    log.say(Level::Error, "any::target", "g");
    let (one, other) = (one.id(), other.id());
    let expected = format!(
        "{AT} DEBUG [{one}] a\n{AT} WARN [{one}] b\n{AT} WARN [{one}] d\n{AT} WARN [{other}] d\n{AT} INFO [{one}] e\n{AT} INFO [{other}] e\n{AT} INFO [1.0] f\n"
    );
    assert_eq!(written(*node, &kept), expected);
}

#[test]
fn a_node_whose_log_is_off_logs_nothing() {
    let (node, kept, _clock) = local(Builder::log_off);
    node.log(Level::Error, "nobody hears");
    assert_eq!(written(*node, &kept), "");
    assert_eq!((node.logger().lost(), node.logger().level()), (0, LevelFilter::Off));
}

/// Writes when it may, and says that it is about to.
struct Gated(Sender<()>, Receiver<()>, Kept);

impl Write for Gated {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(()).unwrap();
        self.1.recv().unwrap();
        self.2.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn who_logs_never_waits_and_what_is_lost_is_said_where_it_is_missing() {
    let kept = Kept::default();
    let ((begins, began), (goes_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
    let node = Node::builder()
        .runtime(Runtime::builder().workers(1))
        .log_capacity(3)
        .log_to(Gated(begins, may_go_on, kept.clone()))
        .build()
        .unwrap();
    node.log(Level::Info, "first");
    began.recv().unwrap(); // the sink is stuck with it
    let reference = *node;
    let logs = move |range: std::ops::Range<u32>| {
        range.for_each(|n| reference.log(Level::Info, format_args!("line {n}")))
    };
    logs(0..5);
    node.run(move || logs(5..8)).unwrap(); // the only worker is free
    assert_eq!(node.logger().lost(), 5);
    goes_on.send(()).unwrap();
    began.recv().unwrap();
    node.log(Level::Info, "last"); // there is room again
    goes_on.send(()).unwrap();
    began.recv().unwrap();
    goes_on.send(()).unwrap();
    let text = written(*node, &kept);
    let lines: Vec<&str> = text.lines().map(|line| line.split_once("] ").unwrap().1).collect();
    let own = [
        "INFO [1.0] first",
        "INFO [1.0] line 0",
        "INFO [1.0] line 1",
        "INFO [1.0] line 2",
        "WARN [1.0] 5 lines lost",
        "INFO [1.0] last",
    ];
    assert_eq!(lines, own);
    assert_eq!(node.logger().lost(), 5);
}

/// Fails, panics or writes, as it is told.
struct Flaky(Arc<Mutex<u32>>, Kept);

impl Write for Flaky {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let how = *self.0.lock().unwrap();
        match how {
            0 => self.1.write(bytes),
            1 => Err(io::Error::other("the disk is full")),
            _ => panic!("the sink is broken"),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_the_sink_cannot_write_are_counted_and_said_when_it_can() {
    let (how, kept) = (Arc::new(Mutex::new(0)), Kept::default());
    let (node, _, _clock) = local(|options| options.log_to(Flaky(how.clone(), kept.clone())));
    let say = |now, text| {
        *how.lock().unwrap() = now;
        node.log(Level::Info, text);
        written(*node, &kept)
    };
    say(0, "one");
    say(1, "two");
    say(1, "three");
    assert_eq!(node.logger().lost(), 2);
    say(2, "four");
    assert_eq!(node.logger().lost(), 3);
    let expected = format!("{AT} INFO [1.0] one\n{AT} WARN [1.0] 3 lines lost\n{AT} INFO [1.0] five\n");
    assert_eq!(say(0, "five"), expected);
    assert_eq!(node.logger().lost(), 3);
}

/// A sink that logs what it does.
struct Chatty(Arc<Mutex<Option<NodeRef>>>, Kept);

impl Write for Chatty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let node = *self.0.lock().unwrap();
        node.unwrap().log(Level::Error, "I write");
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_the_sink_logs_is_not_logged() {
    let (of, kept) = (Arc::new(Mutex::new(None)), Kept::default());
    let (node, _, _clock) = local(|options| options.log_to(Chatty(of.clone(), kept.clone())));
    *of.lock().unwrap() = Some(*node);
    node.log(Level::Info, "once");
    assert_eq!(written(*node, &kept), format!("{AT} INFO [1.0] once\n"));
    assert_eq!(written(*node, &kept), format!("{AT} INFO [1.0] once\n"));
}

fn payload(level: Level, source: ActorId, text: &str) -> Vec<u8> {
    Log { level, source, text: text.into() }.encode()
}

/// An actor that sends what it is sent to the log, as a line.
fn sends(node: &LocalNode, log: ActorId) -> ActorRef<Message> {
    let actor = node.actor().spawn_raw((), move |(), message, ctx| {
        ctx.send(log, Kind::LOG, message.payload.bytes()).unwrap();
        Flow::Continue
    });
    actor.unwrap()
}

#[test]
fn the_log_actor_takes_lines_as_messages_and_knows_who_sent_them() {
    let (node, kept, _clock) = local(|options| options);
    let log = node.logger().actor().unwrap();
    assert_eq!(node.logger().actor(), Ok(log), "there is one");
    assert_eq!(node.snapshot().named("log").unwrap().id, log);
    let sender = sends(&node, log).id();
    let pretended = ActorId::new(node.id(), 99);
    node.send(sender, Kind(1), payload(Level::Warn, pretended, "by an actor")).unwrap();
    node.run_until_idle();
    node.send(log, Kind::LOG, payload(Level::Info, pretended, "from outside")).unwrap();
    node.send(log, Kind::LOG, payload(Level::Debug, pretended, "too low")).unwrap();
    node.run_until_idle();
    let expected = format!("{AT} WARN [{sender}] by an actor\n{AT} INFO [{pretended}] from outside\n");
    assert_eq!(written(*node, &kept), expected);
    node.kill(log);
    node.run_until_idle();
    assert_ne!(node.logger().actor(), Ok(log), "it can be had again");
}

#[test]
fn long_texts_are_logged_whole_up_to_64_kib_and_say_how_much_was_cut() {
    let (node, kept, _clock) = local(|options| options);
    let log = node.logger().actor().unwrap();
    let whole = "x".repeat(64 * 1024);
    let sent = whole.clone();
    let actor = node.actor().spawn_raw((), move |(), _, ctx| {
        ctx.log(Level::Info, &sent);
        let line = Log { level: Level::Info, source: ctx.id(), text: sent.clone() };
        ctx.send(log, Kind::LOG, Payload::value(line)).unwrap();
        Flow::Continue
    });
    let id = actor.unwrap().id();
    node.send(id, Kind(1), Vec::new()).unwrap();
    node.run_until_idle();
    node.log(Level::Info, format_args!("{whole}yyy"));
    let line = |id, end: &str| format!("{AT} INFO [{id}] {whole}{end}\n");
    let expected = [line(id, ""), line(id, ""), line(ActorId::new(node.id(), 0), "… and 3 more bytes")];
    assert!(written(*node, &kept) == expected.concat(), "a text was cut");
}

#[test]
fn the_log_actor_survives_what_is_no_line() {
    let (node, kept, _clock) = local(|options| options);
    let log = node.logger().actor().unwrap();
    let mut wrong_level = payload(Level::Info, ActorId::NOBODY, "x");
    wrong_level[0] = 9;
    let mut unterminated = payload(Level::Info, ActorId::NOBODY, "x");
    unterminated[16..].fill(b'a');
    for bytes in [Vec::new(), vec![0; 271], wrong_level, unterminated, vec![255; 100_000]] {
        node.send(log, Kind::LOG, bytes).unwrap();
    }
    node.send(log, Kind(7), vec![0; 272]).unwrap();
    node.run_until_idle();
    let text = written(*node, &kept);
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(
        text.lines().all(|line| line.starts_with(&format!("{AT} WARN [1.0] 0.0 sent no line: "))),
        "{text}"
    );
    node.send(log, Kind::LOG, payload(Level::Info, ActorId::NOBODY, "fine")).unwrap();
    node.run_until_idle();
    assert!(written(*node, &kept).ends_with("INFO [0.0] fine\n"));
}

#[test]
fn lines_that_the_log_actor_has_no_room_for_are_said_to_be_lost() {
    let (node, kept, _clock) = local(|options| options);
    let log = node.logger().actor().unwrap();
    for _ in 0..1024 + 7 {
        node.send(log, Kind::LOG, payload(Level::Info, ActorId::NOBODY, "x")).unwrap();
    }
    node.run_until_idle();
    let text = written(*node, &kept);
    assert!(text.contains("WARN [1.0] 7 lines lost\n"), "{text}");
    assert_eq!((node.logger().lost(), text.matches("INFO").count()), (7, 1024));
}

#[test]
fn what_the_node_complains_about_is_in_the_log() {
    struct Breaks;
    impl Drop for Breaks {
        fn drop(&mut self) {
            panic!("no end");
        }
    }
    impl Actor for Breaks {
        type Msg = ();

        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            Flow::Stop
        }
    }
    let (node, kept, _clock) = local(|options| options);
    let actor = node.spawn(Breaks).unwrap();
    actor.tell(()).unwrap();
    node.run_until_idle();
    let text = written(*node, &kept);
    let start = format!("{AT} WARN [1.0] the destructor of actor {} failed: ", actor.id());
    assert!(text.starts_with(&start) && text.contains("no end"), "{text}");
}

#[test]
fn failures_of_actors_are_warnings_until_there_are_many_within_a_second() {
    let (node, kept, clock) = local(|options| options.log_level(Level::Debug));
    let fail = |name: Option<&'static str>| {
        let spawn = node.actor();
        let actor = name.map_or(spawn, |name| node.actor().name(name)).spawn(Says).unwrap();
        actor.tell((Level::Info, "fail")).unwrap();
        node.run_until_idle();
        actor.id()
    };
    let first = fail(None);
    let text = written(*node, &kept);
    let start = format!("{AT} WARN [{first}] ended: error: it fails, at ");
    assert!(text.starts_with(&start) && text.contains("log.rs:"), "{text}");
    (1..15).for_each(|_| _ = fail(None));
    let text = written(*node, &kept);
    assert_eq!((text.matches(" WARN ").count(), text.matches(" DEBUG ").count()), (10, 5), "{text}");
    assert_eq!(text.matches("; more within this second are logged at DEBUG").count(), 1, "{text}");
    clock.advance(Duration::from_secs(1));
    fail(Some("mill"));
    let text = written(*node, &kept);
    assert!(text.lines().last().unwrap().contains("] \"mill\": ended: error: it fails, at "), "{text}");
    assert_eq!(text.matches(" WARN ").count(), 11, "{text}");
}

#[test]
fn every_line_is_written_once_and_in_the_order_of_who_logs_it() {
    const SPEAKERS: usize = 8;
    const LINES: usize = 2_000;
    for workers in [1, 2, 8] {
        let kept = Kept::default();
        let node = Node::builder()
            .runtime(Runtime::builder().workers(workers))
            .log_to(kept.clone())
            .log_capacity(SPEAKERS * LINES)
            .build()
            .unwrap();
        let reference = *node;
        let speakers: Vec<_> = (0..SPEAKERS)
            .map(|speaker| {
                node.handle().spawn(move || {
                    for line in 0..LINES {
                        reference.log(Level::Info, format_args!("{speaker} {line}"));
                        if line % 500 == 0 {
                            reference.logger().flush().unwrap();
                        }
                    }
                })
            })
            .collect();
        speakers.into_iter().for_each(|speaker| speaker.join().unwrap());
        // What is left is written when the node ends.
        let _ = node.shutdown(Duration::from_secs(60));
        let text = kept.text();
        let mut next = [0; SPEAKERS];
        for line in text.lines() {
            let mut words = line.rsplit(' ').map(|word| word.parse::<usize>().unwrap());
            let (line, speaker) = (words.next().unwrap(), text_speaker(line));
            assert_eq!(line, next[speaker]);
            next[speaker] += 1;
        }
        assert_eq!(next, [LINES; SPEAKERS]);
    }
}

fn text_speaker(line: &str) -> usize {
    line.rsplit(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn lines_of_a_node_that_ends_are_written_at_once() {
    struct Last(NodeRef);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.log(Level::Info, "the last word");
        }
    }
    impl Actor for Last {
        type Msg = ();

        fn handle(&mut self, (): (), _: &mut Ctx<()>) -> Flow {
            Flow::Continue
        }
    }
    let (node, kept, _clock) = local(|options| options);
    let reference = *node;
    node.spawn(Last(reference)).unwrap();
    node.run_until_idle();
    drop(node);
    assert!(kept.text().contains("the last word\n"), "{}", kept.text());
    reference.log(Level::Info, "after the end");
    assert!(kept.text().ends_with("after the end\n"), "{}", kept.text());
}

#[test]
fn why_a_child_could_not_be_started_is_logged() {
    let kept = Kept::default();
    let node = Node::builder().log_to(kept.clone()).build().unwrap();
    let idle = || node.actor().name("db").spawn_raw((), |(), _, _| Flow::Continue);
    let holder = idle().unwrap().id();
    let spec = ChildSpec::raw("a", || (), |(), _: &Message, _: &mut Ctx| Flow::Continue).name("db");
    let supervisor = node.supervisor(Strategy::OneForOne).child(spec).spawn().unwrap();
    assert_eq!(supervisor.join().unwrap(), ExitReason::RestartsExceeded);
    let _ = node.shutdown(Duration::from_secs(5));
    let line =
        format!("[{}] child \"a\" cannot start: the name \"db\" is taken by actor {holder}", supervisor.id());
    assert!(kept.text().contains(&line), "{}", kept.text());
}
