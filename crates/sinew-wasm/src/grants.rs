//! What a guest may do beyond computing, receiving and logging.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use sinew_fd::Access;
use sinew_kernel::{ActorId, NodeRef};

/// The permissions of a guest: each is denied unless it is granted here.
///
/// Free for every guest are its own id, time, random numbers, sleeping, receiving, its log, its own
/// state and its standard streams. It may always answer the sender of the message that it handles.
///
/// ```
/// use sinew_wasm::Grants;
///
/// Grants::none().send_to("worker-*").register("counter").see();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "grants apply to the guest that they are given to"]
pub struct Grants {
    send: Vec<Scope>,
    stop: Vec<Scope>,
    register: Vec<Pattern>,
    see: bool,
    spawn: Option<Box<Grants>>,
    directories: Vec<DirectoryGrant>,
}

/// A directory of the host that a guest may use.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryGrant {
    /// The path by which the guest knows it.
    pub(crate) guest_path: Box<str>,
    pub(crate) host_path: PathBuf,
    pub(crate) access: Access,
}

#[derive(Clone, Debug)]
enum Scope {
    Ids(RangeInclusive<u64>),
    Names(Pattern),
}

/// A name, in which `*` stands for any text.
#[derive(Clone, Debug)]
struct Pattern(Box<str>);

impl Grants {
    /// Returns the grants of a guest that has none.
    pub fn none() -> Grants {
        Grants::default()
    }

    /// Grants everything that can be granted without naming a resource: sending to, stopping and seeing
    /// every actor, and registering every name.
    pub fn all_actors() -> Grants {
        Grants::none()
            .send_to("*")
            .send_to_ids(0..=u64::MAX)
            .stop("*")
            .stop_ids(0..=u64::MAX)
            .register("*")
            .see()
    }

    /// Grants sending to actors with a name that matches `pattern`, in which `*` stands for any text.
    pub fn send_to(mut self, pattern: &str) -> Grants {
        self.send.push(Scope::Names(Pattern(pattern.into())));
        self
    }

    /// Grants sending to actors with an id in this range.
    pub fn send_to_ids(mut self, ids: RangeInclusive<u64>) -> Grants {
        self.send.push(Scope::Ids(ids));
        self
    }

    /// Grants stopping actors with a name that matches `pattern`.
    pub fn stop(mut self, pattern: &str) -> Grants {
        self.stop.push(Scope::Names(Pattern(pattern.into())));
        self
    }

    /// Grants stopping actors with an id in this range.
    pub fn stop_ids(mut self, ids: RangeInclusive<u64>) -> Grants {
        self.stop.push(Scope::Ids(ids));
        self
    }

    /// Grants registering itself under names that match `pattern`.
    pub fn register(mut self, pattern: &str) -> Grants {
        self.register.push(Pattern(pattern.into()));
        self
    }

    /// Grants looking up names, and listing names and actors.
    pub fn see(mut self) -> Grants {
        self.see = true;
        self
    }

    /// Grants the files below a directory of the host, which the guest knows as `guest_path`. Nothing outside of it is
    /// reached: neither by `..` nor by links. It is opened when the guest starts; if it does not exist then, the guest
    /// fails.
    ///
    /// Programs find the directories at the file descriptors from 3 on, in the order in which they were granted.
    ///
    /// ```
    /// use sinew_wasm::{Access, Grants};
    ///
    /// Grants::none()
    ///     .directory("/etc", "/srv/app/config", Access::ReadOnly)
    ///     .directory("/data", "/srv/app/data", Access::ReadWrite);
    /// ```
    pub fn directory(
        mut self,
        guest_path: impl Into<Box<str>>,
        host_path: impl AsRef<Path>,
        access: Access,
    ) -> Grants {
        let (guest_path, host_path) = (guest_path.into(), host_path.as_ref().to_owned());
        self.directories.push(DirectoryGrant { guest_path, host_path, access });
        self
    }

    /// Grants spawning modules as children, which have these grants, and at most those of this guest.
    pub fn spawn(mut self, children: Grants) -> Grants {
        self.spawn = Some(Box::new(children));
        self
    }

    pub(crate) fn may_send(&self, node: NodeRef, to: ActorId) -> bool {
        allows(&self.send, node, to)
    }

    pub(crate) fn may_stop(&self, node: NodeRef, actor: ActorId) -> bool {
        allows(&self.stop, node, actor)
    }

    pub(crate) fn may_register(&self, name: &str) -> bool {
        self.register.iter().any(|pattern| pattern.matches(name))
    }

