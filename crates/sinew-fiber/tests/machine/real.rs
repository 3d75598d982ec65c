//! Runs a program on `sinew_fiber`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sinew_fiber::{
    CancelLevel, Cancelled, Fiber, FiberRef, Flags, Hook, Key, Mask, Panic, Refused, Root, Signal, Stop,
    Value, await_, checkpoint, control, current, debug, error, ffi_scope, propagate, quarantined,
    run_as_root, shield, signal, yield_,
};

use crate::log::{Event, Log, Name, Outcome, Raised, Seen, Val};
use crate::program::{Body, KEYS, Make, Op, Program, Target};

static BINDINGS: [Key<u32>; KEYS] = [Key::new("first"), Key::new("second")];

/// The events of `program`, run on a thread of its own: whatever goes wrong there does not show in the next.
pub(crate) fn run(program: &Program) -> Vec<Event> {
    let program = program.clone();
    std::thread::spawn(move || run_here(&program)).join().expect("a run catches what its programs raise")
}

fn run_here(program: &Program) -> Vec<Event> {
    let before = quarantined().count;
    let world = Rc::new(World::default());
    let mut roots: Vec<Root> = Vec::new();
    for (number, letters) in program.roots.iter().enumerate() {
        let mask = letters.as_deref().map_or(Mask::NONE, |letters| flags(letters).mask);
        roots.push(Root::new(format!("root{number}"), mask));
    }
    let runs = program.runs.iter().map(|(root, body)| (*root, Some(body.clone())));
    for (root, body) in runs.chain([(0, None)]) {
        let answer = program.roots[root].is_some().then(|| Answer(world.clone()));
        let hook = answer.as_ref().map(|hook| hook as &dyn Hook);
        let result = run_as_root(&mut roots[root], hook, || match body {
            Some(body) => world.run_body(&body),
            None => world.drop_all(),
        });
        let result = result.map_err(raised);
        world.note(Event::Over { result, quarantined: quarantined().count - before });
    }
    let table = world.table.take();
    assert!(table.iter().all(|entry| entry.handle.is_none()), "all handles were dropped under their root");
    let mut log = world.log.borrow_mut();
    std::mem::take(&mut log.events)
}

/// A fiber of the table; the handle is gone once it was dropped.
struct Entry {
    handle: Option<Rc<Fiber>>,
    view: FiberRef,
}

#[derive(Default)]
struct World {
    log: RefCell<Log>,
    table: RefCell<Vec<Entry>>,
    steps: Cell<u32>,
}

struct Answer(Rc<World>);

impl Hook for Answer {
    fn stop(&self, signal: Signal, payload: Value) -> Value {
        self.0.note(Event::Hook(signal, val(&payload)));
        Value::new(self.0.step())
    }
}

/// What a body does when it is left.
enum Last {
    Run(Make),
    Drop(Option<Rc<Fiber>>),
}

/// A local variable of a body.
struct Local {
    world: Rc<World>,
    last: Last,
}

impl Drop for Local {
    fn drop(&mut self) {
        let step = self.world.step();
        let outcome = match &mut self.last {
            Last::Run(make) => {
                let index = self.world.make(make, Mask::TERMINATION);
                self.world.resume(index, step)
            }
            Last::Drop(handle) => {
                drop(handle.take());
                Outcome::Done
            }
        };
        self.world.did(step, outcome);
    }
}

impl World {
    fn step(&self) -> u32 {
        self.steps.set(self.steps.get() + 1);
        // Roots without a hook await by blocking the thread: let it go on at once.
        std::thread::current().unpark();
        self.steps.get()
    }

    fn note(&self, event: Event) {
        let table = self.table.borrow();
        self.log.borrow_mut().note(event, table.len(), |index| look(&table[index]));
    }

    fn did(&self, step: u32, what: Outcome) {
        self.note(Event::Did { who: name(&current()), step, what });
        std::thread::current().unpark();
    }

    fn make(self: &Rc<World>, make: &Make, catching: Mask) -> usize {
        let index = self.table.borrow().len();
        let (world, body) = (self.clone(), make.body.clone());
        let Flags { mask, bindings } = flags(&make.letters);
        let options = Fiber::builder().name(format!("f{index}")).mask(mask | catching).bindings(bindings);
        let fiber = options.build(move |argument| {
            world.note(Event::Began(Name::Fiber(index), val(&argument)));
            value(world.run_body(&body))
        });
        let fiber = fiber.expect("there is memory for a stack");
        let view = fiber.view();
        self.table.borrow_mut().push(Entry { handle: Some(Rc::new(fiber)), view });
        index
    }

