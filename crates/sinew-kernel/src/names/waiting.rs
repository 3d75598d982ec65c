//! Callers that wait until a name leads to another actor.
//!
//! # Protocol
//!
//! A caller that finds no actor under a name, or an actor that ends, calls [`Names::wait`]. It
//! looks the name up again under the lock of the names, and leaves a sender there if it still has
//! to wait. [`Names::register`] takes out the senders of that name under the same lock, and wakes
//! their callers after it has released the lock. So no registration is missed: either the caller's
//! look-up comes after it, or it finds the sender.
//!
//! A woken caller looks the name up again, and waits again if necessary: the new actor may have
//! ended. What a path leads to also depends on mounts and flat names, so callers that wait for a
//! path are woken by every change that could lead it to another actor.
//!
//! A node that shuts down starts no actors, so it wakes all callers. It sets its `closed` flag
//! before it takes the lock, and a caller reads the flag under the lock: either the caller sees the
//! flag, or the node sees the sender.
//!
//! A caller that stops waiting, because of its timeout, a cancellation or a kill, takes its sender
//! out.
//!
//! Models: `name_is_waited_for`, `name_wait_against_shutdown`.

use sinew_chan::chan::{RecvError, oneshot};
use sinew_core::{ActorId, Instant};
use sinew_fiber::Refused;

use super::check;
use crate::registry::Names;
use crate::registry::waiting::Woken;
use crate::shared::Inner;

impl Names {
    /// Waits until a name or a path may lead to an actor other than `ended`. Returns false on
    /// timeout, if the name is invalid, and if the node starts no more actors.
    pub(crate) fn wait(
        &self,
        node: &Inner,
        text: &str,
        ended: Option<ActorId>,
        deadline: Instant,
    ) -> Result<bool, Refused> {
        if check(text).is_err() {
            return Ok(false);
        }
        let (sender, mut receiver) = oneshot::channel();
        let ticket = node.next_number();
        {
            let mut tables = self.tables.write();
            let found = tables.lookup(text);
            if found.is_some() && found != ended {
                return Ok(true);
            }
            if node.is_closed() {
                return Ok(false);
            }
            tables.waiting.add(text, ticket, sender);
        }
        let _forgets = ForgetsCaller { names: self, text, ticket };
        match receiver.recv_timeout(deadline - sinew_sched::now()) {
            Ok(()) => Ok(true),
            Err(RecvError::Timeout) => Ok(false),
            Err(RecvError::Refused(refused)) => Err(refused),
            Err(_) => Ok(true), // the sender is gone: look again
        }
    }

    /// Wakes all callers. Called when the node starts no more actors.
    pub(crate) fn wake_all(&self) {
        let mut woken = Woken::default();
        self.tables.write().waiting.closed(&mut woken);
    }
}

/// Takes out the sender of a caller that stops waiting, also if the wait unwinds.
struct ForgetsCaller<'a> {
    names: &'a Names,
    text: &'a str,
    ticket: u64,
}

impl Drop for ForgetsCaller<'_> {
    fn drop(&mut self) {
        let caller = self.names.tables.write().waiting.remove(self.text, self.ticket);
        drop(caller); // without the lock
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::registry::waiting::Waiting;
    use crate::{Flow, Node};

    #[test]
    fn a_caller_that_gives_up_leaves_nothing_behind() {
        let node = Node::new();
        let is_empty = || {
            let Waiting { names, paths } = &node.0.names.tables.read().waiting;
            names.is_empty() && paths.is_empty()
        };
        for name in ["it", "/it"] {
            assert!(!node.0.names.wait(node.0, name, None, Instant::from_nanos(0)).unwrap());
            assert!(is_empty(), "its time was up");
            let reference = *node;
            let waits = node.handle().spawn(move || reference.named::<u32>(name).tell(7).is_ok());
            while is_empty() {
                sinew_sync::thread::yield_now();
            }
            waits.kill();
            assert!(waits.join().unwrap_err().is_cancelled());
            assert!(is_empty(), "it was killed");
            let actor = node.actor().name(name).spawn_raw((), |_, _, _| Flow::Continue).unwrap();
            assert!(node.0.names.wait(node.0, name, None, Instant::from_nanos(0)).unwrap());
            assert!(!node.0.names.wait(node.0, name, Some(actor.id()), Instant::from_nanos(0)).unwrap());
            assert!(is_empty(), "it had ended");
        }
    }
}
