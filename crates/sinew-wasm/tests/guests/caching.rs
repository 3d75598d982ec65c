//! Compiled modules are cached on disk; whatever happens to the cache, a module loads and answers.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, Mode};
use sinew_kernel::{ExitReason, Node};
use sinew_test_kit::full_test_name;
use sinew_wasm::{CacheStats, Engine, EngineError, Guest, Module, StackClass, WasmNode};

use crate::kit::{Peer, module};

/// The folder of the cache that a child process uses.
const CHILD_FOLDER: &str = "SINEW_TEST_CACHE_FOLDER";

/// The bytes before the code in a file of the cache.
const HEADER_BYTES: usize = 84;

const PING: u32 = 200;
const PONG: u32 = 201;
const TRAP: u32 = 203;

const SIGKILL: i32 = 9;
const SIGXFSZ: i32 = 25;

/// The path of a cache, in a folder that is removed in the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Place(std::env::temp_dir().join(format!("sinew-caching-{}-{number}", std::process::id())))
    }

    fn engine(&self) -> Engine {
        Engine::builder().cache(&self.0).source_lines(true).build().unwrap()
    }

    /// The paths of all files whose names end as this.
    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Vec::new() };
        let paths = entries.flatten().map(|entry| entry.path());
        paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
    }

    /// The only file.
    fn file(&self) -> PathBuf {
        let files = self.files("");
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The hits, misses, rejected files and failed writes of an engine.
fn counted(engine: &Engine) -> [u64; 4] {
    let CacheStats { hits, misses, rejected, failed_writes, .. } = engine.cache_stats().unwrap();
    [hits, misses, rejected, failed_writes]
}

/// A module that answers every message with `number`, and has `bytes` of data.
fn answering(number: u32, bytes: usize) -> String {
    let (pages, data) = (bytes / 65_536 + 1, "x".repeat(bytes));
    format!(
        r#"(module
        (import "env" "mk_send_u32" (func $send (param i64 i32 i32) (result i32)))
        (memory (export "memory") {pages})
        (data (i32.const 0) "{data}")
        (func (export "handle_message") (param i32 i64 i32 i32) (result i32)
            (call $send (local.get 1) (i32.const {PONG}) (i32.const {number}))))"#
    )
}

#[track_caller]
fn assert_answers(node: &Node, module: &Module, number: u32) {
    let guest = node.wasm(module).spawn().unwrap();
    assert_eq!(Peer::new(node).ask(guest.id(), PING, b""), (PONG, number.to_le_bytes().to_vec()));
}

#[test]
fn a_module_is_compiled_once_for_all_engines_with_the_cache() {
    let (place, node) = (Place::new(), Node::new());
    let first = place.engine();
    assert_answers(&node, &first.module("one", answering(1, 0)).unwrap(), 1);
    assert_eq!(counted(&first), [0, 1, 0, 0]);
    let second = place.engine();
    assert_answers(&node, &second.module("one", answering(1, 0)).unwrap(), 1);
    assert_answers(&node, &second.module("two", answering(2, 0)).unwrap(), 2);
    assert_answers(&node, &second.module("under another name", answering(2, 0)).unwrap(), 2);
    assert_eq!(counted(&second), [2, 1, 0, 0]);
    assert_eq!(Engine::new().unwrap().cache_stats(), None);
}

#[test]
fn a_cached_module_runs_and_fails_in_every_class_as_if_compiled() {
    let (place, node) = (Place::new(), Node::new());
    module(&place.engine(), "echo_dwarf");
    let engine = place.engine();
    let (cached, compiled) = (
        module(&engine, "echo_dwarf"),
        module(&Engine::builder().source_lines(true).build().unwrap(), "echo_dwarf"),
    );
    assert_eq!(counted(&engine), [1, 0, 0, 0]);
    let peer = Peer::new(&node);
    for class in StackClass::ALL {
        let [cached, compiled] = [&cached, &compiled].map(|module| {
            let guest = node.wasm(Guest::new(module).stack(class)).spawn().unwrap();
            assert_eq!(peer.ask(guest.id(), PING, b"hello"), (PONG, b"hello".to_vec()), "{class}");
            peer.send(guest.id(), TRAP, b"");
            let ExitReason::Error(failure) = guest.join().unwrap() else { panic!("{class}") };
            failure.chain.clone()
        });
        assert!(cached.contains("echo.c:"), "{class}: {cached}");
        assert_eq!(cached, compiled, "{class}");
    }
}

