//! Files below a granted directory, call by call.

use std::time::{Duration, Instant};

use sinew_kernel::Node;
use sinew_wasm::{Access, Engine, Grants, Guest, Limits, WasmNode};

use crate::folder::{Folder, Log};
use crate::kit::{Peer, module};
use crate::wasi_guest::Arg::{self, At, Buffers, N, Out, Text};
use crate::wasi_guest::{CREATE, DIRECTORY, How, READ, RESULT, WasiGuest, errno, long, word};

fn read_write(folder: &Folder) -> Grants {
    Grants::none().directory("/", folder.path(""), Access::ReadWrite)
}

#[test]
fn a_file_is_written_read_moved_in_cut_and_synced() {
    let (engine, node, folder) = (Engine::new().unwrap(), Node::new(), Folder::new());
    let wasi = WasiGuest::new(&node, &engine, read_write(&folder));
    assert_eq!(wasi.open(3, "a.txt", READ), Err(errno::NOENT));
    let file = wasi.open(3, "a.txt", CREATE).unwrap();
    assert_eq!(wasi.write(file, b"hello world"), Ok(11));
    let tell = |fd| wasi.call("fd_tell", &[N(fd), Out(0)]);
    assert_eq!(long(&tell(file).1, 0), 11);
    let seek = |offset, whence| wasi.call("fd_seek", &[N(file), N(offset), N(whence), Out(0)]);
    assert_eq!(long(&seek(6, 0).1, 0), 6);
    assert_eq!(wasi.read(file, 100).unwrap(), b"world");
    assert_eq!(wasi.read(file, 100).unwrap(), b"", "end of file");
    assert_eq!(long(&seek(-5, 2).1, 0), 6);
    assert_eq!(long(&seek(-6, 1).1, 0), 0);
    assert_eq!((seek(-1, 0).0, seek(-1, 1).0, seek(0, 3).0), (errno::INVAL, errno::INVAL, errno::INVAL));
    let (_, out) =
        wasi.call("fd_pread", &[N(file), Buffers(&[(RESULT + 8, 2), (RESULT + 16, 3)]), N(6), Out(0)]);
    assert_eq!((word(&out, 0), &out[8..10], &out[16..19]), (5, &b"wo"[..], &b"rld"[..]), "scattered");
    assert_eq!(wasi.errno("fd_pwrite", &[N(file), Arg::Bytes(b"HELLO"), N(0), Out(0)]), 0);
    assert_eq!(folder.read("a.txt"), "HELLO world");
    assert_eq!(wasi.errno("fd_filestat_set_size", &[N(file), N(5)]), 0);
    assert_eq!((wasi.errno("fd_sync", &[N(file)]), wasi.errno("fd_datasync", &[N(file)])), (0, 0));
    let (_, stat) = wasi.call("fd_filestat_get", &[N(file), Out(0)]);
    assert_eq!((stat[16], long(&stat, 24), long(&stat, 32)), (4, 1, 5), "type, links, size");
    assert_eq!(wasi.errno("fd_close", &[N(file)]), 0);
    assert_eq!(wasi.errno("fd_close", &[N(file)]), errno::BADF);
    assert_eq!(folder.read("a.txt"), "HELLO");
}

