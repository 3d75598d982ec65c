//! Guests without a stack: what never blocks works, and what would have to is refused.

use sinew_wasm::{Access, Engine, Grants, StackClass};

use crate::folder::{Folder, Log};
use crate::wasi_guest::Arg::{At, N, Out, Text};
use crate::wasi_guest::{CREATE, DIRECTORY, READ, RESULT, WasiGuest, errno, long, word};

#[test]
fn what_never_blocks_works_and_what_would_block_is_refused() {
    let (engine, (node, log), folder) = (Engine::new().unwrap(), Log::node(), Folder::new());
    folder.write("file", "text");
    let grants = Grants::none().directory("/data", folder.path(""), Access::ReadWrite);
    let wasi = WasiGuest::with(&node, &engine, |guest| {
        guest.grants(grants).stack(StackClass::None).args(["one"]).env("NAME", "value")
    });

    let (_, out) = wasi.call("args_sizes_get", &[Out(0), Out(4)]);
    assert_eq!((word(&out, 0), word(&out, 4)), (2, 9));
    let (_, out) = wasi.call("args_get", &[Out(0), Out(16)]);
    assert_eq!((i64::from(word(&out, 4)), &out[16..25]), (RESULT + 21, &b"wasi\0one\0"[..]));
    let (_, out) = wasi.call("environ_get", &[Out(0), Out(16)]);
    assert_eq!(&out[16..27], b"NAME=value\0");
    assert!(long(&wasi.call("clock_time_get", &[N(0), N(0), Out(0)]).1, 0) > 0);
    assert_eq!(wasi.errno("random_get", &[Out(0), N(8)]), 0);
    assert_eq!(wasi.write(1, b"to the log\nand "), Ok(15));
    assert_eq!(wasi.write(1, b"more\n"), Ok(5));
    assert_eq!(log.lines(&node), ["INFO to the log", "INFO and more"]);
    assert_eq!(wasi.read(0, 10).unwrap(), b"");
    assert_eq!(word(&wasi.call("fd_prestat_get", &[N(3), Out(0)]).1, 4), 5);
    assert_eq!(wasi.call("fd_fdstat_get", &[N(3), Out(0)]).1[0], 3);
    assert_eq!(wasi.call("fd_filestat_get", &[N(1), Out(0)]).1[16], 2);
    // A clock that has come to its time, and one that has not.
    let mut clock = [0; 48];
    assert_eq!(wasi.errno("poll_oneoff", &[At(&clock), Out(8), N(1), Out(0)]), 0);
    clock[24] = 255;
    clock[30] = 255;
    assert_eq!(wasi.errno("poll_oneoff", &[At(&clock), Out(8), N(1), Out(0)]), errno::DEADLK);

    assert_eq!(wasi.errno("sched_yield", &[]), errno::DEADLK);
    for how in [READ, CREATE, DIRECTORY] {
        assert_eq!(wasi.open(3, "file", how), Err(errno::DEADLK));
    }
    for call in ["path_unlink_file", "path_create_directory", "path_remove_directory"] {
        assert_eq!(wasi.errno(call, &[N(3), Text("file")]), errno::DEADLK);
    }
    assert_eq!(wasi.errno("fd_filestat_get", &[N(3), Out(0)]), errno::DEADLK);
    assert_eq!(wasi.errno("fd_readdir", &[N(3), Out(8), N(100), N(0), Out(0)]), errno::DEADLK);
    assert_eq!(wasi.errno("fd_close", &[N(3)]), 0);
    assert_eq!(folder.read("file"), "text");
}