#[test]
fn what_does_not_compile_is_not_cached() {
    let place = Place::new();
    let engine = place.engine();
    engine.module("broken", "(module").unwrap_err();
    engine.module("broken", "(module").unwrap_err();
    assert_eq!(counted(&engine), [0, 2, 0, 0]);
    assert!(place.files("").is_empty());
}

/// Loads the module after its file was damaged: it is compiled again and answers, and its file is good again.
#[track_caller]
fn assert_rebuilt(place: &Place, node: &Node, damage: &str) {
    let engine = place.engine();
    assert_answers(node, &engine.module("one", answering(1, 0)).unwrap(), 1);
    assert_eq!(counted(&engine), [0, 1, 1, 0], "{damage}");
    assert_answers(node, &engine.module("one", answering(1, 0)).unwrap(), 1);
    assert_eq!(counted(&engine), [1, 1, 1, 0], "{damage}");
}

#[test]
fn a_damaged_file_is_rebuilt() {
    let (place, node) = (Place::new(), Node::new());
    place.engine().module("one", answering(1, 0)).unwrap();
    let file = place.file();
    let whole = fs::read(&file).unwrap();

    // Every byte of the header; of the code, bytes at a distance that is prime.
    for at in (0..HEADER_BYTES).chain((HEADER_BYTES..whole.len()).step_by(997)) {
        let mut changed = whole.clone();
        changed[at] ^= 0x55;
        fs::write(&file, changed).unwrap();
        assert_rebuilt(&place, &node, &format!("byte {at} changed"));
    }
    let ends = [0, 1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, whole.len() - 1];
    for length in ends.into_iter().chain((0..whole.len()).step_by(1_009)) {
        fs::write(&file, &whole[..length]).unwrap();
        assert_rebuilt(&place, &node, &format!("cut to {length} bytes"));
    }
    fs::write(&file, [&whole[..], b"x"].concat()).unwrap();
    assert_rebuilt(&place, &node, "one byte longer");
    fs::write(&file, vec![0; whole.len()]).unwrap();
    assert_rebuilt(&place, &node, "zeroed");
}

#[test]
fn what_is_not_a_private_file_is_rebuilt() {
    let (place, node) = (Place::new(), Node::new());
    place.engine().module("one", answering(1, 0)).unwrap();
    let file = place.file();

    let elsewhere = Place::new();
    fs::rename(&file, &elsewhere.0).unwrap();
    symlink(&elsewhere.0, &file).unwrap();
    assert_rebuilt(&place, &node, "a link to a good file");
    fs::remove_file(&elsewhere.0).unwrap();

    fs::remove_file(&file).unwrap();
    rustix::fs::mkfifoat(CWD, &file, Mode::RUSR | Mode::WUSR).unwrap();
    assert_rebuilt(&place, &node, "a named pipe");

    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    assert_rebuilt(&place, &node, "a file that others can write");

    // It cannot be replaced, but the module answers.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let engine = place.engine();
    assert_answers(&node, &engine.module("one", answering(1, 0)).unwrap(), 1);
    assert_eq!(counted(&engine), [0, 1, 1, 1]);
}

#[test]
fn a_folder_that_cannot_be_trusted_is_refused_with_its_path_the_cause_and_the_remedy() {
    let place = Place::new();
    place.engine();
    fs::set_permissions(&place.0, Permissions::from_mode(0o755)).unwrap();
    let error = Engine::builder().cache(&place.0).build().unwrap_err();
    assert!(matches!(error, EngineError::Cache { .. }), "{error:?}");
    let expected = format!(
        "cannot cache compiled modules in {}: its mode is 0755, and has to be 0700; change that with chmod, or remove it",
        place.0.display()
    );
    assert_eq!(error.to_string(), expected);

    let link = Place::new();
    symlink(&place.0, &link.0).unwrap();
    let error = Engine::builder().cache(&link.0).build().unwrap_err().to_string();
    assert!(
        error.ends_with("it is a symbolic link; give the path of the folder that it leads to"),
        "{error}"
    );
    fs::remove_file(&link.0).unwrap();

    let mut other = PathBuf::from("/");
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&place.0, Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(&place.0, Some(1), None).unwrap();
        other.clone_from(&place.0);
    }
    let error = Engine::builder().cache(&other).build().unwrap_err().to_string();
    assert!(error.contains("it belongs to user ") && error.contains("; give a folder of user "), "{error}");
}

/// How a child process is started.
#[derive(Clone, Copy)]
enum Start {
    Plain,
    /// Files that it writes have at most 64 KiB: it is killed in the middle of writing more.
    DiesWhenFileIsLarge,
    /// The same, but the write fails.
    FailsWhenFileIsLarge,
}

