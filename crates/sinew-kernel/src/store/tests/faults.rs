//! Looks at what is done to a file, before it is done, and has it wait or fail.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

/// What is about to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) enum Operation<'a> {
    Read,
    Write { offset: u64, data: &'a [u8] },
    SetLen(u64),
    Sync,
}

type Before = dyn Fn(Operation<'_>) -> io::Result<()> + Send + Sync;

#[derive(Clone, Default)]
pub(in crate::store) struct Faults(Arc<Mutex<Option<Arc<Before>>>>);

impl Faults {
    pub(in crate::store) fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        let before = self.0.lock().unwrap().clone();
        before.map_or(Ok(()), |before| before(operation))
    }

    /// From here on, `before` is called before everything that is done, and what it fails is not done.
    pub(super) fn set(&self, before: impl Fn(Operation<'_>) -> io::Result<()> + Send + Sync + 'static) {
        *self.0.lock().unwrap() = Some(Arc::new(before));
    }

    pub(super) fn clear(&self) {
        *self.0.lock().unwrap() = None;
    }

    /// Has the next sync, and all after it, wait at a gate.
    pub(super) fn gate(&self) -> Gate {
        let gate = Gate::default();
        let syncs = gate.clone();
        self.set(move |operation| {
            if operation == Operation::Sync {
                syncs.pass();
            }
            Ok(())
        });
        gate
    }
}

/// A gate that is shut until it is opened.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<(Mutex<(usize, bool)>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.0 += 1;
        changed.notify_all();
        drop(changed.wait_while(state, |(_, open)| !*open).unwrap());
    }

    /// Waits until somebody is at the gate.
    pub(super) fn wait_for_arrival(&self) {
        let (state, changed) = &*self.0;
        drop(changed.wait_while(state.lock().unwrap(), |(arrived, _)| *arrived == 0).unwrap());
    }

    pub(super) fn open(&self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap().1 = true;
        changed.notify_all();
    }
}