    fn handle(&self, index: usize) -> Option<Rc<Fiber>> {
        self.table.borrow()[index].handle.clone()
    }

    /// Resumes a fiber that was just made.
    fn resume(&self, index: usize, step: u32) -> Outcome {
        let fiber = self.handle(index).expect("just made");
        stopped(fiber.resume(step))
    }

    fn run_body(self: &Rc<World>, body: &Body) -> Val {
        let mut locals = Vec::new();
        for op in body.iter() {
            let step = self.step();
            match op {
                Op::Return => return Val::Of(step),
                Op::Guard(make) => {
                    locals.push(Local { world: self.clone(), last: Last::Run(make.clone()) });
                    self.did(step, Outcome::Done);
                }
                Op::Own(target) => {
                    let handle = self.place(*target).and_then(|index| self.take(index));
                    let outcome = if handle.is_some() { Outcome::Done } else { Outcome::Gone };
                    locals.push(Local { world: self.clone(), last: Last::Drop(handle) });
                    self.did(step, outcome);
                }
                Op::Run(make) => {
                    let index = self.make(make, Mask::NONE);
                    self.did(step, Outcome::Made(index));
                    let step = self.step();
                    let outcome = self.resume(index, step);
                    self.did(step, outcome);
                }
                op => {
                    let outcome = self.perform(op, step);
                    self.did(step, outcome);
                }
            }
        }
        Val::Unit
    }

    fn drop_all(self: &Rc<World>) -> Val {
        // A fiber that is ended may make others, and may put one back that it had taken out.
        let first = || self.table.borrow().iter().position(|entry| entry.handle.is_some());
        while let Some(index) = first() {
            let step = self.step();
            drop(self.take(index));
            self.did(step, Outcome::Done);
        }
        Val::Unit
    }

    fn take(&self, index: usize) -> Option<Rc<Fiber>> {
        self.table.borrow_mut()[index].handle.take()
    }

    fn perform(self: &Rc<World>, op: &Op, step: u32) -> Outcome {
        match op {
            Op::New(make) => Outcome::Made(self.make(make, Mask::NONE)),
            Op::Resume(target) => self.with(*target, |fiber| stopped(fiber.resume(step))),
            Op::Cancel(target) => self.with(*target, |fiber| stopped(fiber.cancel(step))),
            Op::Propagate(target) => self.with(*target, |fiber| answered(propagate(step, fiber))),
            Op::Take(target) => self.with(*target, |fiber| Outcome::Taken(raised(fiber.take_raised()))),
            Op::Drop(target) => match self.place(*target).and_then(|index| self.take(index)) {
                Some(handle) => {
                    drop(handle);
                    Outcome::Done
                }
                None => Outcome::Gone,
            },
            Op::Next(target) => self.with_only(*target, |mut fiber, index| {
                let item = fiber.next().map(|item| item.map(|value| val(&value)).map_err(raised));
                self.table.borrow_mut()[index].handle = Some(Rc::new(fiber));
                Outcome::Item(item)
            }),
            Op::End(target) => {
                self.with_only(*target, |fiber, _| Outcome::Ended(fiber.end().map_err(raised)))
            }
            Op::Yield => answered(yield_(step)),
            Op::Debug => answered(debug(step)),
            Op::Await => answered(await_(step)),
            Op::Error => error(step),
            Op::Signal(which) => answered(signal(*which, step)),
            Op::Panic => panic!("panic {step}"),
            Op::Checkpoint => {
                checkpoint();
                Outcome::Done
            }
            Op::Interrupt => {
                control().interrupt();
                Outcome::Done
            }
            Op::Stop(CancelLevel::Cancel) => {
                control().cancel();
                Outcome::Done
            }
            Op::Stop(CancelLevel::Kill) => {
                control().kill();
                Outcome::Done
            }
            Op::Shield(body) => Outcome::Scope(Ok(shield(|| self.run_body(body)))),
            Op::Ffi(body) => Outcome::Scope(ffi_scope(|| self.run_body(body)).map_err(raised)),
            Op::Get(key) => Outcome::Bound(BINDINGS[*key].get().map(|value| *value)),
            Op::Set(key) => {
                BINDINGS[*key].set(step);
                Outcome::Done
            }
            Op::Unset(key) => {
                BINDINGS[*key].unset();
                Outcome::Done
            }
            Op::Run(_) | Op::Guard(_) | Op::Own(_) | Op::Return => unreachable!("`run_body` does these"),
        }
    }