/// Starts this test program with only `test` in it, which sees the folder of the cache in its environment.
fn child(test: &str, folder: &Path, start: Start) -> std::process::Child {
    // The shell counts in blocks of 512 bytes, or of 1024.
    let limit = match start {
        Start::Plain => "",
        Start::DiesWhenFileIsLarge => "ulimit -c 0; ulimit -f 64;",
        Start::FailsWhenFileIsLarge => "trap '' XFSZ; ulimit -f 64;",
    };
    Command::new("sh")
        .args(["-c", &format!("{limit} exec \"$@\""), "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([&full_test_name(module_path!(), test), "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD_FOLDER, folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn run_child(test: &str, folder: &Path, start: Start) -> ExitStatus {
    child(test, folder, start).wait().unwrap()
}

/// The cache to use, in a child process.
fn place_of_child() -> Option<PathBuf> {
    std::env::var_os(CHILD_FOLDER).map(PathBuf::from)
}

#[test]
fn two_processes_race_on_an_empty_cache_and_both_work() {
    const MODULES: u32 = 20;
    const TEST: &str = "two_processes_race_on_an_empty_cache_and_both_work";
    let node = Node::new();
    if let Some(folder) = place_of_child() {
        let engine = Engine::builder().cache(folder).build().unwrap();
        for number in 0..MODULES {
            assert_answers(&node, &engine.module("racing", answering(number, 10_000)).unwrap(), number);
        }
        let [hits, misses, rejected, failed_writes] = counted(&engine);
        assert_eq!([hits + misses, rejected, failed_writes], [MODULES.into(), 0, 0]);
        return;
    }
    let place = Place::new();
    let children = [(); 2].map(|()| child(TEST, &place.0, Start::Plain));
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let engine = place.engine();
    for number in 0..MODULES {
        assert_answers(&node, &engine.module("racing", answering(number, 10_000)).unwrap(), number);
    }
    assert_eq!(counted(&engine), [MODULES.into(), 0, 0, 0]);
    assert_eq!(place.files("").len(), MODULES as usize, "no temporary file is left");
}

/// Large enough that storing it takes long, and that its file exceeds the limit of some children.
const LARGE: usize = 1 << 20;

#[test]
fn a_full_disk_is_a_failed_write_and_no_error() {
    const TEST: &str = "a_full_disk_is_a_failed_write_and_no_error";
    if let Some(folder) = place_of_child() {
        let engine = Engine::builder().cache(folder).build().unwrap();
        assert_answers(&Node::new(), &engine.module("large", answering(1, LARGE)).unwrap(), 1);
        assert_eq!(counted(&engine), [0, 1, 0, 1]);
        return;
    }
    let place = Place::new();
    assert!(run_child(TEST, &place.0, Start::FailsWhenFileIsLarge).success());
    assert!(place.files("").is_empty(), "the temporary file was removed");
}

#[test]
fn a_process_that_dies_while_it_stores_leaves_a_usable_cache() {
    const TEST: &str = "a_process_that_dies_while_it_stores_leaves_a_usable_cache";
    if let Some(folder) = place_of_child() {
        let engine = Engine::builder().cache(folder).build().unwrap();
        for number in 0..100 {
            engine.module("large", answering(number, LARGE)).unwrap();
        }
        panic!("nobody killed it");
    }
    let (place, node) = (Place::new(), Node::new());
    let status = run_child(TEST, &place.0, Start::DiesWhenFileIsLarge);
    assert_eq!(status.signal(), Some(SIGXFSZ));
    assert_eq!((place.files(".tmp").len(), place.files("").len()), (1, 1), "it died in the middle");
    for _ in 0..3 {
        let left = place.files(".tmp").len();
        let mut child = child(TEST, &place.0, Start::Plain);
        while place.files(".tmp").len() == left {
            std::thread::sleep(Duration::from_micros(100));
            assert!(child.try_wait().unwrap().is_none(), "it stores until it is killed");
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL));
    }
    // Some were stored, some only in part: all of them load.
    let (engine, stored) = (place.engine(), place.files("").len() - place.files(".tmp").len());
    for number in 0..4 {
        assert_answers(&node, &engine.module("large", answering(number, LARGE)).unwrap(), number);
    }
    let [hits, misses, rejected, failed_writes] = counted(&engine);
    assert_eq!([hits, hits + misses, rejected, failed_writes], [stored.min(4) as u64, 4, 0, 0]);
}
