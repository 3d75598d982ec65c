//! Who has which path, and what is mounted where.

use alloc::vec::Vec;
use core::fmt;

use super::Path;
use super::table::{NameTable, NameTaken};

/// Paths and who has them, and mounts: paths below which everything belongs to one target.
///
/// A path that lies at or below a mount belongs to that mount, even if somebody has registered just that path: a
/// mount hides what is under it. Of several mounts the longest counts. "Below" goes by components: `/node/a` is below
/// `/node`, `/node1` is not.
///
/// ```
/// use sinew_core::{Path, PathTable, Resolved};
///
/// let mut paths = PathTable::new();
/// paths.register(Path::new("/sys/log")?, 1)?;
/// paths.mount(Path::new("/node/alpha")?, 2)?;
/// assert_eq!(paths.resolve("/sys/log"), Some(Resolved::Exact(1)));
/// assert_eq!(paths.resolve("/node/alpha/sys/log"), Some(Resolved::Mount { target: 2, rest: "/sys/log" }));
/// assert_eq!(paths.resolve("/node/alphabet"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PathTable<V> {
    paths: NameTable<V, Path>,
    mounts: NameTable<V, Path>,
}

/// Whom a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolved<'p, V> {
    /// Who has registered the path.
    Exact(V),
    /// Who is mounted at the path or above it.
    Mount {
        /// Who is mounted.
        target: V,
        /// What follows the mount in the path: itself a path, or empty for the mount itself.
        rest: &'p str,
    },
}

impl<V> Resolved<'_, V> {
    /// Whom the path leads to, either way.
    pub fn target(self) -> V {
        match self {
            Resolved::Exact(target) | Resolved::Mount { target, .. } => target,
        }
    }
}

impl<V: Copy + Ord + fmt::Debug> PathTable<V> {
    /// A table without paths or mounts.
    pub const fn new() -> PathTable<V> {
        PathTable { paths: NameTable::new(), mounts: NameTable::new() }
    }

    /// Gives `path` to `holder`; refused if somebody has it, were it the same one.
    pub fn register(&mut self, path: Path, holder: V) -> Result<(), NameTaken<V>> {
        self.paths.register(path, holder)
    }

    /// Takes `path` from its holder, and returns it.
    pub fn unregister(&mut self, path: &str) -> Option<V> {
        self.paths.unregister(path)
    }

    /// Who has registered just `path`, whatever is mounted there.
    pub fn lookup(&self, path: &str) -> Option<V> {
        self.paths.lookup(path)
    }

    /// Mounts `target` at `point`; refused if something is mounted just there.
    pub fn mount(&mut self, point: Path, target: V) -> Result<(), NameTaken<V>> {
        self.mounts.register(point, target)
    }

    /// Undoes the mount at `point`, and returns its target.
    pub fn unmount(&mut self, point: &str) -> Option<V> {
        self.mounts.unregister(point)
    }

    /// Whom `path` leads to: the longest mount at or above it, or else who has registered it. A text that is no
    /// path leads nowhere.
    pub fn resolve<'p>(&self, path: &'p str) -> Option<Resolved<'p, V>> {
        Path::check(path).ok()?;
        let mut end = path.len();
        while end > 0 {
            let (point, rest) = path.split_at(end);
            if let Some(target) = self.mounts.lookup(point) {
                return Some(Resolved::Mount { target, rest });
            }
            end = point.rfind('/').unwrap_or(0);
        }
        self.paths.lookup(path).map(Resolved::Exact)
    }

    /// The registered paths at and below `prefix`, and who has them, in order. Empty or a slash stands for
    /// all. Mounts are not among them, and hide none.
    pub fn list(&self, prefix: &str) -> impl Iterator<Item = (&Path, V)> + use<'_, V> {
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        // What sorts between `/a` and `/a/` is not below `/a`.
        let start = [prefix, "/"].concat();
        let below = self.paths.iter_from(&start);
        let below = below.take_while(move |(path, _)| path.as_str().starts_with(&start));
        self.paths.entry(prefix).into_iter().chain(below)
    }

    /// The mounts and their targets, in the order of their paths.
    pub fn mounts(&self) -> impl Iterator<Item = (&Path, V)> {
        self.mounts.iter()
    }

    /// The paths that `holder` has registered, in order.
    pub fn paths_of(&self, holder: V) -> impl Iterator<Item = &Path> {
        self.paths.names_of(holder)
    }

    /// Takes all paths from `holder` and undoes its mounts; returns the paths.
    pub fn remove_all(&mut self, holder: V) -> Vec<Path> {
        self.mounts.remove_all(holder);
        self.paths.remove_all(holder)
    }
}

