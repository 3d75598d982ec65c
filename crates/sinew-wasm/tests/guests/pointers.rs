//! Hostile pointers: no call traps, panics, hangs or has an effect, wherever its arguments point.

use sinew_kernel::{Kind, Message, Node, Payload};
use sinew_wasm::{Access, Engine, Grants, StackClass, WasmNode};

use crate::folder::Folder;
use crate::wasi_guest::Arg::{self, Buffers, N, Out};
use crate::wasi_guest::{CREATE, MEMORY_END, RESULT, WasiGuest, calls, errno, module};

/// What each argument is tried with.
const NARROW: [i64; 5] = [0, MEMORY_END - 1, MEMORY_END, i32::MAX as i64, -1];
const WIDE: [i64; 3] = [0, i64::MAX, -1];

/// The largest error number.
const LAST_ERROR: u32 = 76;

#[test]
fn every_call_survives_every_pointer_at_every_position() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let module = module(&engine);
    for class in [StackClass::Small, StackClass::None] {
        for call in calls() {
            let folder = Folder::new();
            folder.write("file", "text");
            let grants = Grants::none().directory("/", folder.path(""), Access::ReadWrite);
            let wasi = WasiGuest::of(&node, &module, |guest| guest.grants(grants).stack(class));
            let file = wasi.open(3, "file", CREATE).unwrap_or(3);
            // A file descriptor, or a count; and pointers to zeros.
            for first in [1, 3, file] {
                for position in 0..call.params.len() {
                    let values = if call.params[position] { &WIDE[..] } else { &NARROW[..] };
                    for value in values {
                        let base = |at: usize| match at {
                            0 => first,
                            _ if call.params[at] => 0,
                            _ => RESULT + 8 * at as i64,
                        };
                        for others in [true, false] {
                            let arg = |at: usize| {
                                let is_it = at == position || !others && at > 0 && !call.params[at];
                                N(if is_it { *value } else { base(at) })
                            };
                            let args: Vec<Arg<'_>> = (0..call.params.len()).map(arg).collect();
                            let result = wasi.errno(&call.name, &args);
                            assert!(result <= LAST_ERROR, "{} returned {result}", call.name);
                        }
                    }
                }
            }
            assert!(
                wasi.errno("clock_time_get", &[N(0), N(0), Out(0)]) == 0,
                "it is alive after {}",
                call.name
            );
            wasi.guest.kill();
        }
    }
}

#[test]
fn buffers_that_are_not_in_the_memory_are_refused_before_an_effect() {
    let (engine, node, folder) = (Engine::new().unwrap(), Node::new(), Folder::new());
    folder.write("file", "text");
    let grants = Grants::none().directory("/", folder.path(""), Access::ReadWrite);
    let wasi = WasiGuest::new(&node, &engine, grants);
    let file = wasi.open(3, "file", CREATE).unwrap();
    let bad = [
        (0, -1),
        (MEMORY_END - 1, 2),
        (MEMORY_END, 1),
        (-1, 1),
        (-1, -1),
        (i64::from(i32::MAX), i64::from(i32::MAX)),
    ];
    let good = (RESULT + 64, 4);
    for bad in bad {
        let lists: [&[(i64, i64)]; 3] = [&[bad], &[good, bad], &[good, good, bad, good]];
        for list in lists {
            for fd in [1, file] {
                for call in ["fd_read", "fd_write"] {
                    assert_eq!(
                        wasi.errno(call, &[N(fd), Buffers(list), Out(0)]),
                        errno::FAULT,
                        "{call} {bad:?}"
                    );
                }
            }
            for call in ["fd_pread", "fd_pwrite"] {
                assert_eq!(wasi.errno(call, &[N(file), Buffers(list), N(0), Out(0)]), errno::FAULT);
            }
        }
    }
    let at_the_end = [(MEMORY_END, 0), (MEMORY_END - 4, 4)];
    assert_eq!(wasi.errno("fd_read", &[N(file), Buffers(&at_the_end), Out(0)]), 0);
    let many = vec![good; 1025];
    assert_eq!(wasi.errno("fd_write", &[N(file), Buffers(&many), Out(0)]), errno::INVAL);
    // The result has no place: nothing is written.
    let no_place = N(MEMORY_END - 3);
    assert_eq!(wasi.errno("fd_write", &[N(file), Arg::Bytes(b"x"), no_place]), errno::FAULT);
    assert_eq!(wasi.errno("fd_seek", &[N(file), N(1), N(0), N(MEMORY_END - 7)]), errno::FAULT);
    assert_eq!(folder.read("file"), "text");
}

#[test]
fn a_program_without_a_memory_gets_errors() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let module = engine.module(
        "no memory",
        r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (func (export "handle_message") (param i32 i64 i32 i32) (result i32)
            (call $exit (i32.add
                (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))
                (call $random (i32.const 0) (i32.const 1))))
            (i32.const 1)))"#,
    );
    let guest = node.wasm(&module.unwrap()).spawn().unwrap();
    guest.tell(Message::new(guest.id(), Kind(1), Payload::copy(b""))).unwrap();
    assert_eq!(guest.join().unwrap().to_string(), format!("error: exit code {}", 2 * errno::FAULT));
}
