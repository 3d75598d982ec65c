//! The switch by itself: two stacks, nobody in charge.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;

use super::*;
use crate::{Stack, StackSize};

type Body = Box<dyn FnOnce(&Bare)>;

/// A stack with a body, and the two addresses that switching needs.
struct Bare {
    stack: Stack,
    here: Cell<StackPointer>,
    back: Cell<StackPointer>,
    body: Cell<Option<Body>>,
    ended: Cell<bool>,
}

unsafe extern "C" fn first(bare: *mut ()) -> ! {
    // SAFETY: `Bare::new` passed one that outlives its stack's use.
    let bare = unsafe { &*bare.cast::<Bare>() };
    let body = bare.body.take().expect("a stack is entered once");
    body(bare);
    bare.ended.set(true);
    // SAFETY: whoever resumed us is suspended at `back`; nothing is left on this stack.
    unsafe { leave(bare.back.get()) }
}

impl Bare {
    fn new(size: StackSize, body: impl FnOnce(&Bare) + 'static) -> Rc<Bare> {
        let stack = Stack::take(size).unwrap();
        let bare = Rc::new(Bare {
            here: Cell::new(ptr::null_mut()),
            back: Cell::new(ptr::null_mut()),
            body: Cell::new(Some(Box::new(body))),
            ended: Cell::new(false),
            stack,
        });
        let argument = ptr::from_ref(&*bare).cast_mut().cast();
        let top = bare.stack.top().as_ptr();
        // SAFETY: the stack is fresh, its top page aligned, and nothing else uses it. Where the first frame's
        // caller would be, if it had one, lies what an earlier user may have left: an address in some code.
        unsafe {
            top.cast::<[usize; 8]>().sub(1).write([not_a_caller as *const () as usize + 1; 8]);
            bare.here.set(prepare(top, first, argument));
        }
        bare
    }

    /// Runs the stack until it pauses or ends.
    fn resume(&self) {
        assert!(!self.ended.get());
        // SAFETY: it is fresh or paused, and only this thread resumes it.
        unsafe { switch(self.back.as_ptr(), self.here.get()) };
    }

    /// Goes back to whoever resumed this stack, from the stack itself.
    fn pause(&self) {
        // SAFETY: the resumer is suspended at `back`.
        unsafe { switch(self.here.as_ptr(), self.back.get()) };
    }
}

#[inline(never)]
fn not_a_caller() {
    black_box(());
}

/// More values than there are registers, all of them live across every switch that `between` makes.
#[inline(never)]
fn many_locals(seed: u64, between: impl Fn()) -> u64 {
    let [a, b, c, d, e, f, g, h] = black_box([1, 2, 3, 4, 5, 6, 7, 8].map(|n: u64| n.wrapping_mul(seed)));
    let [i, j, k, l, m, n, o, p] = black_box([9, 10, 11, 12, 13, 14, 15, 16].map(|n: u64| n ^ seed));
    let mut sum = 0u64;
    for round in 0..100 {
        between();
        let (x, y) = (a ^ b ^ c ^ d ^ e ^ f ^ g ^ h, i ^ j ^ k ^ l ^ m ^ n ^ o ^ p);
        sum = sum.rotate_left(1).wrapping_add(x).wrapping_sub(y).wrapping_add(a * round + p);
    }
    sum
}

#[test]
fn locals_and_registers_of_both_sides_survive_a_switch() {
    let there = Bare::new(StackSize::KiB64, |bare| {
        assert_eq!(many_locals(0x1234_5678, || bare.pause()), many_locals(0x1234_5678, || ()));
        bare.pause();
    });
    assert_eq!(many_locals(0x9abc_def1, || there.resume()), many_locals(0x9abc_def1, || ()));
    there.resume();
    assert!(!there.ended.get());
    there.resume();
    assert!(there.ended.get());
}