impl<V: Copy + Ord + fmt::Debug> Default for PathTable<V> {
    fn default() -> PathTable<V> {
        PathTable::new()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use proptest::collection::vec as vectors;

    use super::*;
    use crate::tests::for_all;

    fn path(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    fn table(paths: &[(&str, u32)], mounts: &[(&str, u32)]) -> PathTable<u32> {
        let mut table = PathTable::new();
        paths.iter().for_each(|(text, holder)| table.register(path(text), *holder).unwrap());
        mounts.iter().for_each(|(text, target)| table.mount(path(text), *target).unwrap());
        table
    }

    fn listed(table: &PathTable<u32>, prefix: &str) -> Vec<(String, u32)> {
        table.list(prefix).map(|(path, holder)| (path.as_str().into(), holder)).collect()
    }

    #[test]
    fn mounts_win_over_exact_paths() {
        let mut table = table(&[("/a", 1), ("/a/b", 2), ("/c", 3)], &[("/a", 9)]);
        assert_eq!(table.resolve("/a"), Some(Resolved::Mount { target: 9, rest: "" }));
        assert_eq!(table.resolve("/a/b"), Some(Resolved::Mount { target: 9, rest: "/b" }));
        assert_eq!(table.resolve("/c"), Some(Resolved::Exact(3)));
        assert_eq!([table.lookup("/a"), table.lookup("/a/c")], [Some(1), None], "the mount is not asked");
        assert_eq!(table.unmount("/a"), Some(9));
        assert_eq!(table.resolve("/a/b"), Some(Resolved::Exact(2)));
    }

    #[test]
    fn the_longest_mount_counts_and_only_at_whole_components() {
        let table = table(&[], &[("/a", 1), ("/a/b", 2), ("/é", 3)]);
        assert_eq!(table.resolve("/a/b/c"), Some(Resolved::Mount { target: 2, rest: "/c" }));
        assert_eq!(table.resolve("/a/bc"), Some(Resolved::Mount { target: 1, rest: "/bc" }));
        assert_eq!(table.resolve("/ab"), None);
        assert_eq!(table.resolve("/é/é").map(Resolved::target), Some(3));
    }

    #[test]
    fn what_is_no_path_leads_nowhere_not_even_into_a_mount() {
        let table = table(&[("/a", 1)], &[("/m", 2)]);
        for text in ["", "a", "/", "/a/", "/m/", "/m//x", "//m", "/m/\0", &"/m".repeat(10_000)] {
            assert_eq!(table.resolve(text), None);
        }
    }

    #[test]
    fn listing_goes_by_whole_components() {
        let all = [("/a", 1), ("/a!", 2), ("/a/b", 3), ("/a/b/c", 4), ("/a0", 5), ("/b", 6)];
        let table = table(&all, &[("/a", 9)]);
        let owned =
            |list: &[(&str, u32)]| list.iter().map(|(path, v)| (String::from(*path), *v)).collect::<Vec<_>>();
        assert_eq!(listed(&table, ""), owned(&all));
        assert_eq!(listed(&table, "/"), owned(&all));
        assert_eq!(listed(&table, "/a"), owned(&[("/a", 1), ("/a/b", 3), ("/a/b/c", 4)]));
        assert_eq!(listed(&table, "/a/"), listed(&table, "/a"));
        assert_eq!(listed(&table, "/a/b"), owned(&[("/a/b", 3), ("/a/b/c", 4)]));
        assert_eq!(listed(&table, "/z"), []);
        assert_eq!(listed(&table, "a"), []);
    }

    #[test]
    fn whoever_ends_loses_its_paths_and_mounts() {
        let mut table = table(&[("/a", 1), ("/b", 2), ("/c", 1)], &[("/m", 1), ("/n", 2)]);
        assert_eq!(table.paths_of(1).count(), 2);
        assert_eq!(table.remove_all(1), vec![path("/a"), path("/c")]);
        assert_eq!(listed(&table, ""), [("/b".into(), 2)]);
        assert_eq!(table.mounts().collect::<Vec<_>>(), [(&path("/n"), 2)]);
        assert!(table.register(path("/a"), 3).is_ok() && table.mount(path("/m"), 3).is_ok());
    }

    /// Whom `wanted` leads to, by trying everything.
    fn resolve_slowly<'p>(
        paths: &[String],
        mounts: &[String],
        wanted: &'p str,
    ) -> Option<Resolved<'p, usize>> {
        let below =
            |point: &str| wanted.strip_prefix(point).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let found = mounts.iter().enumerate().filter_map(|(index, point)| Some((index, below(point)?)));
        match found.min_by_key(|(_, rest)| rest.len()) {
            Some((target, rest)) => Some(Resolved::Mount { target, rest }),
            None => paths.iter().position(|path| path == wanted).map(Resolved::Exact),
        }
    }

    #[test]
    fn resolving_and_listing_agree_with_trying_everything() {
        let texts = || vectors("(/[ab.]{1,2}){1,3}", 0..12);
        for_all((texts(), texts(), "(/[ab.]{1,2}){1,4}"), |(mut paths, mut mounts, wanted)| {
            let mut table = PathTable::new();
            // The first of two equal ones is kept, as the positions say.
            paths.iter().enumerate().for_each(|(index, text)| _ = table.register(path(text), index));
            mounts.iter().enumerate().for_each(|(index, text)| _ = table.mount(path(text), index));
            assert_eq!(table.resolve(&wanted), resolve_slowly(&paths, &mounts, &wanted));
            for text in paths.iter().chain(&mounts) {
                assert_eq!(table.resolve(text), resolve_slowly(&paths, &mounts, text));
            }
            paths.sort_unstable();
            paths.dedup();
            let prefix = mounts.pop().unwrap_or(wanted);
            let start = [&prefix, "/"].concat();
            paths.retain(|path| *path == prefix || path.starts_with(&start));
            assert_eq!(table.list(&prefix).map(|(path, _)| path.as_str()).collect::<Vec<_>>(), paths);
        });
    }
}