    pub(crate) fn may_see(&self) -> bool {
        self.see
    }

    pub(crate) fn directories(&self) -> &[DirectoryGrant] {
        &self.directories
    }

    /// The grants of a child; `None` if it may spawn none. A child never has what its parent lacks.
    pub(crate) fn of_child(&self) -> Option<Grants> {
        let wanted = self.spawn.as_deref()?;
        Some(Grants {
            send: if self.send.is_empty() { Vec::new() } else { covered(&wanted.send, &self.send) },
            stop: covered(&wanted.stop, &self.stop),
            register: wanted
                .register
                .iter()
                .filter(|pattern| self.register.iter().any(|own| own.covers(pattern)))
                .cloned()
                .collect(),
            see: wanted.see && self.see,
            spawn: wanted.spawn.clone(),
            directories: wanted
                .directories
                .iter()
                .filter(|wanted| self.directories.iter().any(|own| own.covers(wanted)))
                .cloned()
                .collect(),
        })
    }
}

fn allows(scopes: &[Scope], node: NodeRef, actor: ActorId) -> bool {
    scopes.iter().any(|scope| match scope {
        Scope::Ids(ids) => ids.contains(&actor.as_u64()),
        Scope::Names(pattern) => node.names_of(actor).iter().any(|name| pattern.matches(name)),
    })
}

/// Those of `wanted` that one of `own` covers.
fn covered(wanted: &[Scope], own: &[Scope]) -> Vec<Scope> {
    let covers = |wanted: &Scope| {
        own.iter().any(|own| match (own, wanted) {
            (Scope::Ids(own), Scope::Ids(wanted)) => {
                own.contains(wanted.start()) && own.contains(wanted.end())
            }
            (Scope::Names(own), Scope::Names(wanted)) => own.covers(wanted),
            _ => false,
        })
    };
    wanted.iter().filter(|scope| covers(scope)).cloned().collect()
}

impl DirectoryGrant {
    /// Whether this grants what `other` does. Only the same path does: below a directory that a guest may change, a path
    /// may become a link to the outside.
    fn covers(&self, other: &DirectoryGrant) -> bool {
        self.host_path == other.host_path
            && (self.access == Access::ReadWrite || other.access == Access::ReadOnly)
    }
}

impl Pattern {
    fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or("");
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(mut part) = parts.next() else { return rest.is_empty() };
        for next in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
            part = next;
        }
        rest.ends_with(part)
    }

    /// Whether every name that `other` matches certainly matches this one.
    fn covers(&self, other: &Pattern) -> bool {
        self.0 == other.0 || *self.0 == *"*" || !other.0.contains('*') && self.matches(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_everything_else_for_itself() {
        let matches = |pattern: &str, name| Pattern(pattern.into()).matches(name);
        assert!(matches("counter", "counter") && !matches("counter", "counters"));
        assert!(matches("worker-*", "worker-7") && matches("worker-*", "worker-"));
        assert!(!matches("worker-*", "my-worker-7"));
        assert!(matches("*", "") && matches("*", "any/thing"));
        assert!(matches("a*b*c", "a1b2c") && matches("a*b*c", "abc") && !matches("a*b*c", "acb"));
        assert!(!matches("ab*ba", "aba"), "the two ends do not overlap");
    }

    #[test]
    fn a_child_has_what_its_parent_lists_and_has_itself() {
        let parent = Grants::none()
            .send_to("log-*")
            .register("*")
            .spawn(Grants::none().send_to("log-1").send_to("db").stop("log-1").register("x-*").see());
        let child = parent.of_child().unwrap();
        assert_eq!((child.send.len(), child.stop.len(), child.register.len()), (1, 0, 1));
        assert!(!child.may_see());
        assert!(Grants::all_actors().of_child().is_none());
    }

    #[test]
    fn a_child_has_no_directory_that_its_parent_lacks_or_may_only_read() {
        use Access::{ReadOnly, ReadWrite};
        let wanted = Grants::none()
            .directory("/a", "/srv/a", ReadWrite)
            .directory("/b", "/srv/b", ReadWrite)
            .directory("/b", "/srv/b", ReadOnly)
            .directory("/c", "/srv/a/below", ReadOnly);
        let parent =
            Grants::none().directory("/", "/srv/a", ReadWrite).directory("/", "/srv/b", ReadOnly).spawn(wanted);
        let child = parent.of_child().unwrap();
        let has: Vec<_> = child.directories().iter().map(|it| (&*it.guest_path, it.access)).collect();
        assert_eq!(has, [("/a", ReadWrite), ("/b", ReadOnly)]);
    }
}