#[test]
fn a_file_is_opened_as_it_was_asked_for() {
    let (engine, node, folder) = (Engine::new().unwrap(), Node::new(), Folder::new());
    let wasi = WasiGuest::new(&node, &engine, read_write(&folder));
    folder.write("a.txt", "old");
    std::fs::create_dir(folder.path("dir")).unwrap();
    let write_only = How { rights: 1 << 6, ..READ };
    assert_eq!(wasi.open(3, "a.txt", How { oflags: 1 | 4, ..CREATE }), Err(errno::EXIST));
    assert_eq!(wasi.open(3, "a.txt", DIRECTORY), Err(errno::NOTDIR));
    assert_eq!(wasi.open(3, "dir", write_only), Err(errno::ISDIR));
    assert_eq!(wasi.open(3, "a.txt", How { fdflags: 16, ..READ }), Err(errno::NOTSUP), "synchronous writes");
    assert_eq!(wasi.open(3, "a.txt", How { oflags: 16, ..READ }), Err(errno::INVAL));
    assert_eq!(wasi.open(1, "a.txt", READ), Err(errno::NOTDIR));
    assert_eq!(wasi.open(50, "a.txt", READ), Err(errno::BADF));
    let reader = wasi.open(3, "a.txt", READ).unwrap();
    assert_eq!(wasi.write(reader, b"x"), Err(errno::BADF));
    let writer = wasi.open(3, "a.txt", write_only).unwrap();
    assert_eq!(wasi.read(writer, 1), Err(errno::BADF));
    let appends = wasi.open(3, "a.txt", How { fdflags: 1, ..CREATE }).unwrap();
    assert_eq!(wasi.write(appends, b" and new"), Ok(8));
    assert_eq!(folder.read("a.txt"), "old and new");
    wasi.open(3, "a.txt", How { oflags: 8, ..CREATE }).unwrap();
    assert_eq!(folder.read("a.txt"), "");
    let directory = wasi.open(3, "dir", READ).unwrap();
    assert_eq!(wasi.call("fd_fdstat_get", &[N(directory), Out(0)]).1[0], 3, "directories open like files");
    assert_eq!(wasi.read(directory, 1), Err(errno::ISDIR));
}

#[test]
fn names_are_made_moved_and_removed() {
    let (engine, node, folder) = (Engine::new().unwrap(), Node::new(), Folder::new());
    let wasi = WasiGuest::new(&node, &engine, read_write(&folder));
    let made = |path| wasi.errno("path_create_directory", &[N(3), Text(path)]);
    assert_eq!((made("dir"), made("dir"), made("no/dir")), (0, errno::EXIST, errno::NOENT));
    wasi.open(3, "dir/file", CREATE).unwrap();
    let remove = |path| wasi.errno("path_remove_directory", &[N(3), Text(path)]);
    assert_eq!((remove("dir"), remove("dir/file")), (errno::NOTEMPTY, errno::NOTDIR));
    let inner = wasi.open(3, "dir", DIRECTORY).unwrap();
    assert_eq!(wasi.errno("path_rename", &[N(inner), Text("file"), N(3), Text("moved")]), 0);
    let (_, stat) = wasi.call("path_filestat_get", &[N(3), N(1), Text("moved"), Out(0)]);
    assert_eq!((stat[16], long(&stat, 32)), (4, 0));
    assert_eq!(remove("dir"), 0);
    let unlink = |path| wasi.errno("path_unlink_file", &[N(3), Text(path)]);
    assert_eq!((unlink("moved"), unlink("moved"), unlink(".")), (0, errno::NOENT, errno::INVAL));
    assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 0);
}

#[test]
fn a_directory_is_listed_in_pieces_of_any_size() {
    let (engine, node, folder) = (Engine::new().unwrap(), Node::new(), Folder::new());
    let wasi = WasiGuest::new(&node, &engine, read_write(&folder));
    let mut expected: Vec<String> = (0..40).map(|n| format!("file-{n:02}-{}", "x".repeat(n))).collect();
    expected.iter().for_each(|name| folder.write(name, ""));
    expected.extend([".".to_owned(), "..".to_owned()]);
    expected.sort();
    for size in [100, 333, 4000] {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let args = [N(3), N(RESULT + 8), N(size), N(cookie), Out(0)];
            let (errno, out) = wasi.call("fd_readdir", &args);
            assert_eq!(errno, 0);
            let used = word(&out, 0) as usize;
            let mut list = &out[8..8 + used];
            while list.len() >= 24 && list.len() - 24 >= word(list, 16) as usize {
                let end = 24 + word(list, 16) as usize;
                names.push(String::from_utf8(list[24..end].to_vec()).unwrap());
                cookie = long(list, 0) as i64;
                list = &list[end..];
            }
            if used < size as usize {
                break;
            }
        }
        names.sort();
        assert_eq!(names, expected, "{size}");
    }
    assert_eq!(wasi.errno("fd_readdir", &[N(1), Out(8), N(100), N(0), Out(0)]), errno::NOTDIR);
}

