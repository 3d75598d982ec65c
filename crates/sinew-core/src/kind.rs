//! The kinds of messages: a number each, of which the highest are the system's.

use core::fmt;

/// What kind of message this is: 32 bits that sender and receiver agree on.
///
/// Everything below [`Kind::SYSTEM_START`] is free for actors. The rest is the system's: such messages tell an
/// actor of its timers, its children, its connections. Those up to 0xFF00001E have the numbers of the public
/// microkernel design that Sinew's guests are written for; those from 0xFF0000C0 on are Sinew's own.
///
/// ```
/// use sinew_core::Kind;
///
/// const PING: Kind = Kind(1);
/// assert!(!PING.is_system());
/// assert!(Kind::TIMER.is_system());
/// assert_eq!(Kind::TIMER, Kind(0xFF00_0001));
/// assert_eq!(Kind::TIMER.to_string(), "TIMER");
/// assert_eq!(PING.to_string(), "0x1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u32);

impl Kind {
    /// 0xFF000000: from here on, kinds are the system's.
    pub const SYSTEM_START: Kind = Kind(0xFF00_0000);

    /// True for the kinds that are the system's.
    #[inline]
    pub const fn is_system(self) -> bool {
        self.0 >= Kind::SYSTEM_START.0
    }

    /// True for the system's kinds that are requests: actors send them, each to the service that answers it. All
    /// others of the system's kinds are sent by the system alone.
    ///
    /// ```
    /// use sinew_core::Kind;
    ///
    /// assert!(Kind::NS_LOOKUP.is_request());
    /// assert!(!Kind::NS_REPLY.is_request());
    /// ```
    #[inline]
    pub const fn is_request(self) -> bool {
        self.is_namespace_request() || matches!(self, Kind::LOG | Kind::CAPS_REQUEST)
    }

    /// True for the requests that the namespace answers: `NS_REGISTER` to `NS_UMOUNT`.
    #[inline]
    pub const fn is_namespace_request(self) -> bool {
        Kind::NS_REGISTER.0 <= self.0 && self.0 <= Kind::NS_UMOUNT.0
    }
}

