//! What became of every item that was to be sent.
#![allow(dead_code, reason = "no test program uses all of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use sinew_chan::chan::{SendError, Unsent};

use crate::support::{Counted, Tally};

const MADE: u32 = 1;
const SENT: u32 = 2;
const BACK: u32 = 4;
const RECEIVED: u32 = 8;

/// An account of the items of several producers: each that was sent is received once, and none that came back.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<Book>);

struct Book {
    tally: Tally,
    each: usize,
    fates: Vec<AtomicU32>,
    received: AtomicUsize,
}

/// Who sends, and the number of its next item.
pub(crate) struct Producer {
    ledger: Ledger,
    number: usize,
    next: usize,
}

/// Who receives: of each producer it gets later items later.
pub(crate) struct Consumer {
    ledger: Ledger,
    /// The last of each producer; none if the order is not looked at.
    last: Option<Vec<Option<usize>>>,
}

impl Ledger {
    /// For so many producers, of up to `each` items.
    pub(crate) fn new(producers: usize, each: usize) -> Ledger {
        let fates = (0..producers * each).map(|_| AtomicU32::new(0)).collect();
        Ledger(Arc::new(Book { tally: Tally::new(), each, fates, received: AtomicUsize::new(0) }))
    }

    pub(crate) fn producer(&self, number: usize) -> Producer {
        Producer { ledger: self.clone(), number, next: 0 }
    }

    pub(crate) fn consumer(&self) -> Consumer {
        let producers = self.0.fates.len() / self.0.each;
        Consumer { ledger: self.clone(), last: Some(vec![None; producers]) }
    }

    /// One who does not care in which order items come.
    pub(crate) fn careless_consumer(&self) -> Consumer {
        Consumer { ledger: self.clone(), last: None }
    }

    pub(crate) fn received(&self) -> usize {
        self.0.received.load(Ordering::Relaxed)
    }

    fn note(&self, number: u64, what: u32) -> u32 {
        self.0.fates[number as usize].fetch_add(what, Ordering::AcqRel)
    }

    /// The item with this number was sent.
    pub(crate) fn was_sent(&self, number: u64) {
        self.note(number, SENT);
    }

    /// An item came back to whoever has it now.
    #[track_caller]
    pub(crate) fn came_back(&self, item: Counted) {
        assert_eq!(self.note(item.number(), BACK) & BACK, 0, "{} came back twice", item.number());
    }

    /// Everything has ended: what was sent was received once, or is gone with the channel if `may_be_left`; what came back
    /// was not received; of what is neither known to be sent nor came back nobody knows; nothing is left.
    #[track_caller]
    pub(crate) fn settle(&self, may_be_left: bool) {
        let mut made = 0;
        for (number, fate) in self.0.fates.iter().enumerate() {
            let fate = fate.load(Ordering::Acquire);
            made += usize::from(fate & MADE != 0);
            let received = fate / RECEIVED;
            let sound = match fate % RECEIVED {
                0 => received == 0,
                MADE => received <= 1,
                fate if fate == MADE | SENT => received == 1 || may_be_left && received == 0,
                fate if fate == MADE | BACK => received == 0,
                _ => false,
            };
            let (producer, item) = (number / self.0.each, number % self.0.each);
            assert!(
                sound,
                "item {item} of {producer}: sent {}, came back {}, received {received} times",
                fate & SENT != 0,
                fate & BACK != 0
            );
        }
        self.0.tally.assert_even(made);
    }
}

impl Producer {
    /// The next item; none if it has made all.
    pub(crate) fn next(&mut self) -> Option<Counted> {
        let each = self.ledger.0.each;
        let number = (self.next < each).then_some((self.number * each + self.next) as u64)?;
        self.next += 1;
        self.ledger.note(number, MADE);
        Some(self.ledger.0.tally.value(number))
    }

    /// What came of sending the last item. The reason if it came back.
    #[track_caller]
    pub(crate) fn sent(&self, outcome: Result<(), SendError<Counted>>) -> Result<(), Unsent> {
        match outcome {
            Ok(()) => {
                self.ledger.was_sent((self.number * self.ledger.0.each + self.next - 1) as u64);
                Ok(())
            }
            Err(SendError { item, why }) => {
                self.ledger.came_back(item);
                Err(why)
            }
        }
    }

    pub(crate) fn was_sent(&self, number: u64) {
        self.ledger.was_sent(number);
    }

    #[track_caller]
    pub(crate) fn came_back(&self, item: Counted) {
        self.ledger.came_back(item);
    }
}

impl Consumer {
    #[track_caller]
    pub(crate) fn received(&mut self, item: Counted) {
        let (ledger, number) = (&self.ledger, item.number());
        let before = ledger.note(number, RECEIVED);
        assert!(before & MADE != 0 && before / RECEIVED == 0, "{number} was received before: {before:b}");
        ledger.0.received.fetch_add(1, Ordering::Relaxed);
        if let Some(last) = &mut self.last {
            let (producer, item) = (number as usize / ledger.0.each, number as usize % ledger.0.each);
            let before = last[producer].replace(item);
            assert!(before < Some(item), "{item} of {producer} came after {before:?}");
        }
    }
}
