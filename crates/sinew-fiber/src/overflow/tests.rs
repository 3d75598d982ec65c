//! What a process says and how it dies when a stack is overrun.

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use sinew_sync::statics::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::stack_support::{pass_in_child, run_in_child};
use crate::{Stack, StackSize};

static GUARD_START: AtomicUsize = AtomicUsize::new(0);
static GUARD_END: AtomicUsize = AtomicUsize::new(0);

fn describe(address: usize) -> Option<Overflowed> {
    let guard = GUARD_START.load(Ordering::Relaxed)..GUARD_END.load(Ordering::Relaxed);
    let name = "par\"ser";
    guard.contains(&address).then_some(Overflowed {
        is_task: false,
        name: name.as_ptr(),
        name_length: name.len(),
        id: 12,
        size: 16 << 10,
        tag: None,
    })
}

/// A stack whose guard [`describe`] knows.
fn known_stack() -> Stack {
    let stack = Stack::take(StackSize::KiB16).unwrap();
    GUARD_START.store(stack.guard().start, Ordering::Relaxed);
    GUARD_END.store(stack.guard().end, Ordering::Relaxed);
    stack
}

fn touch(address: usize) {
    // SAFETY: the process is meant to die of this; it holds nothing that anybody needs.
    unsafe { ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
}

/// Leaves the calling thread as C code would have made it.
fn disable_alternate_stack() {
    let disabled = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: disabling touches no memory.
    unsafe { libc::sigaltstack(&disabled, ptr::null_mut()) };
}

fn child(test: &str, body: fn()) -> Output {
    run_in_child(module_path!(), test, body)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const MESSAGE: &str = "sinew: fiber \"par?ser\" (#12) overflowed its stack of 16 KiB: \
                       give it a larger one (Fiber::builder().stack(..); tasks, actors: Runtime::builder().stack(..)), or box what is large\n";

#[test]
fn touching_the_guard_of_the_running_fiber_names_it_and_aborts() {
    let output = child("touching_the_guard_of_the_running_fiber_names_it_and_aborts", || {
        install(describe);
        prepare_thread();
        touch(known_stack().guard().end - 1);
    });
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
    assert!(stderr(&output).contains(MESSAGE), "{}", stderr(&output));
}

#[test]
fn recursion_without_end_on_a_stack_of_ours_is_reported_from_a_thread_that_c_made() {
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        disable_alternate_stack();
        prepare_thread();
        assert_eq!(current_alternate_stack().ss_flags & libc::SS_DISABLE, 0);
        recurse(u64::MAX);
        ptr::null_mut()
    }
    #[inline(never)]
    fn recurse(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 16]);
        if depth == 0 { frame[0] } else { recurse(depth - 1) + std::hint::black_box(&frame)[1] }
    }
    let output =
        child("recursion_without_end_on_a_stack_of_ours_is_reported_from_a_thread_that_c_made", || {
            install(describe);
            let stack = known_stack();
            // SAFETY: the stack is alive until the thread is joined, and nothing else runs on it.
            unsafe {
                let mut attributes = mem::zeroed();
                let mut thread = mem::zeroed();
                libc::pthread_attr_init(&mut attributes);
                libc::pthread_attr_setstack(&mut attributes, stack.limit().as_ptr().cast(), stack.size());
                assert_eq!(libc::pthread_create(&mut thread, &attributes, body, ptr::null_mut()), 0);
                libc::pthread_join(thread, ptr::null_mut());
            }
        });
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
    assert!(stderr(&output).contains(MESSAGE), "{}", stderr(&output));
}

#[test]
fn a_fault_elsewhere_dies_of_its_own_signal_and_blames_no_fiber() {
    let output = child("a_fault_elsewhere_dies_of_its_own_signal_and_blames_no_fiber", || {
        install(describe);
        let _stack = known_stack();
        touch(8);
    });
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", stderr(&output));
    assert!(!stderr(&output).contains("sinew:"), "{}", stderr(&output));
}

#[test]
fn a_thread_that_overflows_its_own_stack_is_still_reported_by_std() {
    #[inline(never)]
    fn recurse(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 64]);
        if depth == 0 { frame[0] } else { recurse(depth - 1) + std::hint::black_box(&frame)[1] }
    }
    let output = child("a_thread_that_overflows_its_own_stack_is_still_reported_by_std", || {
        install(describe);
        let _stack = known_stack();
        let thread = std::thread::Builder::new().name("deep".into()).spawn(|| recurse(u64::MAX));
        thread.unwrap().join().unwrap();
    });
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(&output));
    assert!(stderr(&output).contains("thread 'deep'"), "{}", stderr(&output));
}

