//! The ids of nodes and actors.

use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

/// Which node: a process that hosts actors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Who an actor is: the node that it lives on and its number there, in 64 bits, `node << 32 | local`.
///
/// An id is only a number: it may be sent anywhere, and the actor that it names may have ended. People write
/// it as `node.local`. Ids are ordered by node, then by number.
///
/// ```
/// use sinew_core::{ActorId, NodeId};
///
/// let id = ActorId::new(NodeId(1), 42);
/// assert_eq!(id.as_u64(), 1 << 32 | 42);
/// assert_eq!(id.to_string(), "1.42");
/// assert_eq!("1.42".parse(), Ok(id));
/// assert!("42".parse::<ActorId>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(u64);

impl ActorId {
    /// 0: no actor. The source of what no actor sent.
    pub const NOBODY: ActorId = ActorId(0);

    /// The actor with the number `local` on `node`.
    #[inline]
    pub const fn new(node: NodeId, local: u32) -> ActorId {
        ActorId((node.0 as u64) << 32 | local as u64)
    }

    /// The id that is written as this number; every number is one.
    #[inline]
    pub const fn from_u64(number: u64) -> ActorId {
        ActorId(number)
    }

    /// The id as a number: the form in which it travels.
    #[inline]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The node that the actor lives on.
    #[inline]
    pub const fn node(self) -> NodeId {
        NodeId((self.0 >> 32) as u32)
    }

    /// The actor's number on its node.
    #[inline]
    pub const fn local(self) -> u32 {
        self.0 as u32
    }

    /// True for [`ActorId::NOBODY`].
    #[inline]
    pub const fn is_nobody(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node(), self.local())
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorId({self})")
    }
}

/// A text that is not `node.local`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is not an actor id: write node.local, two numbers of at most 4294967295, as in 1.42")]
pub struct NotAnActorId {
    /// What was read.
    pub text: Box<str>,
}

impl FromStr for ActorId {
    type Err = NotAnActorId;

    fn from_str(text: &str) -> Result<ActorId, NotAnActorId> {
        // Integers read a leading plus as well.
        let number = |digits: &str| match digits.starts_with('+') {
            true => None,
            false => digits.parse().ok(),
        };
        text.split_once('.')
            .and_then(|(node, local)| Some(ActorId::new(NodeId(number(node)?), number(local)?)))
            .ok_or_else(|| NotAnActorId { text: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};

    use proptest::prelude::any;

    use super::*;
    use crate::tests::for_all;

    #[test]
    fn an_id_is_its_node_and_its_number_there() {
        for_all((any::<u32>(), any::<u32>()), |(node, local)| {
            let id = ActorId::new(NodeId(node), local);
            assert_eq!((id.node(), id.local()), (NodeId(node), local));
            assert_eq!(id.as_u64(), u64::from(node) * 4_294_967_296 + u64::from(local));
            assert_eq!(ActorId::from_u64(id.as_u64()), id);
            assert_eq!(id.to_string().parse(), Ok(id));
        });
    }

    #[test]
    fn nobody_is_zero_and_only_zero() {
        assert_eq!(ActorId::NOBODY, ActorId::new(NodeId(0), 0));
        assert_eq!(ActorId::NOBODY.to_string(), "0.0");
        assert!(ActorId::NOBODY.is_nobody());
        assert!(!ActorId::new(NodeId(1), 0).is_nobody());
        assert!(!ActorId::new(NodeId(0), 1).is_nobody());
    }

    #[test]
    fn ids_are_ordered_by_node_first() {
        assert!(ActorId::new(NodeId(1), u32::MAX) < ActorId::new(NodeId(2), 0));
        assert!(ActorId::new(NodeId(2), 1) < ActorId::new(NodeId(2), 2));
    }

    #[test]
    fn whatever_is_not_node_dot_local_is_refused_by_name() {
        for bad in [
            "",
            ".",
            "1",
            "1.",
            ".1",
            "1.2.3",
            "a.b",
            "-1.2",
            "1.-2",
            "+1.2",
            "1.+2",
            " 1.2",
            "1.2 ",
            "1,2",
            "4294967296.0",
            "0.4294967296",
            "١.٢",
        ] {
            let error = bad.parse::<ActorId>().unwrap_err();
            assert_eq!(&*error.text, bad);
            assert!(error.to_string().contains("node.local"), "{error}");
        }
        assert_eq!("4294967295.4294967295".parse(), Ok(ActorId::from_u64(u64::MAX)));
    }

    /// The number that these digits are, if they are some, and no more than fit.
    fn number(digits: &str) -> Option<u32> {
        let are_digits = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number = digits.bytes().fold(0, |number, digit| number * 10 + i128::from(digit) - 48);
        u32::try_from(number).ok().filter(|_| are_digits)
    }

    #[test]
    fn any_text_is_read_or_refused() {
        for_all("[0-9]{0,11}[.+a]{0,2}[0-9]{0,11}", |text: String| {
            let parts = text.split_once('.').map(|(node, local)| (number(node), number(local)));
            let expected = match parts {
                Some((Some(node), Some(local))) => Some(ActorId::new(NodeId(node), local)),
                _ => None,
            };
            assert_eq!(text.parse::<ActorId>().ok(), expected, "{text:?}");
        });
    }
}
