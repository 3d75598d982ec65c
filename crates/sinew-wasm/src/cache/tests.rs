//! The cache alone: bytes that are no code are stored, found and refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode};
use sinew_sync::statics::{AtomicU64, Ordering};
use wasmtime::Config;

use super::*;

const CODE: &[u8] = b"the code of a module";
const SOURCE: &[u8] = b"its source";

/// A folder of the test's own, with the path of a cache that does not exist yet.
struct Fixture {
    parent: PathBuf,
    path: PathBuf,
}

impl Fixture {
    fn new() -> Fixture {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("sinew-cache-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let parent = std::env::temp_dir().join(name);
        fs::create_dir(&parent).unwrap();
        Fixture { path: parent.join("cache"), parent }
    }

    fn open(&self) -> Result<Cache, CacheFolderError> {
        Cache::open(&self.path, &wasmtime::Engine::default())
    }

    /// A cache in which `CODE` is stored for `SOURCE`, and the path of its file.
    fn filled(&self) -> (Cache, PathBuf) {
        let cache = self.open().unwrap();
        store(&cache);
        let file = self.path.join(cache.key(SOURCE).file_name());
        assert!(file.exists());
        (cache, file)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.parent);
    }
}

fn store(cache: &Cache) {
    cache.store(&cache.key(SOURCE), Ok(CODE.to_vec()));
}

fn find(cache: &Cache) -> Option<Vec<u8>> {
    cache.find(&cache.key(SOURCE), |code| Some(code.bytes().to_vec()))
}

/// A file that is not as it was written is not found; storing again replaces it.
#[track_caller]
fn assert_rejected_and_replaced(cache: &Cache, damage: &str) {
    let before = cache.stats();
    assert_eq!(find(cache), None, "{damage}");
    assert_eq!(cache.stats().rejected, before.rejected + 1, "{damage}");
    store(cache);
    assert_eq!(find(cache).as_deref(), Some(CODE), "{damage}");
    assert_eq!(cache.stats().failed_writes, 0, "{damage}");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn stored_code_is_found_and_every_lookup_is_counted() {
    let fixture = Fixture::new();
    let cache = fixture.open().unwrap();
    assert_eq!(find(&cache), None);
    store(&cache);
    assert_eq!(find(&cache).as_deref(), Some(CODE));
    assert_eq!(find(&fixture.open().unwrap()).as_deref(), Some(CODE), "by another handle");
    let refused: Option<()> = cache.find(&cache.key(SOURCE), |_| None);
    assert_eq!(refused, None);
    let expected = CacheStats { hits: 1, misses: 2, rejected: 1, failed_writes: 0 };
    assert_eq!((cache.stats(), cache.stats().lookups()), (expected, 3));
    assert_eq!(fixture.names(), [cache.key(SOURCE).file_name()], "no temporary file is left");
}

#[test]
fn the_key_depends_on_the_source_and_on_the_settings_of_the_engine() {
    let fixture = Fixture::new();
    let key = |config: &Config, source| {
        let engine = wasmtime::Engine::new(config).unwrap();
        Cache::open(&fixture.path, &engine).unwrap().key(source).file_name()
    };
    let mut ticked = Config::new();
    ticked.epoch_interruption(true);
    let names = [key(&Config::new(), b"a"), key(&Config::new(), b"b"), key(&ticked, b"a")];
    assert!(names[0] != names[1] && names[0] != names[2] && names[1] != names[2], "{names:?}");
    assert_eq!(names[0], key(&Config::new(), b"a"));
    assert!(names.iter().all(|name| name.len() == 64 && name.bytes().all(|digit| digit.is_ascii_hexdigit())));
}

#[test]
fn a_file_with_a_changed_byte_is_rejected() {
    let fixture = Fixture::new();
    let (cache, file) = fixture.filled();
    let whole = fs::read(&file).unwrap();
    for at in 0..whole.len() {
        for mask in [1, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] ^= mask;
            fs::write(&file, changed).unwrap();
            assert_rejected_and_replaced(&cache, &format!("byte {at}"));
        }
    }
}

#[test]
fn a_file_of_another_length_is_rejected() {
    let fixture = Fixture::new();
    let (cache, file) = fixture.filled();
    let whole = fs::read(&file).unwrap();
    for length in 0..whole.len() {
        fs::write(&file, &whole[..length]).unwrap();
        assert_rejected_and_replaced(&cache, &format!("cut to {length}"));
    }
    for longer in [1, 1 << 40] {
        let opened = fs::OpenOptions::new().write(true).open(&file).unwrap();
        opened.set_len(whole.len() as u64 + longer).unwrap();
        assert_rejected_and_replaced(&cache, &format!("longer by {longer}"));
    }
}

#[test]
fn the_file_of_another_key_is_rejected() {
    let fixture = Fixture::new();
    let (cache, file) = fixture.filled();
    let other = cache.key(b"another source");
    cache.store(&other, Ok(b"another code".to_vec()));
    fs::rename(fixture.path.join(other.file_name()), file).unwrap();
    assert_rejected_and_replaced(&cache, "renamed");
}

