//! Who is called what.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::ops::Bound;

use super::Name;

/// Names and who has them, both ways round. A name has one holder, the first to register it; a holder may have
/// many names. Everything takes logarithmic time.
///
/// `K` is what names are: [`Name`], or [`Path`](crate::Path). Names are looked up by any text: one that is no name has
/// no holder.
///
/// ```
/// use sinew_core::{ActorId, Name, NameTable, NodeId};
///
/// let mut names = NameTable::new();
/// let (one, other) = (ActorId::new(NodeId(1), 1), ActorId::new(NodeId(1), 2));
/// names.register(Name::new("counter")?, one)?;
/// assert_eq!(names.lookup("counter"), Some(one));
///
/// // The first keeps it.
/// assert_eq!(names.register(Name::new("counter")?, other).unwrap_err().holder, one);
///
/// // When an actor ends, its names are free again.
/// names.remove_all(one);
/// assert_eq!(names.lookup("counter"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct NameTable<V, K = Name> {
    holders: BTreeMap<K, V>,
    /// The same, by holder; no set is empty.
    names: BTreeMap<V, BTreeSet<K>>,
}

/// The name belongs to somebody.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the name {name:?} is taken by {holder:?}: choose another, or unregister that one first")]
pub struct NameTaken<V: fmt::Debug> {
    /// The name that was asked for.
    pub name: String,
    /// Who has it, and keeps it.
    pub holder: V,
}

impl<V: Copy + Ord + fmt::Debug, K: Clone + Ord + Borrow<str>> NameTable<V, K> {
    /// A table without names.
    pub const fn new() -> NameTable<V, K> {
        NameTable { holders: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// Gives `name` to `holder`; refused if somebody has it, were it the same one.
    pub fn register(&mut self, name: K, holder: V) -> Result<(), NameTaken<V>> {
        if let Some(holder) = self.lookup(name.borrow()) {
            return Err(NameTaken { name: name.borrow().into(), holder });
        }
        self.names.entry(holder).or_default().insert(name.clone());
        self.holders.insert(name, holder);
        Ok(())
    }

    /// Who is called `name`.
    pub fn lookup(&self, name: &str) -> Option<V> {
        self.holders.get(name).copied()
    }

    /// Takes `name` from its holder, and returns it.
    pub fn unregister(&mut self, name: &str) -> Option<V> {
        let holder = self.holders.remove(name)?;
        if let Some(names) = self.names.get_mut(&holder) {
            names.remove(name);
            if names.is_empty() {
                self.names.remove(&holder);
            }
        }
        Some(holder)
    }

    /// What `holder` is called, in order.
    pub fn names_of(&self, holder: V) -> impl Iterator<Item = &K> {
        self.names.get(&holder).into_iter().flatten()
    }

    /// Takes all names from `holder`, and returns them.
    pub fn remove_all(&mut self, holder: V) -> Vec<K> {
        let names: Vec<K> = self.names.remove(&holder).into_iter().flatten().collect();
        for name in &names {
            self.holders.remove(name.borrow());
        }
        names
    }

    /// All names and who has them, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&K, V)> {
        self.iter_from("")
    }

    /// `name` as it is in the table, and who has it.
    pub(crate) fn entry(&self, name: &str) -> Option<(&K, V)> {
        self.holders.get_key_value(name).map(|(name, holder)| (name, *holder))
    }

    /// The names that are not before `start`, and who has them, in order.
    pub(crate) fn iter_from(&self, start: &str) -> impl Iterator<Item = (&K, V)> + use<'_, V, K> {
        self.holders
            .range::<str, _>((Bound::Included(start), Bound::Unbounded))
            .map(|(name, holder)| (name, *holder))
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }
}

impl<V: Copy + Ord + fmt::Debug, K: Clone + Ord + Borrow<str>> Default for NameTable<V, K> {
    fn default() -> NameTable<V, K> {
        NameTable::new()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use proptest::collection::vec as vectors;
    use proptest::prelude::{Strategy, prop_oneof};

    use super::*;
    use crate::tests::for_all;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn the_first_keeps_the_name() {
        let mut table = NameTable::new();
        table.register(name("a"), 1).unwrap();
        let error = table.register(name("a"), 2).unwrap_err();
        assert_eq!(error, NameTaken { name: "a".to_string(), holder: 1 });
        assert!(error.to_string().contains("\"a\""), "{error}");
        assert!(table.register(name("a"), 1).is_err());
        assert_eq!((table.lookup("a"), table.names_of(2).count()), (Some(1), 0));
    }

    #[test]
    fn removing_a_name_leaves_all_others_within_reach() {
        let mut table = NameTable::new();
        for number in 0..500 {
            table.register(name(&number.to_string()), number % 7).unwrap();
        }
        for number in (0..500).step_by(3) {
            assert_eq!(table.unregister(&number.to_string()), Some(number % 7));
        }
        for number in 0..500 {
            assert_eq!(table.lookup(&number.to_string()), (number % 3 != 0).then_some(number % 7));
        }
    }

    #[test]
    fn a_text_that_is_no_name_has_no_holder() {
        let mut table = NameTable::new();
        table.register(name("a"), 1).unwrap();
        for text in ["", "\0", "/a", &"a".repeat(100)] {
            assert_eq!((table.lookup(text), table.unregister(text)), (None, None));
        }
        assert_eq!(table.len(), 1);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Register(usize, u8),
        Unregister(usize),
        RemoveAll(u8),
    }

    #[test]
    fn a_table_does_what_a_list_of_pairs_does() {
        const NAMES: [&str; 5] = ["a", "aa", "b", "é", "z"];
        let step = prop_oneof![
            4 => (0..NAMES.len(), 0..4u8).prop_map(|(name, holder)| Step::Register(name, holder)),
            2 => (0..NAMES.len()).prop_map(Step::Unregister),
            1 => (0..4u8).prop_map(Step::RemoveAll),
        ];
        for_all(vectors(step, 0..40), |steps| {
            let mut table = NameTable::new();
            let mut list: Vec<(&str, u8)> = vec![];
            let holder_in =
                |list: &[(&str, u8)], name| list.iter().find(|pair| pair.0 == name).map(|pair| pair.1);
            for step in steps {
                match step {
                    Step::Register(index, holder) => {
                        let before = holder_in(&list, NAMES[index]);
                        let result = table.register(name(NAMES[index]), holder);
                        assert_eq!(result.err().map(|taken| taken.holder), before);
                        if before.is_none() {
                            list.push((NAMES[index], holder));
                        }
                    }
                    Step::Unregister(index) => {
                        assert_eq!(table.unregister(NAMES[index]), holder_in(&list, NAMES[index]));
                        list.retain(|pair| pair.0 != NAMES[index]);
                    }
                    Step::RemoveAll(holder) => {
                        let removed = table.remove_all(holder).len();
                        let before = list.len();
                        list.retain(|pair| pair.1 != holder);
                        assert_eq!(removed, before - list.len());
                    }
                }
                list.sort_unstable();
                let all: Vec<(&str, u8)> =
                    table.iter().map(|(name, holder)| (name.as_str(), holder)).collect();
                assert_eq!((&all, table.len(), table.is_empty()), (&list, list.len(), list.is_empty()));
                for holder in 0..4 {
                    let names: Vec<&str> = table.names_of(holder).map(Name::as_str).collect();
                    let expected = list.iter().filter(|pair| pair.1 == holder).map(|pair| pair.0);
                    assert_eq!(names, expected.collect::<Vec<_>>());
                }
                // Holders that come and go leave nothing behind.
                assert!(table.names.values().all(|names| !names.is_empty()));
            }
        });
    }
}