/// Calls `body(argument)` with a value made from `mark` in every register that a callee has to keep. Returns
/// zero if all of them were kept.
#[unsafe(naked)]
unsafe extern "C" fn with_marked_registers(
    body: unsafe extern "C" fn(*const Bare),
    argument: *const Bare,
    mark: usize,
) -> usize {
    core::arch::naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdx",
        "mov rax, rdi",
        "mov rdi, rsi",
        "lea rbx, [rdx + 1]",
        "lea rbp, [rdx + 2]",
        "lea r12, [rdx + 3]",
        "lea r13, [rdx + 4]",
        "lea r14, [rdx + 5]",
        "lea r15, [rdx + 6]",
        "call rax",
        "pop rdx",
        "lea rax, [rdx + 1]",
        "xor rax, rbx",
        "lea rcx, [rdx + 2]",
        "xor rcx, rbp",
        "or rax, rcx",
        "lea rcx, [rdx + 3]",
        "xor rcx, r12",
        "or rax, rcx",
        "lea rcx, [rdx + 4]",
        "xor rcx, r13",
        "or rax, rcx",
        "lea rcx, [rdx + 5]",
        "xor rcx, r14",
        "or rax, rcx",
        "lea rcx, [rdx + 6]",
        "xor rcx, r15",
        "or rax, rcx",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

#[test]
fn every_register_that_a_callee_keeps_is_kept_across_a_switch() {
    unsafe extern "C" fn resume(bare: *const Bare) {
        // SAFETY: the test below passes one that lives.
        unsafe { (*bare).resume() };
    }
    unsafe extern "C" fn pause(bare: *const Bare) {
        // SAFETY: as above.
        unsafe { (*bare).pause() };
    }
    let there = Bare::new(StackSize::KiB64, |bare| {
        for round in 0..3 {
            // SAFETY: the functions take what is passed, and do not unwind.
            assert_eq!(unsafe { with_marked_registers(pause, bare, 0x7000 + round * 16) }, 0);
        }
    });
    for round in 0..4 {
        // SAFETY: as above.
        assert_eq!(unsafe { with_marked_registers(resume, &*there, 0x9000 + round * 16) }, 0);
    }
    assert!(there.ended.get());
}

#[test]
fn floating_point_values_of_both_sides_survive_a_switch() {
    #[inline(never)]
    fn series(start: f64, between: impl Fn()) -> (f64, f32) {
        let factors: [f64; 12] = black_box(std::array::from_fn(|n| start + n as f64 / 8.0));
        let [a, b, c, d, e, f, g, h, i, j, k, l] = factors;
        let (mut sum, mut single) = (0.0, start as f32);
        for _ in 0..100 {
            between();
            sum += a * b - c * d + e * f - g * h + i * j - k * l;
            single = single * 1.5 - 0.25 * sum as f32;
            single %= 1024.0;
        }
        (sum, single)
    }
    let there = Bare::new(StackSize::KiB64, |bare| {
        assert_eq!(series(3.25, || bare.pause()), series(3.25, || ()));
        bare.pause();
    });
    assert_eq!(series(-7.5, || there.resume()), series(-7.5, || ()));
    there.resume();
    there.resume();
    assert!(there.ended.get());
}

#[test]
fn many_stacks_go_on_with_each_other_in_ring_order() {
    const STACKS: usize = 500;
    const ROUNDS: usize = 20;
    struct Ring {
        stacks: RefCell<Vec<Rc<Bare>>>,
        visits: RefCell<Vec<usize>>,
        home: Cell<StackPointer>,
    }
    let ring = Rc::new(Ring {
        stacks: RefCell::default(),
        visits: RefCell::default(),
        home: Cell::new(ptr::null_mut()),
    });
    for index in 0..STACKS {
        let ring_of_body = ring.clone();
        let bare = Bare::new(StackSize::KiB16, move |bare| {
            let ring = ring_of_body;
            for round in 0..ROUNDS {
                ring.visits.borrow_mut().push(index);
                let last = index + 1 == STACKS;
                let next = match last && round + 1 == ROUNDS {
                    true => ring.home.get(),
                    false => ring.stacks.borrow()[(index + 1) % STACKS].here.get(),
                };
                // SAFETY: the next stack of the ring is fresh or suspended here; so is the thread's own.
                unsafe { switch(bare.here.as_ptr(), next) };
            }
        });
        ring.stacks.borrow_mut().push(bare);
    }
    let first = ring.stacks.borrow()[0].here.get();
    // SAFETY: the first stack is fresh; the last one comes back here.
    unsafe { switch(ring.home.as_ptr(), first) };
    let expected: Vec<usize> = (0..STACKS * ROUNDS).map(|visit| visit % STACKS).collect();
    assert_eq!(*ring.visits.borrow(), expected);
    // All of them are paused in their last round: let each end.
    let stacks = ring.stacks.take();
    for bare in &stacks {
        bare.resume();
        assert!(bare.ended.get());
    }
}

#[test]
fn a_panic_is_caught_inside_the_entry_and_the_stack_goes_on() {
    let caught = Rc::new(Cell::new(0));
    let count = caught.clone();
    let bare = Bare::new(StackSize::KiB256, move |bare| {
        for round in 0..3u32 {
            let payload = catch_unwind(|| std::panic::resume_unwind(Box::new(round))).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&round));
            let payload = catch_unwind(|| panic!("round {round}")).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&format!("round {round}")));
            assert!(!std::thread::panicking());
            count.set(count.get() + 1);
            bare.pause();
        }
    });
    for round in 1..=3 {
        bare.resume();
        assert_eq!(caught.get(), round);
        assert!(!std::thread::panicking());
    }
    bare.resume();
    assert!(bare.ended.get());
}