#[test]
fn granted_directories_are_found_from_three_on_in_their_order() {
    let (engine, node, folder) = (Engine::new().unwrap(), Node::new(), Folder::new());
    let grants = read_write(&folder).directory("/data", folder.path(""), Access::ReadOnly);
    let wasi = WasiGuest::new(&node, &engine, grants);
    let prestat = |fd| wasi.call("fd_prestat_get", &[N(fd), Out(0)]);
    for (fd, path) in [(3, "/"), (4, "/data")] {
        let (errno, out) = prestat(fd);
        assert_eq!((errno, out[0], word(&out, 4) as usize), (0, 0, path.len()));
        let (errno, out) = wasi.call("fd_prestat_dir_name", &[N(fd), Out(0), N(path.len() as i64)]);
        assert_eq!((errno, &out[..path.len() + 1]), (0, format!("{path}\0").as_bytes()));
        assert_ne!(wasi.errno("fd_prestat_dir_name", &[N(fd), Out(0), N(path.len() as i64 - 1)]), 0);
    }
    assert_eq!((prestat(5).0, prestat(0).0, prestat(-1).0), (errno::BADF, errno::BADF, errno::BADF));
    assert_eq!(wasi.errno("fd_close", &[N(3)]), 0);
    assert_eq!(wasi.open(4, ".", DIRECTORY), Ok(3));
    assert_eq!(prestat(3).0, errno::BADF, "another directory has its number");
}

#[test]
fn descriptors_beyond_the_limit_are_refused_before_a_file_is_made() {
    let (engine, node, folder) = (Engine::new().unwrap(), Node::new(), Folder::new());
    let limits = Limits::default().fds(6);
    let wasi = WasiGuest::with(&node, &engine, |guest| guest.grants(read_write(&folder)).limits(limits));
    let opened: Vec<_> = (0..4).map(|n| wasi.open(3, &format!("file-{n}"), CREATE)).collect();
    assert_eq!(opened, [Ok(4), Ok(5), Err(errno::MFILE), Err(errno::MFILE)]);
    assert!(!folder.path("file-2").exists());
    assert_eq!(wasi.errno("fd_close", &[N(4)]), 0);
    assert_eq!(wasi.open(3, "file-2", CREATE), Ok(4));
}

#[test]
fn standard_streams_are_character_devices_without_a_position() {
    let (engine, (node, log)) = (Engine::new().unwrap(), Log::node());
    let wasi = WasiGuest::new(&node, &engine, Grants::none());
    for fd in 0..3 {
        assert_eq!(wasi.call("fd_fdstat_get", &[N(fd), Out(0)]).1[0], 2);
        assert_eq!(wasi.call("fd_filestat_get", &[N(fd), Out(0)]).1[16], 2);
        assert_eq!(wasi.errno("fd_seek", &[N(fd), N(0), N(1), Out(0)]), errno::SPIPE);
        assert_eq!(wasi.errno("fd_tell", &[N(fd), Out(0)]), errno::SPIPE);
        assert_eq!(wasi.errno("fd_pread", &[N(fd), Buffers(&[]), N(0), Out(0)]), errno::SPIPE);
        assert_eq!(wasi.errno("fd_sync", &[N(fd)]), errno::INVAL);
    }
    assert_eq!(wasi.read(0, 10).unwrap(), b"");
    assert_eq!((wasi.read(1, 10), wasi.write(0, b"x")), (Err(errno::BADF), Err(errno::BADF)));
    assert_eq!(wasi.write(1, b"no end"), Ok(6));
    assert_eq!(wasi.errno("fd_close", &[N(1)]), 0);
    assert_eq!(log.lines(&node), ["INFO no end"], "closed with what was left");
    assert_eq!(wasi.write(1, b"x"), Err(errno::BADF));
    let flags = |flags| wasi.errno("fd_fdstat_set_flags", &[N(2), N(flags)]);
    assert_eq!((flags(4), flags(1), flags(64)), (0, errno::NOTSUP, errno::INVAL));
    assert_eq!(word(&wasi.call("fd_fdstat_get", &[N(2), Out(0)]).1, 0) >> 16, 4);
}