    fn place(&self, target: Target) -> Option<usize> {
        target.among(self.table.borrow().len())
    }

    /// Does something with a handle of `target`, besides that in the table.
    fn with(&self, target: Target, act: impl FnOnce(&Fiber) -> Outcome) -> Outcome {
        match self.place(target).and_then(|index| self.handle(index)) {
            Some(fiber) => act(&fiber),
            None => Outcome::Gone,
        }
    }

    /// Does something with the only handle of `target`, out of the table.
    fn with_only(&self, target: Target, act: impl FnOnce(Fiber, usize) -> Outcome) -> Outcome {
        let Some(index) = self.place(target) else { return Outcome::Gone };
        let Some(handle) = self.take(index) else { return Outcome::Gone };
        match Rc::try_unwrap(handle) {
            Ok(fiber) => act(fiber, index),
            Err(handle) => {
                self.table.borrow_mut()[index].handle = Some(handle);
                Outcome::Busy
            }
        }
    }
}

fn look(entry: &Entry) -> Seen {
    Seen {
        status: entry.view.status(),
        can_resume: entry.view.can_resume(),
        last: entry.handle.as_ref().and_then(|fiber| fiber.last_value(|last| last.map(val))),
        lineage: entry.handle.iter().flat_map(|fiber| fiber.lineage()).map(|fiber| name(&fiber)).collect(),
    }
}

fn flags(letters: &str) -> Flags {
    letters.parse().expect("programs have known letters")
}

fn stopped(result: Result<Stop<'_>, Refused>) -> Outcome {
    result.map_or_else(refused, |stop| Outcome::Stopped(stop.signal()))
}

fn answered(result: Result<Value, Refused>) -> Outcome {
    result.map_or_else(refused, |value| Outcome::Value(val(&value)))
}

fn refused(refused: Refused) -> Outcome {
    Outcome::Refused {
        operation: refused.operation(),
        fiber: parse_name(refused.fiber().split('#').next().expect("a split has a first part")),
        status: refused.status(),
        reason: refused.reason(),
    }
}

fn raised(raised: sinew_fiber::Raised) -> Raised {
    let name = |link: &sinew_fiber::Link| parse_name(link.name.as_deref().expect("all have names"));
    Raised {
        signal: raised.signal,
        value: val(&raised.value),
        trace: raised.trace.map(|trace| trace.links().iter().map(name).collect()),
    }
}

fn name(fiber: &FiberRef) -> Name {
    parse_name(&fiber.name().expect("all have names"))
}

fn parse_name(name: &str) -> Name {
    let number = |digits: &str| digits.parse().expect("a number");
    match name.strip_prefix("root") {
        Some(digits) => Name::Root(number(digits)),
        None => Name::Fiber(number(name.strip_prefix('f').expect("the name of a fiber"))),
    }
}

fn value(value: Val) -> Value {
    match value {
        Val::Unit => Value::UNIT,
        Val::Of(number) => Value::new(number),
        Val::Cancelled | Val::Panic(_) | Val::Refused(_) | Val::Alien => {
            unreachable!("no body returns these")
        }
    }
}

fn val(value: &Value) -> Val {
    if value.is::<()>() {
        Val::Unit
    } else if value.is::<Cancelled>() {
        Val::Cancelled
    } else if let Some(panic) = value.downcast_ref::<Panic>() {
        let number = panic.message.strip_prefix("panic ").and_then(|digits| digits.parse().ok());
        number.map_or_else(|| alien(value), Val::Panic)
    } else if let Some(refused) = value.downcast_ref::<Refused>() {
        Val::Refused(refused.reason())
    } else {
        value.downcast_ref().map_or_else(|| alien(value), |number| Val::Of(*number))
    }
}

fn alien(value: &Value) -> Val {
    eprintln!("the machine made a value of its own: {value:?}");
    Val::Alien
}
