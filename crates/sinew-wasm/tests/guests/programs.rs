//! Ordinary programs of three languages run unmodified: arguments, environment, clocks, files, exit codes, panics.

use sinew_kernel::{ExitReason, Node};
use sinew_wasm::{Access, Engine, Grants, Guest, Limits, Module, StackClass, WasmNode};

use crate::folder::{Folder, Log};
use crate::kit::module;

/// Runs a guest to its end: why it ended, and what it logged.
fn run(guest: Guest) -> (ExitReason, Vec<String>) {
    let (node, log) = Log::node();
    let guest = node.wasm(guest).spawn().unwrap();
    let reason = guest.join().unwrap();
    (reason, log.lines(&node))
}

/// A folder with `in.txt`, granted as `/work`.
fn granted(access: Access) -> (Folder, Grants) {
    let folder = Folder::new();
    folder.write("in.txt", "from the host\n");
    let grants = Grants::none().directory("/work", folder.path(""), access);
    (folder, grants)
}

#[track_caller]
fn has(lines: &[String], line: &str) {
    assert!(lines.iter().any(|it| it == line), "no {line:?} in {lines:#?}");
}

/// The value of a line `INFO name: value`.
#[track_caller]
fn value<'a>(lines: &'a [String], name: &str) -> &'a str {
    let start = format!("INFO {name}: ");
    lines
        .iter()
        .find_map(|line| line.strip_prefix(&start))
        .unwrap_or_else(|| panic!("no {name} in {lines:#?}"))
}

fn a_program_has_arguments_environment_clocks_and_files(hello: &Module) {
    assert_eq!(hello.default_class(), StackClass::Huge);
    assert_eq!(hello.unsupported_imports().count(), 0);
    let (folder, grants) = granted(Access::ReadWrite);
    let before = std::time::SystemTime::now();
    let guest = Guest::new(hello).args(["0", "/work"]).env("SINEW_GUEST", "yes").grants(grants);
    let (reason, lines) = run(guest);
    assert_eq!(reason, ExitReason::Normal, "{lines:#?}");
    has(&lines, &format!("INFO argument 0: {}", hello.name()));
    has(&lines, "INFO argument 1: 0");
    has(&lines, "INFO argument 2: /work");
    has(&lines, "INFO SINEW_GUEST: yes");
    let clock: u128 = value(&lines, "clock").parse().unwrap();
    let earliest = before.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert!((earliest..earliest + 600_000).contains(&clock), "{clock}");
    has(&lines, "INFO monotonic: yes");
    assert_eq!(value(&lines, "random").len(), 16);
    has(&lines, "INFO in.txt: from the host");
    has(&lines, "INFO out.txt: written");
    assert_eq!(folder.read("out.txt"), "written by hello\n");
    let entries: Vec<_> = lines.iter().filter(|line| line.contains("entry: ")).collect();
    assert_eq!(entries, ["INFO entry: in.txt", "INFO entry: out.txt"]);
    has(&lines, "WARN hello ends");
}

fn a_program_without_grants_sees_nothing_of_the_host(hello: &Module) {
    let (reason, lines) = run(Guest::new(hello));
    assert_eq!(reason, ExitReason::Normal, "{lines:#?}");
    has(&lines, "INFO SINEW_GUEST: not set");
    has(&lines, "INFO in.txt: failed");
    has(&lines, "INFO out.txt: failed");
    has(&lines, "INFO entries: failed");
}

fn a_program_that_may_only_read_cannot_write(hello: &Module) {
    let (folder, grants) = granted(Access::ReadOnly);
    let (reason, lines) = run(Guest::new(hello).args(["0", "/work"]).grants(grants));
    assert_eq!(reason, ExitReason::Normal, "{lines:#?}");
    has(&lines, "INFO in.txt: from the host");
    has(&lines, "INFO out.txt: failed");
    has(&lines, "INFO entry: in.txt");
    assert!(!folder.path("out.txt").exists());
}

fn the_exit_code_of_a_program_is_its_reason(hello: &Module) {
    let (reason, lines) = run(Guest::new(hello).args(["7"]));
    let ExitReason::Error(failure) = reason else { panic!("{reason:?}") };
    assert_eq!(failure.message, "exit code 7");
    has(&lines, "WARN hello ends");
}

fn a_panic_is_in_the_log_before_the_program_ends(hello: &Module, text: &str, end: &str) {
    let (reason, lines) = run(Guest::new(hello).args(["panic"]));
    let ExitReason::Error(failure) = reason else { panic!("{reason:?}") };
    assert!(failure.message.starts_with(end), "{failure:?}");
    has(&lines, text);
}

fn a_program_works(name: &str, panic: &str, end: &str) {
    let hello = module(&Engine::new().unwrap(), name);
    a_program_has_arguments_environment_clocks_and_files(&hello);
    a_program_without_grants_sees_nothing_of_the_host(&hello);
    a_program_that_may_only_read_cannot_write(&hello);
    the_exit_code_of_a_program_is_its_reason(&hello);
    a_panic_is_in_the_log_before_the_program_ends(&hello, panic, end);
}