struct CountsDown<'a>(&'a Cell<u32>, u32);

impl Drop for CountsDown<'_> {
    fn drop(&mut self) {
        assert_eq!(self.0.get(), self.1, "destructors run from the innermost frame outwards");
        self.0.set(self.1 - 1);
    }
}

#[test]
fn an_unwind_through_many_frames_runs_every_destructor() {
    const FRAMES: u32 = 300;
    #[inline(never)]
    fn descend(left: u32, alive: &Cell<u32>, bare: &Bare) -> u32 {
        if left == 0 {
            bare.pause();
            std::panic::resume_unwind(Box::new("bottom"));
        }
        alive.set(alive.get() + 1);
        let _guard = CountsDown(alive, alive.get());
        black_box(descend(left - 1, alive, bare)) + 1
    }
    let alive = Rc::new(Cell::new(0));
    let inside = alive.clone();
    let bare = Bare::new(StackSize::KiB256, move |bare| {
        let caught = catch_unwind(AssertUnwindSafe(|| descend(FRAMES, &inside, bare)));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"bottom"));
    });
    bare.resume();
    assert_eq!(alive.get(), FRAMES);
    bare.resume();
    assert_eq!((alive.get(), bare.ended.get()), (0, true));
}

#[test]
fn a_native_backtrace_names_the_body_and_ends_at_the_first_frame() {
    #[inline(never)]
    fn somewhere_in_the_body() -> String {
        black_box(Backtrace::force_capture().to_string())
    }
    let text = Rc::new(RefCell::default());
    let out = text.clone();
    let bare = Bare::new(StackSize::KiB256, move |bare| {
        *out.borrow_mut() = somewhere_in_the_body();
        bare.pause();
        *out.borrow_mut() += &black_box(somewhere_in_the_body());
    });
    for resumption in 0..2 {
        bare.resume();
        let text = text.take();
        let is_frame =
            |line: &&str| line.split_once(": ").is_some_and(|(n, _)| n.trim().parse::<u32>().is_ok());
        let frames: Vec<&str> = text.lines().filter(is_frame).collect();
        assert!(frames.iter().any(|frame| frame.contains("somewhere_in_the_body")), "{resumption}: {text}");
        assert!(frames.last().unwrap().contains("first_frame"), "{resumption}: {text}");
        assert!(!text.contains("not_a_caller"), "{resumption}: {text}");
    }
}

#[test]
fn recursion_to_the_last_kibibytes_of_a_stack_works() {
    #[inline(never)]
    fn descend(limit: usize, bare: &Bare) -> u64 {
        let frame = black_box([1u64; 16]);
        if ptr::from_ref(&frame).addr() - limit < 3 << 10 {
            bare.pause();
            return 0;
        }
        descend(limit, bare) + black_box(&frame)[3]
    }
    for size in [StackSize::KiB16, StackSize::KiB256, StackSize::MiB1] {
        let depth = Rc::new(Cell::new(0));
        let out = depth.clone();
        let bare = Bare::new(size, move |bare| out.set(descend(bare.stack.limit().addr().get(), bare)));
        bare.resume();
        assert_eq!(bare.stack.high_water(), size.bytes());
        bare.resume();
        assert!(bare.ended.get());
        assert!(depth.get() > size.bytes() as u64 / 1024, "{}", depth.get());
    }
}

