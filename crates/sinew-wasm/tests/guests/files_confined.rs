//! Nothing outside of a granted directory is reached, and nothing is changed where only reading is granted.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use sinew_kernel::Node;
use sinew_test_kit::runtimes::rounds;
use sinew_wasm::{Access, Engine, Grants};

use crate::folder::Folder;
use crate::wasi_guest::Arg::{N, Out, Text};
use crate::wasi_guest::{CREATE, DIRECTORY, How, READ, WasiGuest, errno, word};

/// A folder with `root` in it, which is granted, and a secret beside it.
fn folder() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("root/dir")).unwrap();
    std::fs::create_dir(folder.path("outside")).unwrap();
    folder.write("root/dir/file", "public");
    folder.write("outside/file", "secret");
    folder
}

fn granted(folder: &Folder, access: Access) -> (Node, WasiGuest) {
    let node = Node::new();
    let grants = Grants::none().directory("/", folder.path("root"), access);
    let wasi = WasiGuest::new(&node, &Engine::new().unwrap(), grants);
    (node, wasi)
}

#[test]
fn paths_and_links_that_lead_outside_are_refused_by_every_call() {
    let folder = folder();
    symlink("../outside/file", folder.path("root/link")).unwrap();
    symlink("../outside", folder.path("root/up")).unwrap();
    symlink(folder.path("outside/file"), folder.path("root/absolute")).unwrap();
    let (_node, wasi) = granted(&folder, Access::ReadWrite);
    let absolute = folder.path("outside/file");
    let absolute = absolute.to_str().unwrap();
    for path in ["../outside/file", "dir/../../outside/file", "/etc/passwd", absolute, "up/file"] {
        assert_eq!(wasi.open(3, path, READ), Err(errno::ACCES), "{path}");
        assert_eq!(wasi.open(3, path, CREATE), Err(errno::ACCES));
        assert_eq!(wasi.open(3, path, DIRECTORY), Err(errno::ACCES));
        for call in ["path_unlink_file", "path_create_directory", "path_remove_directory"] {
            assert_eq!(wasi.errno(call, &[N(3), Text(path)]), errno::ACCES, "{call} {path}");
        }
        for lookup in [0, 1] {
            let stat = wasi.errno("path_filestat_get", &[N(3), N(lookup), Text(path), Out(0)]);
            assert_eq!(stat, errno::ACCES);
        }
        let rename = |from, to| wasi.errno("path_rename", &[N(3), Text(from), N(3), Text(to)]);
        assert_eq!((rename(path, "x"), rename("dir/file", path)), (errno::ACCES, errno::ACCES));
    }
    for path in ["link", "absolute"] {
        assert_eq!(wasi.open(3, path, READ), Err(errno::ACCES), "{path}");
        assert_eq!(wasi.open(3, path, How { oflags: 1 | 8, ..CREATE }), Err(errno::ACCES));
    }
    let inner = wasi.open(3, "dir", DIRECTORY).unwrap();
    assert_eq!(wasi.open(inner, "../dir/file", READ), Err(errno::ACCES), "a directory confines, too");
    assert_eq!(folder.read("outside/file"), "secret");
    assert_eq!(std::fs::read_dir(folder.path("outside")).unwrap().count(), 1);
}

#[test]
fn a_link_is_not_followed_unless_it_is_asked_for() {
    let folder = folder();
    symlink("dir/file", folder.path("root/link")).unwrap();
    let (_node, wasi) = granted(&folder, Access::ReadOnly);
    let open = [N(3), N(0), Text("link"), N(0), N(2), N(0), N(0), Out(0)];
    assert_eq!(wasi.errno("path_open", &open), errno::LOOP);
    let file = wasi.open(3, "link", READ).unwrap();
    assert_eq!(wasi.read(file, 10).unwrap(), b"public");
    let file_type = |lookup| wasi.call("path_filestat_get", &[N(3), N(lookup), Text("link"), Out(0)]).1[16];
    assert_eq!((file_type(0), file_type(1)), (7, 4));
}

#[test]
fn where_only_reading_is_granted_nothing_is_changed() {
    let folder = folder();
    let (_node, wasi) = granted(&folder, Access::ReadOnly);
    let inner = wasi.open(3, "dir", DIRECTORY).unwrap();
    for (fd, path) in [(3, "dir/file"), (inner, "file")] {
        let truncate = How { oflags: 8, ..CREATE };
        let append = How { oflags: 0, fdflags: 1, ..CREATE };
        for how in [CREATE, truncate, append, How { oflags: 0, ..CREATE }] {
            assert_eq!(wasi.open(fd, path, how), Err(errno::ROFS));
        }
        assert_eq!(wasi.errno("path_unlink_file", &[N(fd), Text(path)]), errno::ROFS);
        assert_eq!(wasi.errno("path_create_directory", &[N(fd), Text("new")]), errno::ROFS);
        assert_eq!(wasi.errno("path_remove_directory", &[N(fd), Text("new")]), errno::ROFS);
        assert_eq!(wasi.errno("path_rename", &[N(fd), Text(path), N(fd), Text("new")]), errno::ROFS);
        let file = wasi.open(fd, path, READ).unwrap();
        assert_eq!(wasi.write(file, b"x"), Err(errno::BADF));
        assert_eq!(wasi.errno("fd_filestat_set_size", &[N(file), N(0)]), errno::BADF);
        assert_eq!(wasi.read(file, 10).unwrap(), b"public");
    }
    assert_eq!(folder.read("root/dir/file"), "public");
}

#[test]
fn a_directory_that_is_swapped_for_a_link_meanwhile_does_not_lead_outside() {
    let folder = folder();
    symlink("../outside", folder.path("root/link")).unwrap();
    let (_node, wasi) = granted(&folder, Access::ReadWrite);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let [dir, link, spare] = ["root/dir", "root/link", "root/spare"].map(|path| folder.path(path));
            while !over.load(Ordering::Relaxed) {
                for (from, to) in [(&dir, &spare), (&link, &dir), (&dir, &link), (&spare, &dir)] {
                    std::fs::rename(from, to).unwrap();
                }
            }
        });
        let mut opened = 0;
        for _ in 0..rounds(1_000) {
            if let Ok(file) = wasi.open(3, "dir/file", READ) {
                assert_eq!(wasi.read(file, 10).unwrap(), b"public");
                assert_eq!(wasi.errno("fd_close", &[N(file)]), 0);
                opened += 1;
            }
            if let Ok(file) = wasi.open(3, "dir/written", CREATE) {
                assert_eq!(wasi.errno("fd_close", &[N(file)]), 0);
            }
            wasi.errno("path_create_directory", &[N(3), Text("dir/made")]);
            wasi.errno("path_unlink_file", &[N(3), Text("dir/file-of-outside")]);
        }
        over.store(true, Ordering::Relaxed);
        assert!(opened > 0);
    });
    let outside: Vec<_> = std::fs::read_dir(folder.path("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1, "nothing was made outside: {outside:?}");
    let (_, stat) = wasi.call("fd_prestat_get", &[N(3), Out(0)]);
    assert_eq!(word(&stat, 4), 1);
}