#[test]
fn a_program_in_c_runs_unmodified() {
    a_program_works("hello_c", "WARN panic: asked to", "trap: unreachable code reached while it ran");
}

#[test]
fn a_program_in_rust_runs_unmodified() {
    a_program_works(
        "hello_rust",
        "WARN thread 'main' panicked at 'asked to', rust/hello.rs:41:9",
        "trap: unreachable code reached while it ran",
    );
}

/// Without optimisation its compilation takes minutes.
#[cfg(not(debug_assertions))]
#[test]
fn a_program_in_go_runs_unmodified() {
    a_program_works("hello_go", "WARN panic: asked to", "exit code 2");
}

#[test]
fn a_program_without_a_stack_prints_and_ends_but_has_no_files() {
    let hello = module(&Engine::new().unwrap(), "hello_c");
    let (_folder, grants) = granted(Access::ReadWrite);
    let limits = Limits::default().slice(std::time::Duration::from_secs(10));
    let guest = Guest::new(&hello).stack(StackClass::None).args(["3", "/work"]).grants(grants).limits(limits);
    let (reason, lines) = run(guest);
    assert_eq!(reason.to_string(), "error: exit code 3", "{lines:#?}");
    has(&lines, "INFO argument 2: /work");
    has(&lines, "INFO in.txt: failed");
    has(&lines, "WARN hello ends");
}

#[test]
fn a_granted_directory_that_does_not_exist_is_a_failure_that_names_it() {
    let engine = Engine::new().unwrap();
    let grants = Grants::none().directory("/data", "/no/such/directory", Access::ReadOnly);
    let (reason, _) = run(Guest::new(&module(&engine, "nothing")).grants(grants));
    assert_eq!(
        reason.to_string(),
        "error: cannot open the directory /no/such/directory, which is granted as /data: \
         ENOENT (no such file, name or watch) while it started"
    );
}

/// Writes its text to standard output or error, and ends.
fn prints(fd: u32, text: &str) -> String {
    let (length, bytes): (usize, String) =
        (text.len(), text.bytes().map(|byte| format!("\\{byte:02x}")).collect());
    format!(
        r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "\10\00\00\00")
        (data (i32.const 16) "{bytes}")
        (func (export "_start")
            (i32.store (i32.const 4) (i32.const {length}))
            (if (call $write (i32.const {fd}) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))))"#
    )
}

#[test]
fn whole_lines_are_logged_and_the_last_one_without_an_end_too() {
    let engine = Engine::new().unwrap();
    for (fd, level) in [(1, "INFO"), (2, "WARN")] {
        let text = "first\n\nthird \u{e4}\r\nlast";
        let program = engine.module("prints", prints(fd, text)).unwrap();
        for class in [StackClass::None, StackClass::Small] {
            let (reason, lines) = run(Guest::new(&program).stack(class));
            assert_eq!(reason, ExitReason::Normal);
            let expected = ["first", "", "third \u{e4}", "last"].map(|text| format!("{level} {text}"));
            assert_eq!(lines, expected, "{class}");
        }
    }
}

#[test]
fn lines_of_a_program_beyond_its_limit_are_dropped() {
    let engine = Engine::new().unwrap();
    let program = engine.module("prints", prints(1, &"line\n".repeat(100))).unwrap();
    let (_, lines) = run(Guest::new(&program).limits(Limits::default().log_lines(10)));
    assert_eq!(lines, vec!["INFO line"; 10]);
}

#[test]
fn a_guest_that_is_killed_has_logged_what_it_wrote() {
    let engine = Engine::new().unwrap();
    let text = prints(1, "not finished")
        .replace("(then unreachable))", "(then unreachable)) (loop $forever (br $forever))");
    let program = engine.module("prints", text).unwrap();
    let (node, log) = Log::node();
    let guest = node.wasm(&program).spawn().unwrap();
    while engine.cpu_time(guest.id()).is_none() {
        std::thread::yield_now();
    }
    guest.kill();
    guest.join().unwrap();
    has(&log.lines(&node), "INFO not finished");
}

#[test]
fn every_call_of_the_inventory_links_and_those_that_are_not_supported_are_listed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/wat/abi.wat");
    let text = std::fs::read_to_string(path).unwrap();
    // HTTP comes later, and a module imports one form of a call.
    let left_out =
        [r#""mk_http_get""#, r#""mk_log" (func (param i32 i32)))"#, r#""mk_sleep_ms" (func (param i32)))"#];
    let is_in = |line: &&str| !left_out.iter().any(|text| line.contains(text));
    let text: String = text.lines().filter(is_in).flat_map(|line| [line, "\n"]).collect();
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let abi = engine.module("abi", text).unwrap();
    node.wasm(&abi).spawn().unwrap();
    let wasi = abi.imports().filter(|name| name.starts_with("wasi_snapshot_preview1.")).count();
    let unsupported: Vec<String> = abi.unsupported_imports().collect();
    assert_eq!((wasi, unsupported.len()), (46, 14), "{unsupported:?}");
    assert!(unsupported.contains(&"wasi_snapshot_preview1.fd_renumber".to_owned()));
    assert!(unsupported.contains(&"wasi_snapshot_preview1.sock_accept".to_owned()));
}