/// A thread is interrupted again and again while it does nothing but switch: sometimes in the middle of it, sometimes not,
/// and in the middle the stack pointer may be anywhere.
#[test]
fn an_instruction_in_the_middle_of_a_switch_is_told_from_others() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static WITHIN: AtomicUsize = AtomicUsize::new(0);
    static OUTSIDE: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn note(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel passes the registers of who was interrupted.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let address = registers[libc::REG_RIP as usize] as usize;
        if is_switching(address) { &WITHIN } else { &OUTSIDE }.fetch_add(1, Ordering::Relaxed);
    }

    assert!(!is_switching(prepare as *const () as usize));
    // SAFETY: the handler has the signature that the flags say, and calls nothing that a handler must not.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(libc::SIGURG, &action, std::ptr::null_mut());
    }
    // SAFETY: it asks who calls.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    let over = std::sync::Arc::new(AtomicUsize::new(0));
    let until = over.clone();
    let interrupts = std::thread::spawn(move || {
        while until.load(Ordering::Relaxed) == 0 {
            // SAFETY: sends a signal that is handled.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGURG) };
        }
    });
    let mut numbers = crate::Generator::new(|out| {
        for n in 0u64.. {
            out.yield_(n)
        }
    })
    .unwrap();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while WITHIN.load(Ordering::Relaxed) == 0 || OUTSIDE.load(Ordering::Relaxed) == 0 {
        numbers.nth(1000);
        assert!(std::time::Instant::now() < limit, "{WITHIN:?} within, {OUTSIDE:?} outside");
    }
    over.store(1, Ordering::Relaxed);
    interrupts.join().unwrap();
}

/// A thread is interrupted at every instruction of a call above another stack: whoever walks its frames up from there finds
/// the caller, or the other stack, and nothing else.
#[cfg(not(valgrind))] // which has no trap flag
#[test]
fn a_call_above_another_stack_can_be_walked_at_each_of_its_instructions() {
    use std::ffi::{c_int, c_void};
    use std::sync::atomic::{AtomicUsize, Ordering};

    enum Context {}
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            each: extern "C" fn(*mut Context, *mut c_void) -> c_int,
            walk: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIP(context: *mut Context) -> usize;
    }

    /// From `push rbx` to `ret`.
    const LENGTH: usize = 11;
    const NONE: usize = 0;
    /// What is above each instruction that the thread was interrupted at.
    static ABOVE: [AtomicUsize; LENGTH] = [const { AtomicUsize::new(NONE) }; LENGTH];

    /// The address that was interrupted, and the one above it when the walk has come there.
    struct Walk(usize, Option<usize>);

    extern "C" fn each(context: *mut Context, walk: *mut c_void) -> c_int {
        // SAFETY: the unwinder passes the context of a frame, and what it was given.
        let (address, walk) = unsafe { (_Unwind_GetIP(context), &mut *walk.cast::<Walk>()) };
        match walk.1 {
            None if address == walk.0 => walk.1 = Some(NONE),
            None => (),
            Some(_) => {
                walk.1 = Some(address);
                return 5; // the end of the stack
            }
        }
        0
    }

    extern "C" fn on_trap(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel passes the registers of who was interrupted.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let address = registers[libc::REG_RIP as usize] as usize;
        let instruction = address.wrapping_sub(call_above as *const () as usize);
        if let Some(above) = ABOVE.get(instruction) {
            let mut walk = Walk(address, None);
            // SAFETY: the walk lives until the call returns.
            unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
            above.store(walk.1.unwrap_or(NONE), Ordering::Relaxed);
        }
    }

    extern "C" fn look(_: *mut ()) {}

    let bare = Bare::new(StackSize::KiB256, Bare::pause);
    bare.resume();
    let sp = bare.here.get();
    // SAFETY: the handler has the signature that the flags say; the other stack is paused until the call has returned, and the
    // trap flag is back as it was.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut());
        core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        call_above(sp, look, ptr::null_mut());
        core::arch::asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq");
    }
    let above = ABOVE.each_ref().map(|above| above.load(Ordering::Relaxed));
    // SAFETY: where a paused stack goes on is on top of it.
    let (caller, other) = (above[0], unsafe { *sp.cast::<usize>() });
    let walked: Vec<usize> = above.into_iter().filter(|above| *above != NONE).collect();
    assert_eq!(walked, [caller, caller, other, other, caller, caller], "{above:x?}");
    bare.resume();
}
