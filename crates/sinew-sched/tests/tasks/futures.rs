//! Futures as tasks, and tasks and threads that wait for futures.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sinew_chan::chan;
use sinew_fiber::Reason;
use sinew_sched::{
    JoinFuture, JoinHandle, Runtime, block_on, now, sleep, sleep_async, spawn, spawn_future, task, yield_now,
};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Pending once, and woken at once.
async fn yield_async() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A value that comes later, and whoever waits for it.
#[derive(Default)]
struct Later(Mutex<(Option<u64>, Option<Waker>)>);

impl Later {
    fn set(&self, value: u64) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.0 = Some(value);
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    async fn get(&self) -> u64 {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            match state.0 {
                Some(value) => Poll::Ready(value),
                None => {
                    state.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

#[test]
fn a_future_is_polled_until_it_is_ready_and_its_output_is_joined() {
    for workers in [1, 2, 8] {
        let runtime = runtime(workers);
        let sum = runtime.run(|| {
            let tasks: Vec<_> = (0..1000u64)
                .map(|n| {
                    spawn_future(async move {
                        for _ in 0..n % 7 {
                            yield_async().await;
                        }
                        n
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum.unwrap(), 499_500);
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn a_wake_up_from_another_thread_or_task_is_never_lost() {
    for workers in [1, 2, 8] {
        let runtime = runtime(workers);
        for n in 0..200u64 {
            let later = Arc::new(Later::default());
            let (from_task, from_thread) = (later.clone(), later.clone());
            let waiting = runtime.spawn_future(async move { later.get().await });
            if n % 2 == 0 {
                runtime.spawn(move || from_task.set(n)).join().unwrap();
            } else {
                std::thread::spawn(move || from_thread.set(n)).join().unwrap();
            }
            assert_eq!(waiting.join().unwrap(), n);
        }
    }
}

#[test]
fn a_waker_that_outlives_its_task_wakes_nobody() {
    let runtime = runtime(2);
    let kept = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..100 {
        let keep = kept.clone();
        let first = runtime.spawn_future(poll_fn(move |context| {
            keep.lock().unwrap().push(context.waker().clone());
            Poll::Ready(())
        }));
        first.join().unwrap();
    }
    let polls = Arc::new(AtomicUsize::new(0));
    let count = polls.clone();
    let later = Arc::new(Later::default());
    let setter = later.clone();
    let second = runtime.spawn_future(async move {
        let mut get = std::pin::pin!(later.get());
        poll_fn(|context| {
            let polled = get.as_mut().poll(context);
            count.fetch_add(1, Ordering::Relaxed);
            polled
        })
        .await
    });
    while polls.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    kept.lock().unwrap().drain(..).for_each(Waker::wake);
    runtime.run(yield_now).unwrap();
    setter.set(5);
    assert_eq!(second.join().unwrap(), 5);
    assert_eq!(polls.load(Ordering::Relaxed), 2, "polled once, and once more when its value came");
}

#[test]
fn a_cancelled_future_is_dropped_and_the_joiner_is_told() {
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for workers in [1, 2, 8] {
        let runtime = runtime(workers);
        let dropped = Arc::new(AtomicUsize::new(0));
        for kill in [false, true] {
            let count = Count(dropped.clone());
            let task = runtime.spawn_future(async move {
                let _count = count;
                std::future::pending::<()>().await;
            });
            if kill {
                task.kill()
            } else {
                task.cancel()
            }
            assert!(task.join().unwrap_err().is_cancelled());
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn a_panic_in_a_poll_or_in_the_destructor_of_a_future_ends_only_its_task() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    let runtime = runtime(2);
    let error = runtime.spawn_future(async { panic!("in a poll") }).join().unwrap_err();
    assert!(error.to_string().contains("in a poll"), "{error}");
    struct Both(Bad);
    impl Future for Both {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            let _whole = &self.0;
            panic!("in a poll, before the destructor");
        }
    }
    let error = runtime.spawn_future(Both(Bad)).join().unwrap_err();
    assert!(error.to_string().contains("before the destructor"), "{error}");
    let error = runtime
        .spawn_future(async {
            let _bad = Bad;
            yield_async().await;
        })
        .join()
        .unwrap_err();
    assert!(error.to_string().contains("in a destructor"), "{error}");
    let cancelled = runtime.spawn_future(async {
        let _bad = Bad;
        std::future::pending::<()>().await;
    });
    cancelled.cancel();
    let _ = cancelled.join().unwrap_err();
    assert_eq!(runtime.run(|| 1).unwrap(), 1);
}

#[test]
fn nothing_blocks_inside_a_poll() {
    let runtime = runtime(2);
    let refusals = runtime.spawn_future(async {
        let joined = spawn(|| sleep(Duration::from_secs(1000))).join().unwrap_err();
        let blocked = block_on(async { 1 }).unwrap_err();
        yield_now(); // does nothing
        (joined.value.downcast::<sinew_fiber::Refused>().unwrap().reason(), blocked.reason())
    });
    assert_eq!(refusals.join().unwrap(), (Reason::InsidePoll, Reason::InsidePoll));
    let slept = runtime.spawn_future(async { sleep(Duration::from_millis(1)) }).join().unwrap_err();
    assert!(slept.to_string().contains("poll"), "{slept}");
}

#[test]
fn block_on_suspends_its_task_and_not_the_worker() {
    let runtime = runtime(1);
    let value = runtime.run(|| {
        let later = Arc::new(Later::default());
        let setter = later.clone();
        let other = spawn(move || setter.set(7));
        let value = block_on(later.get()).unwrap();
        other.join().unwrap();
        value
    });
    assert_eq!(value.unwrap(), 7);
}

#[test]
fn block_on_works_on_a_plain_thread_with_timers_of_its_own() {
    let runtime = runtime(1);
    let later = Arc::new(Later::default());
    let setter = later.clone();
    let task = runtime.spawn(move || setter.set(7));
    assert_eq!(block_on(later.get()).unwrap(), 7);
    task.join().unwrap();
    let start = now();
    block_on(sleep_async(Duration::from_millis(5))).unwrap();
    assert!(now() - start >= Duration::from_millis(5));
}

#[test]
fn a_cancelled_block_on_drops_its_future() {
    let runtime = runtime(1);
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Never(Arc<AtomicUsize>);
    impl Future for Never {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }
    impl Drop for Never {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let never = Never(dropped.clone());
    let task = runtime.spawn(move || block_on(never).unwrap_err().reason());
    task.cancel();
    assert_eq!(task.join().unwrap(), Reason::Cancelled);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn futures_sleep_never_too_short_and_a_dropped_sleep_is_forgotten() {
    for workers in [1, 2, 8] {
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..200u64)
            .map(|n| {
                runtime.spawn_future(async move {
                    let start = now();
                    {
                        let mut forgotten = std::pin::pin!(sleep_async(Duration::from_secs(3600)));
                        poll_fn(|context| {
                            assert!(forgotten.as_mut().poll(context).is_pending());
                            Poll::Ready(())
                        })
                        .await;
                    }
                    yield_async().await;
                    let duration = Duration::from_micros(100 * (n % 20));
                    sleep_async(duration).await;
                    assert!(now() - start >= duration);
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn a_future_goes_on_while_the_worker_that_polled_it_first_is_busy() {
    let runtime = runtime(2);
    for _ in 0..20 {
        let later = Arc::new(Later::default());
        let setter = later.clone();
        let (spinning, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (spins, end) = (spinning.clone(), ended.clone());
        let future = runtime.spawn_future(async move {
            // On the worker that polls this, as soon as it has nothing else to do.
            let spinner = task().pinned().spawn(move || {
                spins.store(1, Ordering::Release);
                while end.load(Ordering::Acquire) == 0 {
                    std::thread::yield_now();
                }
            });
            (later.get().await, spinner)
        });
        while spinning.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        setter.set(9);
        let (value, spinner) = future.join().unwrap();
        assert_eq!(value, 9);
        ended.store(1, Ordering::Release);
        spinner.join().unwrap();
    }
}

#[test]
fn a_result_of_a_future_may_block_in_its_destructor_when_nobody_wants_it() {
    struct Sleepy(Arc<AtomicUsize>);
    impl Drop for Sleepy {
        fn drop(&mut self) {
            yield_now();
            sleep(Duration::from_millis(1));
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = dropped.clone();
        drop(runtime.spawn_future(async move {
            yield_async().await;
            yield_async().await;
            Sleepy(count)
        }));
        while dropped.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn futures_with_options_and_large_futures_work_like_the_others() {
    let runtime = runtime(2);
    let large = runtime.run(|| {
        let named = task().name("future").spawn_future(async {
            let kept = [3u8; 3000];
            yield_async().await;
            kept.iter().map(|n| u64::from(*n)).sum::<u64>()
        });
        named.join().unwrap()
    });
    assert_eq!(large.unwrap(), 9000);
}

/// An executor of somebody else: it polls with a waker that wakes nobody first, and parks its thread in between.
fn run_elsewhere<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);

    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Tasks that end at once, later, and after somebody has begun to wait.
#[test]
fn a_handle_that_is_awaited_gives_what_join_returns() {
    for workers in [1, 2, 8] {
        let runtime = runtime(workers);
        let started = || {
            (0..300_usize).map(|n| {
                runtime.spawn(move || {
                    (0..n % 3).for_each(|_| yield_now());
                    [n; 20]
                })
            })
        };
        let sum = |results: Vec<[usize; 20]>| results.iter().map(|result| result[19]).sum::<usize>();
        let awaited = |tasks: Vec<JoinHandle<[usize; 20]>>| async move {
            let mut results = Vec::new();
            for task in tasks {
                results.push(task.await.unwrap());
            }
            results
        };
        let expected = (0..300).sum::<usize>();
        assert_eq!(sum(run_elsewhere(awaited(started().collect()))), expected);
        assert_eq!(sum(block_on(awaited(started().collect())).unwrap()), expected);
        assert_eq!(sum(runtime.spawn_future(awaited(started().collect())).join().unwrap()), expected);
        let tasks = started().collect();
        let inside = runtime.run(move || block_on(awaited(tasks)).unwrap());
        assert_eq!(sum(inside.unwrap()), expected);
        assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
    }
}

#[test]
fn a_handle_that_is_awaited_tells_how_its_task_failed() {
    let runtime = runtime(2);
    let panics = run_elsewhere(runtime.spawn(|| panic!("half way")).into_future());
    assert!(panics.map(|(): ()| ()).unwrap_err().to_string().contains("half way"));
    let cancelled = runtime.spawn(|| sleep(Duration::from_secs(3600)));
    cancelled.cancel();
    assert!(run_elsewhere(cancelled.into_future()).unwrap_err().is_cancelled());
}

#[test]
fn a_task_that_awaits_its_own_handle_has_an_error() {
    let runtime = runtime(2);
    let (give, given) = chan::bounded::<JoinHandle<()>>(1);
    let (told, telling) = chan::bounded(1);
    let task = runtime.spawn_future(async move {
        let own = given.recv_async().await.unwrap().await;
        told.send_async(own.unwrap_err().to_string()).await.unwrap();
    });
    give.send(task).unwrap();
    assert!(telling.recv().unwrap().contains("its own end"));
}

/// Whether it was polled before, and whether the task has ended meanwhile: the result is dropped once, by the task or by
/// the future.
#[test]
fn dropping_an_awaited_handle_lets_its_task_go_on_alone() {
    let runtime = runtime(2);
    for (polled, ended) in [(false, false), (true, false), (false, true), (true, true)] {
        let result = Arc::new(());
        let (go, wait) = chan::bounded(1);
        let (done, is_done) = chan::bounded(1);
        let task = {
            let result = result.clone();
            runtime.spawn(move || {
                wait.recv().unwrap();
                done.send(()).unwrap();
                result
            })
        };
        let mut awaited = Box::pin(task.into_future());
        let poll = |future: Pin<&mut JoinFuture<_>>| {
            future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
        };
        assert!(!polled || poll(awaited.as_mut()));
        if ended {
            go.send(()).unwrap();
            is_done.recv().unwrap();
            drop(awaited);
        } else {
            drop(awaited);
            go.send(()).unwrap();
            is_done.recv().unwrap();
        }
        while Arc::strong_count(&result) > 1 {
            std::thread::yield_now();
        }
    }
    assert_eq!(runtime.shutdown(Duration::from_secs(60)).left, 0);
}

/// A task that is cancelled while it awaits another leaves that one alone.
#[test]
fn a_cancelled_future_leaves_the_task_that_it_awaits_alone() {
    let runtime = runtime(2);
    let (go, wait) = chan::bounded(1);
    let (done, is_done) = chan::bounded(1);
    let awaited = runtime.spawn(move || done.send(wait.recv().unwrap()).unwrap());
    let awaits = runtime.spawn_future(async move { awaited.await.is_ok() });
    awaits.cancel();
    assert!(awaits.join().unwrap_err().is_cancelled());
    go.send(5).unwrap();
    assert_eq!(is_done.recv().unwrap(), 5);
}
