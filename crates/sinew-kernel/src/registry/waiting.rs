//! The callers that wait until a name leads to another actor. [`names::waiting`](crate::names) has
//! the protocol.

use std::collections::BTreeMap;
use std::mem;

use sinew_chan::chan::oneshot;

/// Callers, by their tickets.
type Callers = BTreeMap<u64, oneshot::Sender<()>>;

/// The callers that wait, by the name that they wait for.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) names: BTreeMap<Box<str>, Callers>,
    pub(crate) paths: Callers,
}

/// Callers to wake after the lock is released: created before the lock is taken, so that it is
/// dropped after it, and wakes them then.
#[derive(Default)]
#[must_use = "it is dropped when the lock is free"]
pub(crate) struct Woken(Vec<oneshot::Sender<()>>);

impl Drop for Woken {
    fn drop(&mut self) {
        for caller in mem::take(&mut self.0) {
            let _ = caller.send(()); // it may have given up
        }
    }
}

impl Waiting {
    pub(crate) fn add(&mut self, text: &str, ticket: u64, caller: oneshot::Sender<()>) {
        let callers = match text.starts_with('/') {
            true => &mut self.paths,
            false => self.names.entry(text.into()).or_default(),
        };
        callers.insert(ticket, caller);
    }

    pub(crate) fn remove(&mut self, text: &str, ticket: u64) -> Option<oneshot::Sender<()>> {
        if text.starts_with('/') {
            return self.paths.remove(&ticket);
        }
        let callers = self.names.get_mut(text)?;
        let caller = callers.remove(&ticket);
        if callers.is_empty() {
            self.names.remove(text);
        }
        caller
    }

    /// Takes out the callers that a registration may concern.
    pub(crate) fn registered(&mut self, text: &str, woken: &mut Woken) {
        self.paths_changed(woken);
        if !self.names.is_empty()
            && let Some(callers) = self.names.remove(text)
        {
            woken.0.extend(callers.into_values());
        }
    }

    /// Takes out the callers that wait for paths.
    pub(crate) fn paths_changed(&mut self, woken: &mut Woken) {
        if !self.paths.is_empty() {
            woken.0.extend(mem::take(&mut self.paths).into_values());
        }
    }

    /// Takes out all callers.
    pub(crate) fn closed(&mut self, woken: &mut Woken) {
        self.paths_changed(woken);
        woken.0.extend(mem::take(&mut self.names).into_values().flat_map(Callers::into_values));
    }
}
