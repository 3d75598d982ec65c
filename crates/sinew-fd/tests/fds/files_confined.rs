//! Nothing outside of the granted root is reached: by `..`, absolute paths, links, or directories that are swapped.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sinew_fd::{Access, Errno, FdObject, FileKind};
use sinew_test_kit::runtimes::rounds;

use crate::files::{CREATE, Folder, READ};

/// A folder with `root` in it, which is granted, and a secret beside it.
fn folder() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("root/dir")).unwrap();
    std::fs::write(folder.path("root/dir/file"), "public").unwrap();
    std::fs::write(folder.path("secret"), "secret").unwrap();
    folder
}

#[test]
fn paths_that_lead_outside_are_refused() {
    let folder = folder();
    let root = folder.grant("root", Access::ReadWrite);
    let secret = folder.path("secret");
    let outside =
        ["../secret", "dir/../../secret", "dir/../../root/dir/file", "/etc/passwd", secret.to_str().unwrap()];
    for path in outside.map(Path::new) {
        assert_eq!(root.open_file(path, READ).unwrap_err(), Errno::EACCES, "{path:?}");
        assert_eq!(root.open_file(path, CREATE).unwrap_err(), Errno::EACCES);
        assert_eq!(root.stat(path).unwrap_err(), Errno::EACCES);
        assert_eq!(root.open_directory(path.parent().unwrap()).unwrap_err(), Errno::EACCES);
        assert_eq!(root.remove_file(path), Err(Errno::EACCES));
        assert_eq!(root.remove_directory(path), Err(Errno::EACCES));
        assert_eq!(root.create_directory(path), Err(Errno::EACCES));
        assert_eq!(root.rename(path, &root, Path::new("x")), Err(Errno::EACCES));
        assert_eq!(root.rename(Path::new("dir/file"), &root, path), Err(Errno::EACCES));
    }
    for path in ["..", "dir/..", "."].map(Path::new) {
        assert_eq!(root.remove_directory(path), Err(Errno::EINVAL));
        assert_eq!(root.rename(path, &root, Path::new("x")), Err(Errno::EINVAL));
    }
    assert_eq!(
        root.open_file(Path::new("dir/../dir/file"), READ).unwrap().read(&mut [0; 16]),
        Ok(6),
        "inside"
    );
    assert_eq!(std::fs::read(folder.path("secret")).unwrap(), b"secret");
}

#[test]
fn odd_paths_are_refused() {
    let folder = folder();
    let root = folder.grant("root", Access::ReadWrite);
    assert_eq!(root.open_file(Path::new(""), READ).unwrap_err(), Errno::ENOENT);
    assert_eq!(root.create_directory(Path::new("")), Err(Errno::ENOENT));
    assert_eq!(root.create_directory(Path::new("/")), Err(Errno::EACCES));
    assert_eq!(root.open_file(Path::new("a\0b"), READ).unwrap_err(), Errno::EINVAL);
    assert_eq!(root.create_directory(Path::new("a\0b")), Err(Errno::EINVAL));
    let long = "x".repeat(10_000);
    assert_eq!(root.open_file(Path::new(&long), READ).unwrap_err(), Errno::ENAMETOOLONG);
    assert_eq!(root.open_file(Path::new("dir/file/x"), READ).unwrap_err(), Errno::ENOTDIR);
}

