//! Sets of bits with names: readiness events and flags of file descriptors.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

/// A set of bits, each with a name.
macro_rules! bits {
    ($(#[$about:meta])* $set:ident { $($(#[$bit_about:meta])* $bit:ident = $value:literal, $name:literal;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $set(u32);

        impl $set {
            $($(#[$bit_about])* pub const $bit: $set = $set($value);)*

            /// No bit.
            pub const NONE: $set = $set(0);

            /// Every bit.
            pub const ALL: $set = $set(0 $(| $value)*);

            /// Returns the set with these bits. Bits without a meaning are left out.
            pub const fn from_bits_truncate(bits: u32) -> $set {
                $set(bits & $set::ALL.0)
            }

            /// Returns the bits as a number.
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// Returns true if no bit is set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Returns true if all bits of `other` are set.
            pub const fn contains(self, other: $set) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns true if at least one bit of `other` is set.
            pub const fn intersects(self, other: $set) -> bool {
                self.0 & other.0 != 0
            }

            /// Returns the set without the bits of `other`.
            pub const fn without(self, other: $set) -> $set {
                $set(self.0 & !other.0)
            }

            /// Returns the names of the bits that are set.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$(($set::$bit, $name)),*].into_iter().filter(move |(bit, _)| self.contains(*bit)).map(|(_, name)| name)
            }

            /// Returns the bit with this name.
            pub fn from_name(name: &str) -> Option<$set> {
                [$(($set::$bit, $name)),*].into_iter().find(|(_, known)| *known == name).map(|(bit, _)| bit)
            }
        }

        impl BitOr for $set {
            type Output = $set;

            fn bitor(self, other: $set) -> $set {
                $set(self.0 | other.0)
            }
        }

        impl BitOrAssign for $set {
            fn bitor_assign(&mut self, other: $set) {
                self.0 |= other.0;
            }
        }

        impl BitAnd for $set {
            type Output = $set;

            fn bitand(self, other: $set) -> $set {
                $set(self.0 & other.0)
            }
        }

        impl fmt::Debug for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.names()).finish()
            }
        }
    };
}

bits! {
    /// What a file descriptor is ready for.
    ///
    /// ```
    /// use sinew_fd::Events;
    ///
    /// let mask = Events::IN | Events::HUP;
    /// assert_eq!(mask.bits(), 0x11);
    /// assert!(mask.contains(Events::IN) && !mask.intersects(Events::OUT));
    /// assert_eq!(mask.names().collect::<Vec<_>>(), ["EPOLLIN", "EPOLLHUP"]);
    /// ```
    Events {
        /// A read does not fail with `EAGAIN`: there is something to read, or the end of file.
        IN = 0x001, "EPOLLIN";
        /// A write of the object's [minimum](crate::FdObject::write_minimum) succeeds.
        OUT = 0x004, "EPOLLOUT";
        /// The object failed, or the end that reads from it is closed. Always reported.
        ERR = 0x008, "EPOLLERR";
        /// The file descriptor or its other end was closed. Always reported.
        HUP = 0x010, "EPOLLHUP";
    }
}

bits! {
    /// Flags of a file descriptor.
    Flags {
        /// Calls that would wait fail with `EAGAIN` instead.
        NONBLOCK = 0x1, "O_NONBLOCK";
        /// The file descriptor is closed when its actor is reloaded.
        CLOEXEC = 0x2, "FD_CLOEXEC";
    }
}

impl Events {
    /// The events that are reported whether or not they were asked for.
    pub const ALWAYS: Events = Events(Events::ERR.0 | Events::HUP.0);
}