/// A subscription to a clock or a file descriptor.
fn subscription(userdata: u64, subscription_type: u8, number: i32, timeout: u64, absolute: bool) -> [u8; 48] {
    let mut record = [0; 48];
    record[..8].copy_from_slice(&userdata.to_le_bytes());
    record[8] = subscription_type;
    record[16..20].copy_from_slice(&number.to_le_bytes());
    record[24..32].copy_from_slice(&timeout.to_le_bytes());
    record[40] = u8::from(absolute);
    record
}

#[test]
fn a_poll_waits_for_clocks_and_descriptors() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let wasi = WasiGuest::new(&node, &engine, Grants::none());
    let poll = |records: &[[u8; 48]]| {
        let (errno, out) =
            wasi.call("poll_oneoff", &[At(&records.concat()), Out(8), N(records.len() as i64), Out(0)]);
        let events = out[8..].chunks(32).take(word(&out, 0) as usize);
        let event = |it: &[u8]| (long(it, 0), word(it, 8) as u16, it[10], it[24]);
        (errno, events.map(event).collect::<Vec<_>>())
    };
    let started = Instant::now();
    let (hour, moment) = (3_600_000_000_000, 30_000_000);
    let events = poll(&[subscription(7, 0, 0, hour, false), subscription(8, 0, 1, moment, false)]);
    assert_eq!(events, (0, vec![(8, 0, 0, 0)]));
    assert!(started.elapsed() >= Duration::from_millis(30));
    // The past.
    assert_eq!(poll(&[subscription(1, 0, 1, 5, true)]).1, [(1, 0, 0, 0)]);
    assert_eq!(poll(&[subscription(1, 0, 0, 5, true)]).1, [(1, 0, 0, 0)]);
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap()
        + Duration::from_millis(20);
    assert_eq!(poll(&[subscription(2, 0, 0, soon.as_nanos() as u64, true)]).1, [(2, 0, 0, 0)]);
    assert!(std::time::SystemTime::now() >= std::time::UNIX_EPOCH + soon);
    // Standard streams are ready, standard input with its end.
    let streams = [
        subscription(3, 1, 0, 0, false),
        subscription(4, 2, 1, 0, false),
        subscription(5, 0, 1, hour, false),
    ];
    assert_eq!(poll(&streams).1, [(3, 0, 1, 1), (4, 0, 2, 0)]);
    let wrong =
        [subscription(6, 1, 40, 0, false), subscription(7, 0, 9, 0, false), subscription(8, 0, 2, 0, false)];
    let number = |errno: u32| errno as u16;
    let expected =
        [(6, number(errno::BADF), 1, 0), (7, number(errno::INVAL), 0, 0), (8, number(errno::NOTSUP), 0, 0)];
    assert_eq!(poll(&wrong).1, expected);
    assert_eq!(poll(&[]).0, errno::INVAL);
    assert_eq!(poll(&[subscription(0, 3, 0, 0, false)]).0, errno::INVAL);
}

#[test]
fn a_guest_that_waits_for_what_never_comes_is_killed() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let module = engine.module(
        "waits",
        r#"(module
        (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\ff\ff\ff\ff\ff\ff\ff\ff")
        (func (export "_start")
            (drop (call $poll (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 0)))))"#,
    );
    let guest = node.wasm(&module.unwrap()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    guest.kill();
    assert!(guest.join().unwrap().is_abnormal());
}