#[test]
fn what_is_not_a_file_of_the_user_is_rejected() {
    let fixture = Fixture::new();
    let (cache, file) = fixture.filled();
    let elsewhere = fixture.parent.join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert_rejected_and_replaced(&cache, "link to a good file");
    assert!(fs::symlink_metadata(&file).unwrap().is_file(), "the link itself was replaced");

    fs::remove_file(&file).unwrap();
    rustix::fs::mkfifoat(CWD, &file, Mode::RUSR | Mode::WUSR).unwrap();
    assert_rejected_and_replaced(&cache, "named pipe");

    fs::remove_file(&file).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&file).unwrap();
    assert_rejected_and_replaced(&cache, "socket");

    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        assert_rejected_and_replaced(&cache, &format!("mode {mode:o}"));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }
    if is_root() {
        chown(&file, Some(1), None).unwrap();
        assert_rejected_and_replaced(&cache, "file of another user");
    }
}

#[test]
fn a_write_that_fails_is_counted_and_leaves_nothing() {
    let fixture = Fixture::new();
    let (cache, file) = fixture.filled();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(find(&cache), None);
    store(&cache); // a folder is not replaced
    assert_eq!(cache.stats().failed_writes, 1);
    assert_eq!(fixture.names(), [cache.key(SOURCE).file_name()]);

    fs::remove_dir_all(&fixture.path).unwrap();
    store(&cache);
    cache.store(&cache.key(SOURCE), Err(io::Error::other("not serialized")));
    assert_eq!(find(&cache), None);
    assert_eq!(cache.stats(), CacheStats { hits: 0, misses: 2, rejected: 1, failed_writes: 3 });
}

#[test]
fn temporary_files_are_removed_once_they_are_old() {
    let fixture = Fixture::new();
    let (_, file) = fixture.filled();
    let minutes_old = |name: &str, minutes: u64| {
        let file = fs::File::create(fixture.path.join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes)).unwrap();
    };
    minutes_old("a.0.tmp", 61);
    minutes_old("b.0.tmp", 59);
    minutes_old("c.0.other", 600);
    fs::File::open(&file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    symlink("nowhere", fixture.path.join("d.0.tmp")).unwrap();
    let cache = fixture.open().unwrap();
    let mut expected = vec!["b.0.tmp".to_owned(), "c.0.other".into(), "d.0.tmp".into()];
    expected.push(cache.key(SOURCE).file_name());
    expected.sort();
    assert_eq!(fixture.names(), expected);
    assert_eq!(find(&cache).as_deref(), Some(CODE));
}

#[test]
fn a_missing_folder_is_created_with_its_parents_for_the_user_alone() {
    let mut fixture = Fixture::new();
    fixture.path = fixture.parent.join("a/b");
    fixture.open().unwrap();
    for folder in ["a", "a/b"] {
        assert_eq!(fs::metadata(fixture.parent.join(folder)).unwrap().mode() & 0o777, 0o700, "{folder}");
    }
    fs::set_permissions(&fixture.path, Permissions::from_mode(0o2700)).unwrap();
    fixture.open().unwrap(); // it may inherit set-group-id
}

#[test]
fn a_folder_that_others_can_enter_is_refused() {
    let fixture = Fixture::new();
    fixture.open().unwrap();
    for mode in [0o755, 0o777, 0o701, 0o710, 0o500] {
        fs::set_permissions(&fixture.path, Permissions::from_mode(mode)).unwrap();
        match fixture.open() {
            Err(CacheFolderError::Mode { mode: found }) => assert_eq!(found, mode),
            other => panic!("{mode:o}: {:?}", other.err()),
        }
    }
}

#[test]
fn a_folder_of_another_user_is_refused() {
    let mut fixture = Fixture::new();
    let (owner, user) = (if is_root() { 1 } else { 0 }, rustix::process::geteuid().as_raw());
    if is_root() {
        fixture.open().unwrap();
        chown(&fixture.path, Some(owner), None).unwrap();
    } else {
        fixture.path = PathBuf::from("/");
    }
    match fixture.open() {
        Err(CacheFolderError::OtherOwner { owner: found, user: ours }) => {
            assert_eq!((found, ours), (owner, user));
        }
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn a_link_a_file_and_a_path_that_cannot_exist_are_refused() {
    let mut fixture = Fixture::new();
    let target = fixture.parent.join("target");
    fixture.path = target.clone();
    fixture.open().unwrap();
    let link = fixture.parent.join("link");
    symlink(&target, &link).unwrap();
    symlink("nowhere", fixture.parent.join("dangling")).unwrap();
    for name in ["link", "link/", "link/.", "dangling"] {
        fixture.path = fixture.parent.join(name);
        assert!(matches!(fixture.open(), Err(CacheFolderError::Link)), "{name}");
    }
    fs::write(fixture.parent.join("file"), "").unwrap();
    fixture.path = fixture.parent.join("file");
    assert!(matches!(fixture.open(), Err(CacheFolderError::NotAFolder)));
    for path in ["", "/proc/sinew", "/dev/null/cache"] {
        fixture.path = PathBuf::from(path);
        assert!(matches!(fixture.open(), Err(CacheFolderError::System(_))), "{path:?}");
    }
}
