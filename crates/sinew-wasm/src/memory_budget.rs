//! The memory of all guests of an engine, which a limit may bound.

use sinew_sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct MemoryBudget {
    limit: usize,
    used: AtomicUsize,
}

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> MemoryBudget {
        MemoryBudget { limit, used: AtomicUsize::new(0) }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes`. False if that would exceed the limit.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.limit)
        });
        taken.is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_refuses_what_exceeds_it_and_takes_it_when_there_is_room_again() {
        let budget = MemoryBudget::new(100);
        assert!(budget.take(60) && budget.take(40));
        assert!(!budget.take(1));
        budget.give_back(40);
        assert!(!budget.take(usize::MAX) && budget.take(40));
        assert_eq!(budget.used(), 100);
    }
}