#[test]
fn clocks_random_bytes_and_what_is_not_supported() {
    let (engine, node) = (Engine::new().unwrap(), Node::new());
    let wasi = WasiGuest::new(&node, &engine, Grants::none());
    let time = |clock| long(&wasi.call("clock_time_get", &[N(clock), N(0), Out(0)]).1, 0);
    let (first, second) = (time(1), time(1));
    assert!(first > 0 && first <= second);
    let real = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    assert!(u128::from(time(0)).abs_diff(real) < 60_000_000_000);
    assert_eq!(wasi.errno("clock_time_get", &[N(4), N(0), Out(0)]), errno::INVAL);
    assert_eq!(long(&wasi.call("clock_res_get", &[N(0), Out(0)]).1, 0), 1);
    let random = || wasi.call("random_get", &[Out(0), N(64)]).1;
    let (one, other) = (random(), random());
    assert!(one[..64] != other[..64] && one[64..72] == [0; 8]);
    assert_eq!(wasi.errno("sched_yield", &[]), 0);
    assert_eq!(wasi.errno("fd_renumber", &[N(1), N(2)]), errno::NOSYS);
    assert_eq!(wasi.errno("sock_shutdown", &[N(1), N(2)]), errno::NOSYS);
}

#[test]
fn one_call_copies_no_more_than_its_limit() {
    let (engine, node, folder) = (Engine::new().unwrap(), Node::new(), Folder::new());
    let limits = Limits::default().copy(8192);
    let wasi = WasiGuest::with(&node, &engine, |guest| guest.grants(read_write(&folder)).limits(limits));
    let file = wasi.open(3, "a.txt", CREATE).unwrap();
    let buffers = Buffers(&[(RESULT + 8, 5000), (RESULT + 8, 5000)]);
    for _ in 0..2 {
        let (errno, out) = wasi.call("fd_write", &[N(file), buffers, Out(0)]);
        assert_eq!((errno, word(&out, 0)), (0, 8192), "the rest is for another call");
    }
    assert_eq!(wasi.errno("fd_seek", &[N(file), N(0), N(0), Out(0)]), 0);
    let (errno, out) = wasi.call("fd_read", &[N(file), buffers, Out(0)]);
    assert_eq!((errno, word(&out, 0)), (0, 8192));
    assert_eq!(wasi.errno("random_get", &[Out(0), N(8193)]), errno::TOO_BIG);
    assert_eq!(wasi.errno("fd_readdir", &[N(3), Out(8), N(8193), N(0), Out(0)]), errno::TOO_BIG);
}

#[test]
fn an_actor_reads_files_of_the_granted_root_only() {
    const READ_FILE: u32 = 8;
    let (engine, (node, log), folder) = (Engine::new().unwrap(), Log::node(), Folder::new());
    std::fs::create_dir(folder.path("root")).unwrap();
    folder.write("root/short.txt", "short");
    folder.write("root/long.txt", &"0123456789".repeat(20));
    folder.write("secret", "secret");
    let (calls, peer) = (module(&engine, "calls"), Peer::new(&node));
    let read = |id, path: &str| {
        let (kind, bytes) = peer.ask(id, READ_FILE, path.as_bytes());
        assert_eq!(kind, READ_FILE + 100);
        (word(&bytes, 0) as i32, word(&bytes, 4), String::from_utf8(bytes[8..].to_vec()).unwrap())
    };
    for guest_path in ["/", "/data"] {
        let grants = Grants::none().directory(guest_path, folder.path("root"), Access::ReadOnly);
        let guest = node.wasm(Guest::new(&calls).grants(grants)).spawn().unwrap();
        for path in ["short.txt", "/short.txt", "//short.txt", "./short.txt"] {
            assert_eq!(read(guest.id(), path), (0, 5, "short".to_owned()), "{path}");
        }
        assert_eq!(read(guest.id(), "long.txt"), (0, 200, "0123456789".repeat(7)[..64].to_owned()), "cut");
        for path in ["../secret", "/../secret", "", "/", ".", "missing", "short.txt/x"] {
            assert_eq!(read(guest.id(), path).0, -1, "{path}");
        }
        if guest_path == "/data" {
            assert_eq!(read(guest.id(), "/data/short.txt"), (0, 5, "short".to_owned()));
            assert_eq!(read(guest.id(), "/data/../secret").0, -1);
        }
    }
    let guest = node.wasm(&calls).spawn().unwrap();
    assert_eq!(read(guest.id(), "short.txt").0, -1);
    let denied = "WARN mk_read_file denied: no directory is granted to it; grant it in the guest's `Grants`";
    assert_eq!(log.lines(&node), [denied]);
}
