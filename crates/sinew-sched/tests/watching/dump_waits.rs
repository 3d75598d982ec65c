//! A dump says what each task waits for, on which object, since when, and where it was spawned.

use std::future::pending;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sinew_chan::chan::Pool;
use sinew_chan::chan::broadcast::Slow;
use sinew_chan::sync::{Barrier, Condvar, Mutex, OnceLock, RwLock, Semaphore, WaitGroup};
use sinew_chan::{chan, select};
use sinew_io::blocking;
use sinew_io::fd::{self, Interest};
use sinew_sched::raw::What;
use sinew_sched::{
    Backtraces, CurrentThread, Dump, Events, JoinHandle, ManualClock, Runtime, TaskDump, TaskId, TaskState,
    Wait, WaitKind, scope, sleep, sleep_async, spawn, timeout,
};

fn runtime() -> (CurrentThread, ManualClock) {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1));
    (Runtime::builder().manual_clock(&clock).build_current_thread().unwrap(), clock)
}

fn find(dump: &Dump, id: TaskId) -> &TaskDump {
    dump.tasks.iter().find(|task| task.id == id).unwrap_or_else(|| panic!("{id} is missing in\n{dump}"))
}

/// What the task waits for when nothing runs any more.
fn wait_of(runtime: &CurrentThread, id: TaskId) -> Wait {
    runtime.run_until_idle();
    let dump = runtime.dump();
    let task = find(&dump, id);
    assert_eq!(task.state, TaskState::Parked, "{dump}");
    task.wait.clone().unwrap_or_else(|| panic!("nothing is known about {id} in\n{dump}"))
}

fn kind_of<T: Send + 'static>(
    runtime: &CurrentThread,
    body: impl FnOnce() -> T + Send + 'static,
) -> WaitKind {
    let task = runtime.spawn(body);
    wait_of(runtime, task.id()).kind
}

#[test]
fn every_kind_of_wait_is_named() {
    let (runtime, _clock) = runtime();
    let mutex = Arc::new(Mutex::new(()));
    let lock = Arc::new(RwLock::new(()));
    let once = Arc::new(OnceLock::new());
    let (held, kept, made) = (mutex.clone(), lock.clone(), once.clone());
    let hold = move || {
        let (_held, _kept) = (held.lock().unwrap(), kept.write().unwrap());
        let _ = made.get_or_init(|| sleep(Duration::from_secs(1000)));
    };
    assert_eq!(kind_of(&runtime, hold), WaitKind::Sleep);
    let locks = mutex.clone();
    assert_eq!(kind_of(&runtime, move || drop(locks.lock())), WaitKind::Mutex);
    let reads = lock.clone();
    assert_eq!(kind_of(&runtime, move || drop(reads.read())), WaitKind::RwLockRead);
    assert_eq!(kind_of(&runtime, move || drop(lock.write())), WaitKind::RwLockWrite);
    assert_eq!(kind_of(&runtime, move || once.get_or_init(|| ()).map(drop)), WaitKind::Once);
    let condition = Condvar::new();
    let (own, barrier) = (Mutex::new(()), Barrier::new(2));
    assert_eq!(kind_of(&runtime, move || drop(condition.wait(own.lock().unwrap()))), WaitKind::Condvar);
    assert_eq!(kind_of(&runtime, move || drop(barrier.wait())), WaitKind::Barrier);
    assert_eq!(kind_of(&runtime, || drop(Semaphore::new(0).acquire(1))), WaitKind::Semaphore);
    let group = WaitGroup::new();
    let member = group.add();
    assert_eq!(kind_of(&runtime, move || group.wait()), WaitKind::WaitGroup);
    assert_eq!(kind_of(&runtime, || Events::new().recv()), WaitKind::Event);
    let scoped = || scope(|scope| scope.spawn(|| sleep(Duration::from_secs(1000))).id());
    assert_eq!(kind_of(&runtime, scoped), WaitKind::Scope);
    drop(member);
}