/// Makes the constants of the kinds, and the table of their names.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal;)+) => {
        impl Kind {
            $($(#[doc = $doc])+ pub const $name: Kind = Kind(Kind::SYSTEM_START.0 + $number);)+

            /// Every kind with a name, in the order of their numbers.
            pub const NAMED: &[Kind] = &[$(Kind::$name),+];

            /// The name of the kind, if it is one of the system's: `TIMER`, `CHILD_EXIT`…
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Kind::$name => Some(stringify!($name)),)+
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// A timer of the actor expired: [`Timer`](crate::payload::Timer).
    TIMER = 0x01;
    /// A descriptor that the actor watches is ready: [`FdEvent`](crate::payload::FdEvent).
    FD_EVENT = 0x02;
    /// A line for the log: [`Log`](crate::payload::Log).
    LOG = 0x03;
    /// The answer to an HTTP request.
    HTTP_RESPONSE = 0x04;
    /// An HTTP request failed.
    HTTP_ERROR = 0x05;
    /// A stream of server-sent events is open.
    SSE_OPEN = 0x06;
    /// A server-sent event.
    SSE_EVENT = 0x07;
    /// A stream of server-sent events ended.
    SSE_CLOSED = 0x08;
    /// A WebSocket is open.
    WS_OPEN = 0x09;
    /// A message from a WebSocket.
    WS_MESSAGE = 0x0A;
    /// A WebSocket was closed.
    WS_CLOSED = 0x0B;
    /// A WebSocket failed.
    WS_ERROR = 0x0C;
    /// A request to an HTTP server.
    HTTP_REQUEST = 0x0D;
    /// An HTTP server cannot listen.
    HTTP_LISTEN_ERROR = 0x0E;
    /// The client of an HTTP server went away.
    HTTP_CONN_CLOSED = 0x0F;
    /// A child ended: [`ChildExit`](crate::payload::ChildExit).
    CHILD_EXIT = 0x10;
    /// Between nodes, a name was registered: [`NameRegister`](crate::payload::NameRegister).
    NAME_REGISTER = 0x12;
    /// Between nodes, a name is free again: [`NameUnregister`](crate::payload::NameUnregister).
    NAME_UNREGISTER = 0x13;
    /// To the namespace, register a path: [`NsRegister`](crate::payload::NsRegister).
    NS_REGISTER = 0x14;
    /// To the namespace, look a path up: [`NsLookup`](crate::payload::NsLookup).
    NS_LOOKUP = 0x15;
    /// To the namespace, list paths: [`NsList`](crate::payload::NsList).
    NS_LIST = 0x16;
    /// To the namespace, mount an actor: [`NsMount`](crate::payload::NsMount).
    NS_MOUNT = 0x17;
    /// To the namespace, undo a mount: [`NsUmount`](crate::payload::NsUmount).
    NS_UMOUNT = 0x18;
    /// The answer of the namespace: [`NsReply`](crate::payload::NsReply).
    NS_REPLY = 0x19;
    /// From the namespace, a path came or went: [`NsNotify`](crate::payload::NsNotify).
    NS_NOTIFY = 0x1A;
    /// Between nodes, a path was registered: [`PathRegister`](crate::payload::PathRegister).
    PATH_REGISTER = 0x1B;
    /// Between nodes, a path is free again: [`PathUnregister`](crate::payload::PathUnregister).
    PATH_UNREGISTER = 0x1C;
    /// To the capability service, what can the node do? The payload is not read.
    CAPS_REQUEST = 0x1D;
    /// The answer of the capability service: a line `key=value` for each thing that the node can do or has.
    CAPS_REPLY = 0x1E;
    /// Sinew's own: an actor that this one is linked to ended: [`Exit`](crate::payload::Exit).
    EXIT = 0xC0;
    /// Sinew's own: an actor that this one monitors ended: [`Down`](crate::payload::Down).
    DOWN = 0xC1;
    /// Sinew's own: finish and end; without a payload.
    STOP = 0xC2;
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({self})")
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_system_has_the_highest_kinds() {
        for (kind, is_system) in
            [(0, false), (1, false), (0xFEFF_FFFF, false), (0xFF00_0000, true), (u32::MAX, true)]
        {
            assert_eq!(Kind(kind).is_system(), is_system, "{kind:#x}");
        }
    }

    #[test]
    fn named_kinds_are_the_systems_and_each_has_a_number_of_its_own() {
        for pair in Kind::NAMED.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
        for kind in Kind::NAMED {
            assert!(kind.is_system());
            assert_eq!(kind.to_string(), kind.name().unwrap());
        }
    }

    #[test]
    fn kinds_have_the_numbers_that_guests_know() {
        let number = |name| Kind::NAMED.iter().find(|kind| kind.name() == Some(name)).unwrap().0 & 0xFF;
        for (name, expected) in [
            ("TIMER", 0x01),
            ("FD_EVENT", 0x02),
            ("LOG", 0x03),
            ("HTTP_RESPONSE", 0x04),
            ("WS_MESSAGE", 0x0A),
            ("HTTP_CONN_CLOSED", 0x0F),
            ("CHILD_EXIT", 0x10),
            ("NAME_REGISTER", 0x12),
            ("NS_REGISTER", 0x14),
            ("NS_REPLY", 0x19),
            ("PATH_UNREGISTER", 0x1C),
            ("CAPS_REPLY", 0x1E),
        ] {
            assert_eq!(number(name), expected, "{name}");
        }
    }

    #[test]
    fn requests_are_those_that_a_service_answers() {
        let requests: Vec<u32> =
            (0xFF00_0000..=0xFF00_00FF).filter(|number| Kind(*number).is_request()).collect();
        let to_namespace = 0xFF00_0014..=0xFF00_0018;
        let expected = [0xFF00_0003].into_iter().chain(to_namespace.clone()).chain([0xFF00_001D]);
        assert_eq!(requests, expected.collect::<Vec<_>>());
        assert!(requests.iter().all(|n| Kind(*n).is_namespace_request() == to_namespace.contains(n)));
    }

    #[test]
    fn our_own_kinds_are_in_the_range_that_is_free() {
        for kind in [Kind::EXIT, Kind::DOWN, Kind::STOP] {
            assert!((0xFF00_00C0..0xFF00_00FF).contains(&kind.0), "{kind:?}");
        }
    }

    #[test]
    fn a_kind_without_a_name_is_shown_as_its_number() {
        assert_eq!(Kind(0).to_string(), "0x0");
        assert_eq!(Kind(0xFF00_0011).to_string(), "0xff000011");
        assert_eq!(format!("{:?} {:?}", Kind(300), Kind::LOG), "Kind(0x12c) Kind(LOG)");
        assert_eq!(format!("{:>6}", Kind::LOG), "   LOG");
    }
}