#[test]
fn links_are_followed_inside_and_refused_outside() {
    let folder = folder();
    let root = folder.grant("root", Access::ReadWrite);
    symlink("dir/file", folder.path("root/inside")).unwrap();
    symlink("../secret", folder.path("root/outside")).unwrap();
    symlink("..", folder.path("root/up")).unwrap();
    symlink(folder.path("secret"), folder.path("root/absolute")).unwrap();
    symlink("/proc/self/root/etc/passwd", folder.path("root/magic")).unwrap();
    symlink("loop", folder.path("root/loop")).unwrap();
    assert_eq!(root.open_file(Path::new("inside"), READ).unwrap().read(&mut [0; 16]), Ok(6));
    assert_eq!(root.stat_link(Path::new("inside")).unwrap().kind, FileKind::SymbolicLink);
    for path in ["outside", "up/secret", "absolute", "magic"].map(Path::new) {
        assert_eq!(root.open_file(path, READ).unwrap_err(), Errno::EACCES, "{path:?}");
        assert_eq!(root.open_file(path, CREATE).unwrap_err(), Errno::EACCES);
    }
    assert_eq!(root.create_directory(Path::new("up/new")), Err(Errno::EACCES));
    assert_eq!(root.remove_file(Path::new("up/secret")), Err(Errno::EACCES));
    assert_eq!(root.rename(Path::new("dir/file"), &root, Path::new("up/secret")), Err(Errno::EACCES));
    assert_eq!(root.open_file(Path::new("loop"), READ).unwrap_err(), Errno::ELOOP);
    root.remove_file(Path::new("outside")).unwrap(); // the link itself
    assert_eq!(std::fs::read(folder.path("secret")).unwrap(), b"secret");
}

#[test]
fn a_link_of_proc_does_not_lead_outside() {
    let proc = sinew_fd::Directory::grant(Path::new("/proc/self"), Access::ReadOnly).unwrap();
    let refused = proc.open_file(Path::new("root/etc/passwd"), READ).unwrap_err();
    assert!([Errno::ELOOP, Errno::EACCES].contains(&refused), "{refused}");
    let refused = proc.open_directory(Path::new("cwd")).unwrap_err();
    assert!([Errno::ELOOP, Errno::EACCES].contains(&refused), "{refused}");
}

#[test]
fn only_regular_files_are_opened_and_nothing_blocks() {
    let folder = folder();
    let root = folder.grant("root", Access::ReadWrite);
    let fifo = std::process::Command::new("mkfifo").arg(folder.path("root/fifo")).status().unwrap();
    assert!(fifo.success());
    let _socket = std::os::unix::net::UnixListener::bind(folder.path("root/socket")).unwrap();
    for options in [READ, CREATE] {
        assert_eq!(root.open_file(Path::new("fifo"), options).unwrap_err(), Errno::EPERM);
    }
    assert_eq!(root.open_file(Path::new("socket"), READ).unwrap_err(), Errno::ENXIO);
    assert_eq!(root.open_file(Path::new("dir"), READ).unwrap_err(), Errno::EISDIR);
    let devices = sinew_fd::Directory::grant(Path::new("/dev"), Access::ReadWrite).unwrap();
    assert_eq!(devices.open_file(Path::new("null"), CREATE).unwrap_err(), Errno::EPERM);
    assert_eq!(devices.open_file(Path::new("zero"), READ).unwrap_err(), Errno::EPERM);
}

#[test]
fn a_directory_that_is_swapped_for_a_link_meanwhile_does_not_lead_outside() {
    let folder = folder();
    std::fs::create_dir(folder.path("outside")).unwrap();
    std::fs::write(folder.path("outside/file"), "secret").unwrap();
    symlink("../outside", folder.path("root/link")).unwrap();
    let root = folder.grant("root", Access::ReadWrite);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (dir, link) = (folder.path("root/dir"), folder.path("root/link"));
            let spare = folder.path("root/spare");
            while !over.load(Ordering::Relaxed) {
                for (from, to) in [(&dir, &spare), (&link, &dir), (&dir, &link), (&spare, &dir)] {
                    std::fs::rename(from, to).unwrap();
                }
            }
        });
        for _ in 0..rounds(2_000) {
            if let Ok(file) = root.open_file(Path::new("dir/file"), READ) {
                let mut buffer = [0; 16];
                assert_eq!(file.read(&mut buffer), Ok(6));
                assert_eq!(&buffer[..6], b"public");
            }
            let _ = root.create_directory(Path::new("dir/made"));
            let _ = root.open_file(Path::new("dir/written"), CREATE);
        }
        over.store(true, Ordering::Relaxed);
    });
    let outside: Vec<_> = std::fs::read_dir(folder.path("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1, "nothing was made outside: {outside:?}");
}