#[test]
fn every_kind_of_channel_is_named() {
    let (runtime, _clock) = runtime();
    let (full, receiver) = chan::bounded(1);
    full.try_send(1).unwrap();
    assert_eq!(kind_of(&runtime, move || full.send(2)), WaitKind::SendBounded);
    let (sender, empty) = chan::bounded::<u8>(1);
    assert_eq!(kind_of(&runtime, move || empty.recv()), WaitKind::RecvBounded);
    let (hands, taker) = chan::rendezvous();
    assert_eq!(kind_of(&runtime, move || hands.send(1)), WaitKind::SendRendezvous);
    let (giver, takes) = chan::rendezvous::<u8>();
    assert_eq!(kind_of(&runtime, move || takes.recv()), WaitKind::RecvRendezvous);
    let (heavy, scale) = chan::weighted(1, |_: &u8| 1);
    heavy.try_send(1).unwrap();
    assert_eq!(kind_of(&runtime, move || heavy.send(1)), WaitKind::SendWeighted);
    let (light, weighs) = chan::weighted(1, |_: &u8| 1);
    assert_eq!(kind_of(&runtime, move || weighs.recv()), WaitKind::RecvWeighted);
    let (promise, mut value) = chan::oneshot::channel::<u8>();
    assert_eq!(kind_of(&runtime, move || value.recv()), WaitKind::RecvOneshot);
    drop((receiver, sender, taker, giver, scale, light, promise));
}

#[test]
fn ordered_and_broadcast_channels_and_pools_are_named() {
    let (runtime, _clock) = runtime();
    let (spawner, mut results) = chan::ordered::channel::<u8>(1);
    assert_eq!(kind_of(&runtime, move || results.recv().is_ok()), WaitKind::RecvOrdered);
    let (spawner_of_one, mut first) = chan::ordered::channel::<()>(1);
    let slow = runtime.spawn(|| sleep(Duration::from_secs(1000)));
    let id = slow.id();
    spawner_of_one.send(slow).unwrap();
    let receives = runtime.spawn(move || first.recv().is_ok());
    let wait = wait_of(&runtime, receives.id());
    assert_eq!((wait.kind, wait.task), (WaitKind::Join, Some(id)), "the head of the channel has begun");
    let (full, slowest) = chan::broadcast::channel(1, Slow::Block);
    full.try_send(1).unwrap();
    assert_eq!(kind_of(&runtime, move || full.send(2)), WaitKind::SendBroadcast);
    let (hears, empty) = chan::broadcast::channel::<u8>(1, Slow::Block);
    assert_eq!(kind_of(&runtime, move || empty.recv().is_ok()), WaitKind::RecvBroadcast);
    let pool = Pool::builder(1, || 7).build();
    let taken = pool.take().unwrap();
    let takes = pool.clone();
    assert_eq!(kind_of(&runtime, move || takes.take().is_ok()), WaitKind::Pool);
    drop((spawner, slowest, hears, taken));
}

#[test]
fn a_task_that_its_supervisor_has_to_answer_says_so() {
    let (runtime, _clock) = runtime();
    let events = Events::new();
    let task = runtime.task().supervisor(&events).spawn(|| drop(sinew_fiber::yield_(1)));
    assert_eq!(wait_of(&runtime, task.id()).kind, WaitKind::Answer);
    let shown = runtime.dump_with(Backtraces::UpTo(1));
    assert!(!find(&shown, task.id()).backtrace.is_empty(), "{shown}");
    task.cancel();
    runtime.run_until_idle();
}

