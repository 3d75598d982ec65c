//! What the two ends of a channel have in common.

use std::cell::Cell;
use std::marker::PhantomData;

/// Ends that can be cloned and shared: many may send, many may receive.
#[derive(Debug)]
pub struct Many(());

/// Ends of which there is one on each side ([`spsc`](super::spsc)). They can be sent to another thread, not shared.
#[derive(Debug)]
pub struct One(PhantomData<Cell<()>>);

/// The methods that both ends have.
macro_rules! both_ends {
    ($end:ident, $count:ident, $last_goes:ident) => {
        impl<T, K> $end<T, K> {
            /// Closes the channel: nothing is sent any more, and receivers see so when they have received everything. False
            /// if it was ended before.
            pub fn close(&self) -> bool {
                self.channel.end(End::Closed)
            }

            /// Ends the channel for both sides, which see [`RecvError::Cancelled`](super::RecvError::Cancelled), when
            /// they have received everything, and [`Unsent::Cancelled`](super::Unsent::Cancelled). False if it was
            /// ended before.
            pub fn cancel(&self) -> bool {
                self.channel.end(End::Cancelled)
            }

            /// True once the channel was ended, in whatever way.
            pub fn is_closed(&self) -> bool {
                flavour!(self.channel, is_closed())
            }

            /// How many items are in the channel. It may be more than the [`capacity`](Self::capacity): an item that
            /// was on its way to a receiver that was killed, or a future that was dropped, comes back also if its
            /// place was taken meanwhile.
            pub fn len(&self) -> usize {
                flavour!(self.channel, len())
            }

            /// True if nothing is in the channel.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// What the items in the channel weigh in all: their number, unless the channel is
            /// [`weighted`](super::weighted).
            pub fn weight(&self) -> usize {
                flavour!(self.channel, weight())
            }

            /// How much the channel holds: so many items, or so much weight.
            pub fn capacity(&self) -> usize {
                self.channel.capacity()
            }

            /// True if the two are ends of the same channel.
            pub fn same_channel(&self, other: &$end<T, K>) -> bool {
                Arc::ptr_eq(&self.channel, &other.channel)
            }
        }

        impl<T> Clone for $end<T> {
            fn clone(&self) -> $end<T> {
                self.channel.$count.fetch_add(1, Ordering::Relaxed);
                $end { channel: self.channel.clone(), prepaid: Prepaid::new(), _kind: PhantomData }
            }
        }

        impl<T, K> Drop for $end<T, K> {
            fn drop(&mut self) {
                if self.channel.$count.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.channel.$last_goes();
                }
            }
        }

        impl<T, K> fmt::Debug for $end<T, K> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut shown = f.debug_struct(stringify!($end));
                shown.field("len", &self.len()).field("capacity", &self.capacity());
                shown.field("closed", &self.is_closed()).finish()
            }
        }
    };
}
pub(super) use both_ends;