fn previously(signal: libc::c_int, handler: usize, flags: libc::c_int) {
    // SAFETY: all zeros is a valid sigaction; the callers below pass special values or functions that fit
    // their flags.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

#[test]
fn a_fault_ends_the_process_by_default_when_there_was_no_handler_before() {
    let output = child("a_fault_ends_the_process_by_default_when_there_was_no_handler_before", || {
        previously(libc::SIGSEGV, libc::SIG_DFL, 0);
        install(describe);
        touch(8);
    });
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", stderr(&output));
}

#[test]
fn a_signal_that_somebody_sent_ends_the_process_as_it_would_have() {
    let output = child("a_signal_that_somebody_sent_ends_the_process_as_it_would_have", || {
        previously(libc::SIGBUS, libc::SIG_DFL, 0);
        previously(libc::SIGSEGV, libc::SIG_IGN, 0);
        install(describe);
        // SAFETY: raise touches no memory of ours.
        unsafe {
            libc::raise(libc::SIGSEGV);
            eprintln!("SIGSEGV was ignored");
            libc::raise(libc::SIGBUS);
        }
    });
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{}", stderr(&output));
    assert!(stderr(&output).contains("SIGSEGV was ignored"));
}

#[test]
fn handlers_that_were_there_before_get_the_faults_that_are_not_ours() {
    static SIMPLE: AtomicBool = AtomicBool::new(false);
    extern "C" fn simple(_: libc::c_int) {
        SIMPLE.store(true, Ordering::Relaxed);
    }
    extern "C" fn with_info(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel's record, passed on as it came.
        let address = unsafe { (*info).si_addr() }.addr();
        let code = if address == 64 && SIMPLE.load(Ordering::Relaxed) { 42 } else { 1 };
        // SAFETY: _exit ends the process.
        unsafe { libc::_exit(code) };
    }
    let output = child("handlers_that_were_there_before_get_the_faults_that_are_not_ours", || {
        previously(libc::SIGBUS, simple as *const () as usize, 0);
        previously(libc::SIGSEGV, with_info as *const () as usize, libc::SA_SIGINFO);
        install(describe);
        // SAFETY: raise touches no memory of ours.
        unsafe { libc::raise(libc::SIGBUS) };
        touch(64);
    });
    assert_eq!(output.status.code(), Some(42), "{}", stderr(&output));
}

#[test]
fn a_thread_keeps_the_alternate_stack_that_it_has_if_it_is_large_enough() {
    std::thread::spawn(|| {
        for (bytes, kept) in [(64 << 10, true), (signal_frame(), false)] {
            let own: &'static mut [u8] = Box::leak(vec![0; bytes].into_boxed_slice());
            let own = libc::stack_t { ss_sp: own.as_mut_ptr().cast(), ss_flags: 0, ss_size: bytes };
            // SAFETY: the memory is leaked, so it outlives the thread, and nothing else uses it.
            assert_eq!(unsafe { libc::sigaltstack(&own, ptr::null_mut()) }, 0);
            PREPARED.set(false);
            prepare_thread();
            assert_eq!(current_alternate_stack().ss_sp == own.ss_sp, kept);
        }
    })
    .join()
    .unwrap();
}

#[test]
fn a_thread_frees_the_alternate_stack_that_it_was_given() {
    pass_in_child(module_path!(), "a_thread_frees_the_alternate_stack_that_it_was_given", || {
        let is_mapped = |address: usize| {
            std::fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| {
                let (start, rest) = line.split_once('-').unwrap();
                let end = rest.split(' ').next().unwrap();
                let number = |text| usize::from_str_radix(text, 16).unwrap();
                (number(start)..number(end)).contains(&address)
            })
        };
        let given = std::thread::spawn(move || {
            disable_alternate_stack();
            prepare_thread();
            let given = current_alternate_stack();
            assert_eq!(given.ss_flags & libc::SS_DISABLE, 0);
            assert!(is_mapped(given.ss_sp.addr()));
            given.ss_sp.addr()
        });
        assert!(!is_mapped(given.join().unwrap()));
    });
}

fn line_about(is_task: bool, name: &str, id: u64, size: usize, tag: Option<OverflowTag>) -> String {
    let (name_length, name) = (name.len(), if name.is_empty() { ptr::null() } else { name.as_ptr() });
    let line = Line::about(&Overflowed { is_task, name, name_length, id, size, tag });
    String::from_utf8(line.bytes[..line.length].to_vec()).unwrap()
}

#[test]
fn what_is_part_of_something_is_told_with_its_id() {
    let tag = Some(OverflowTag { word: "actor", high: 1, low: 42 });
    let text = line_about(true, "", 7, 256 << 10, tag);
    assert!(text.starts_with("sinew: task #7 of actor 1.42 overflowed its stack of 256 KiB: "), "{text}");
    let text = line_about(false, "parser", 7, 256 << 10, tag);
    assert!(text.starts_with("sinew: fiber \"parser\" (#7) of actor 1.42 overflowed its stack"), "{text}");
}

#[test]
fn a_fiber_without_a_name_is_called_by_its_number() {
    let text = line_about(false, "", u64::MAX, 1 << 20, None);
    assert!(text.starts_with("sinew: fiber #18446744073709551615 overflowed its stack of 1 MiB: "), "{text}");
    assert!(text.ends_with("\n"));
}

#[test]
fn a_long_name_is_cut_and_the_advice_stays() {
    let tag = Some(OverflowTag { word: "actor", high: u32::MAX, low: u32::MAX });
    let text = line_about(true, &"n".repeat(1000), u64::MAX, 1020 << 20, tag);
    assert!(text.contains("n\" (#18446744073709551615) of actor 4294967295.4294967295 overflowed"), "{text}");
    assert!(text.ends_with("box what is large\n"), "{text}");
}