#[test]
fn descriptors_are_named_with_what_has_to_become_of_them() {
    let (runtime, clock) = runtime();
    let ((reader, _open), (_closed, writer)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let fds = (reader.as_raw_fd(), writer.as_raw_fd());
    let reads = runtime.spawn(move || fd::wait(&reader, Interest::READ, None).map(|_| reader));
    let wait = wait_of(&runtime, reads.id());
    assert_eq!((wait.kind, wait.fd, wait.object), (WaitKind::Readable, Some(fds.0), None));
    let full = fill(writer);
    let until = clock.now() + Duration::from_secs(3600);
    let writes = runtime.spawn(move || fd::wait(&full, Interest::WRITE, Some(until)).map(|_| ()));
    let wait = wait_of(&runtime, writes.id());
    assert_eq!((wait.kind, wait.fd), (WaitKind::Writable, Some(fds.1)));
    assert_eq!(wait.deadline, Some(until));
    let (one, other) = UnixStream::pair().unwrap();
    let one = fill(one);
    let number = one.as_raw_fd();
    let both = runtime.spawn(move || fd::wait(&one, Interest::BOTH, None).map(|_| ()));
    let wait = wait_of(&runtime, both.id());
    assert_eq!((wait.kind, wait.fd), (WaitKind::ReadableOrWritable, Some(number)));
    let text = runtime.dump().to_string();
    assert!(text.contains(&format!("waits for: readable, fd {}", fds.0)), "{text}");
    assert!(text.contains("reactor: 3 descriptors"), "{text}");
    drop(other);
}

/// Writes until there is no room.
fn fill<W: Write + AsRawFd>(mut full: W) -> W {
    // SAFETY: the descriptor is open.
    unsafe { libc::fcntl(full.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    while full.write(&[0; 4096]).is_ok() {}
    full
}

#[test]
fn a_blocking_call_is_named_until_it_has_returned() {
    let runtime = Runtime::builder().build_current_thread().unwrap();
    let (go, goes) = std::sync::mpsc::channel::<()>();
    let (begins, begun) = std::sync::mpsc::channel();
    let returned = Arc::new(AtomicBool::new(false));
    let returns = returned.clone();
    let task = runtime.spawn(move || {
        blocking(move || {
            begins.send(()).unwrap();
            goes.recv().is_err()
        })
        .unwrap();
        returns.store(true, Ordering::Release);
        let _ = sinew_fiber::await_(());
        sleep(Duration::from_secs(1000));
    });
    assert_eq!(wait_of(&runtime, task.id()).kind, WaitKind::Blocking);
    begun.recv().unwrap();
    assert_eq!((runtime.dump().blocking.running, runtime.dump().blocking.queued), (1, 0));
    drop(go);
    while !returned.load(Ordering::Acquire) {
        runtime.run_until_idle(); // the call returns on a thread of its own
    }
    assert_eq!(wait_of(&runtime, task.id()).kind, WaitKind::Await, "what is over is not named again");
}

#[test]
fn a_pinned_task_counts_as_ready_on_its_worker_before_it_starts() {
    let (runtime, _clock) = runtime();
    let task = runtime.task().pinned().spawn(|| sleep(Duration::from_secs(1000)));
    let anywhere = runtime.spawn(|| ());
    let dump = runtime.dump();
    let shown = find(&dump, task.id());
    assert_eq!(
        (shown.state, shown.worker, shown.since.is_some()),
        (TaskState::Ready, Some(0), true),
        "{dump}"
    );
    assert_eq!(find(&dump, anywhere.id()).worker, None, "{dump}");
    assert_eq!(dump.workers[0].ready, 1, "{dump}");
    assert!(dump.to_string().contains(&format!("task {}: ready, not joined yet; for", task.id())), "{dump}");
    assert_eq!(dump.to_json().matches("\"state\":\"ready\"").count(), 2);
    runtime.run_until_idle();
    assert_eq!(runtime.dump().workers[0].ready, 0);
    assert_eq!(find(&runtime.dump(), task.id()).worker, Some(0));
}

#[test]
fn a_join_names_the_task_and_a_sleep_its_deadline() {
    let (runtime, clock) = runtime();
    let sleeper = runtime.spawn(|| sleep(Duration::from_secs(60)));
    let id = sleeper.id();
    let sleep = wait_of(&runtime, id);
    assert_eq!((sleep.deadline, sleep.object), (Some(clock.now() + Duration::from_secs(60)), None));
    let joiner = runtime.spawn(move || sleeper.join());
    let join = wait_of(&runtime, joiner.id());
    assert_eq!((join.kind, join.task, join.deadline), (WaitKind::Join, Some(id), None));
    let other = runtime.spawn(|| sinew_sched::sleep(Duration::from_secs(60)));
    let until = clock.now() + Duration::from_secs(5);
    let impatient = runtime.spawn(move || other.join_timeout(Duration::from_secs(5)).is_ok());
    let join = wait_of(&runtime, impatient.id());
    assert_eq!((join.kind, join.deadline), (WaitKind::Join, Some(until)));
}

#[test]
fn who_waits_for_the_same_thing_has_the_same_object() {
    let (runtime, _clock) = runtime();
    let gates = [Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0))];
    let wait = |gate: usize| {
        let gate = gates[gate].clone();
        let task = runtime.spawn(move || gate.acquire(1).map(|permit| permit.forget()));
        let wait = wait_of(&runtime, task.id());
        task.detach();
        wait.object.unwrap()
    };
    let (first, second, third) = (wait(0), wait(0), wait(1));
    assert_eq!(first, second);
    assert_ne!(first, third);
}

#[test]
fn a_select_names_its_cases_and_its_deadline() {
    let (runtime, clock) = runtime();
    let (sender, receiver) = chan::bounded::<u8>(1);
    let gate = Semaphore::new(0);
    let selects = move || {
        select! {
            _ = select::recv(&receiver) => 1,
            _ = select::acquire(&gate, 1) => 2,
            _ = select::sleep(Duration::from_secs(9)) => 3,
        }
    };
    let task = runtime.spawn(selects);
    let wait = wait_of(&runtime, task.id());
    assert_eq!(wait.kind, WaitKind::Select);
    assert_eq!(wait.cases, [WaitKind::RecvBounded, WaitKind::Semaphore, WaitKind::Sleep]);
    assert_eq!(wait.deadline, Some(clock.now() + Duration::from_secs(9)));
    drop(sender);
}

#[test]
fn a_future_names_what_its_poll_waits_for_if_it_knows() {
    let (runtime, clock) = runtime();
    assert_eq!(wait_of(&runtime, runtime.spawn_future(pending::<()>()).id()).kind, WaitKind::Future);
    let (sender, receiver) = chan::bounded::<u8>(1);
    let task = runtime.spawn_future(async move {
        receiver.recv_async().await.unwrap();
        sleep_async(Duration::from_secs(7)).await;
    });
    runtime.run_until_idle();
    let kind = |id| find(&runtime.dump(), id).wait.clone().map(|wait| (wait.kind, wait.deadline));
    assert_eq!(kind(task.id()), Some((WaitKind::RecvBounded, None)));
    sender.try_send(1).unwrap();
    runtime.run_until_idle();
    assert_eq!(kind(task.id()), Some((WaitKind::Sleep, Some(clock.now() + Duration::from_secs(7)))));
    let blocks = runtime.spawn(|| sinew_sched::block_on(pending::<()>()));
    assert_eq!(wait_of(&runtime, blocks.id()).kind, WaitKind::Future);
}

#[test]
fn a_wait_that_is_over_is_not_named_again() {
    let (runtime, clock) = runtime();
    let task = runtime.spawn(|| {
        let _ = timeout(Duration::from_secs(1), || sleep(Duration::from_secs(2)));
        let _ = sinew_fiber::await_(());
        sleep(Duration::from_secs(1000));
    });
    assert_eq!(wait_of(&runtime, task.id()).kind, WaitKind::Sleep);
    clock.advance(Duration::from_secs(2));
    let wait = wait_of(&runtime, task.id());
    assert_eq!((wait.kind, wait.object, wait.deadline), (WaitKind::Await, None, None));
}

#[test]
fn a_task_says_since_when_it_waits_and_where_it_was_spawned() {
    let (runtime, clock) = runtime();
    let (line, task) = (line!(), runtime.spawn(|| sleep(Duration::from_secs(1000))));
    let queued = runtime.dump();
    assert_eq!(find(&queued, task.id()).state, TaskState::Ready);
    runtime.run_until_idle();
    clock.advance(Duration::from_secs(50));
    let dump = runtime.dump();
    let shown = find(&dump, task.id());
    let seconds = shown.since.unwrap().as_secs_f64();
    assert!((49.9..50.1).contains(&seconds), "{seconds}");
    let site = shown.spawned_at.unwrap();
    assert!(site.file().ends_with("tests/watching/dump_waits.rs") && site.line() == line, "{site}");
    assert_eq!(shown.worker, Some(0));
    let text = dump.to_string();
    assert!(text.contains(&format!("dump_waits.rs:{line}")) && text.contains("waits for: sleep"), "{text}");
}

#[test]
fn every_way_to_spawn_notes_its_caller() {
    let (runtime, _clock) = runtime();
    let lines = runtime.task().spawn(|| {
        let forever = || sleep(Duration::from_secs(1000));
        let mut tasks: Vec<(u32, JoinHandle<()>)> = vec![
            (line!(), spawn(forever)),
            (line!(), sinew_sched::task().name("named").spawn(forever)),
            (line!(), sinew_sched::task().spawn_local(forever)),
            (line!(), sinew_sched::spawn_future(pending())),
            (line!(), sinew_sched::task().spawn_future(pending())),
        ];
        // SAFETY: it holds nothing.
        tasks.push((line!(), unsafe { sinew_sched::task().spawn_migrating(forever) }));
        let lines: Vec<_> = tasks.iter().map(|(line, task)| (*line, task.id())).collect();
        tasks.into_iter().for_each(|(_, task)| task.detach());
        lines
    });
    runtime.run_until_idle();
    let dump = runtime.dump();
    for (line, id) in lines.join().unwrap() {
        let site = find(&dump, id).spawned_at.unwrap();
        assert!(
            site.file().ends_with("tests/watching/dump_waits.rs") && site.line() == line,
            "{site}, not {line}"
        );
    }
}

#[test]
fn json_has_the_same_as_the_value() {
    let (runtime, _clock) = runtime();
    let task = runtime.task().name("a \"sleeper\"\n").spawn(|| sleep(Duration::from_secs(60)));
    runtime.run_until_idle();
    let json = runtime.dump().to_json();
    let parts = [
        format!("{{\"id\":{},\"name\":\"a \\\"sleeper\\\"\\n\",\"type\":\"{}::json_has_the_same_as_the_value::{{{{closure}}}}\",\"state\":\"parked\"", task.id().as_u64(), module_path!()),
        "\"wait\":{\"kind\":\"sleep\",\"object\":null,\"fd\":null,\"task\":null,\"tag\":null,\"deadline_ns\":61000000000,\"cases\":[]}".into(),
        "\"workers\":[{\"index\":0,\"is_temporary\":false,\"state\":\"searching\",\"runs\":null,".into(),
        "\"timers\":1,".into(),
    ];
    for part in parts {
        assert!(json.contains(&part), "{part} is missing in {json}");
    }
}

#[test]
fn waits_with_a_label_are_shown_with_their_tag_and_one_task_can_be_looked_at_alone() {
    let (runtime, _clock) = runtime();
    let kinds = [WaitKind::label(0), WaitKind::label(1)];
    kinds[0].register("key", "door");
    kinds[1].register("end", "road");
    for (kind, text_of_kind) in kinds.into_iter().zip(["key, door 17", "end, road 17"]) {
        let (answer, mut receiver) = chan::oneshot::channel::<u8>();
        let task = runtime.spawn(move || receiver.recv_as(None, What::tagged(kind, 17)).unwrap());
        let wait = wait_of(&runtime, task.id());
        assert_eq!((wait.kind, wait.tag, wait.object), (kind, Some(17), None));
        let alone = runtime.handle().dump_task(task.id()).unwrap();
        assert_eq!((alone.id, alone.wait), (task.id(), Some(wait)));
        let text = runtime.dump().to_string();
        assert!(text.contains(&format!("waits for: {text_of_kind}")), "{text}");
        answer.send(7).unwrap();
        runtime.run_until_idle();
        let id = task.id();
        assert_eq!(task.join().unwrap(), 7);
        assert!(runtime.handle().dump_task(id).is_none());
    }
}

#[test]
fn times_of_a_runtime_are_times_of_the_system() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(90));
    let runtime = Runtime::builder().manual_clock(&clock).build_current_thread().unwrap();
    let wall = runtime.handle().wall_clock(runtime.handle().now());
    assert_eq!(wall, std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(90));
    let runtime = Runtime::builder().build_current_thread().unwrap();
    let (before, now) = (std::time::SystemTime::now(), runtime.handle().now());
    let hour = Duration::from_secs(3600);
    let (early, late) = (runtime.handle().wall_clock(now), runtime.handle().wall_clock(now + hour));
    assert!(early >= before - hour / 2 && early <= before + hour / 2);
    assert!(late >= before + hour / 2);
}
