//! Files and directories below a granted root.

use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sinew_fd::{Access, Directory, Errno, FdObject, FdTable, FileKind, Flags, OpenOptions};

/// A folder that is removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sinew-fd-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    pub(crate) fn grant(&self, below: &str, access: Access) -> Arc<Directory> {
        Directory::grant(&self.path(below), access).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) const READ: OpenOptions =
    OpenOptions { read: true, write: false, append: false, create: false, exclusive: false, truncate: false };
pub(crate) const CREATE: OpenOptions = OpenOptions { write: true, create: true, ..READ };

#[test]
fn a_file_is_written_read_and_moved_in() {
    let folder = Folder::new();
    let root = folder.grant("", Access::ReadWrite);
    let file = root.open_file(Path::new("a.txt"), CREATE).unwrap();
    assert_eq!(file.write(b"hello world"), Ok(11));
    assert_eq!(file.tell(), Ok(11));
    assert_eq!(file.seek(SeekFrom::Start(6)), Ok(6));
    let mut buffer = [0; 16];
    assert_eq!(file.read(&mut buffer), Ok(5));
    assert_eq!(&buffer[..5], b"world");
    assert_eq!(file.read(&mut buffer), Ok(0), "end of file");
    assert_eq!(file.seek(SeekFrom::End(-5)), Ok(6));
    assert_eq!(file.seek(SeekFrom::Current(-7)), Err(Errno::EINVAL));
    assert_eq!(file.write_at(b"HELLO", 0), Ok(5));
    assert_eq!(file.read_at(&mut buffer, 3), Ok(8));
    assert_eq!(&buffer[..8], b"LO world");
    assert_eq!(file.tell(), Ok(6), "positioned calls do not move");
    file.truncate(5).unwrap();
    file.sync().unwrap();
    assert_eq!(file.stat().unwrap().size, 5);
    assert_eq!(std::fs::read(folder.path("a.txt")).unwrap(), b"HELLO");
}

#[test]
fn options_decide_how_a_file_is_opened() {
    let folder = Folder::new();
    let root = folder.grant("", Access::ReadWrite);
    let path = Path::new("a");
    assert_eq!(root.open_file(path, READ).unwrap_err(), Errno::ENOENT);
    root.open_file(path, CREATE).unwrap().write(b"one").unwrap();
    let exclusive = OpenOptions { exclusive: true, ..CREATE };
    assert_eq!(root.open_file(path, exclusive).unwrap_err(), Errno::EEXIST);
    let append = OpenOptions { append: true, ..READ };
    root.open_file(path, append).unwrap().write(b"two").unwrap();
    assert_eq!(std::fs::read(folder.path("a")).unwrap(), b"onetwo");
    let truncate = OpenOptions { truncate: true, write: true, ..OpenOptions::default() };
    let file = root.open_file(path, truncate).unwrap();
    assert_eq!(file.stat().unwrap().size, 0);
    assert_eq!(file.read(&mut [0; 4]), Err(Errno::EBADF), "it was opened for writing");
    assert_eq!(root.open_file(path, READ).unwrap().write(b"x"), Err(Errno::EBADF));
    for contradiction in [
        OpenOptions::default(),
        OpenOptions { create: true, ..READ },
        OpenOptions { truncate: true, ..READ },
        OpenOptions { write: true, exclusive: true, ..READ },
    ] {
        assert_eq!(root.open_file(path, contradiction).unwrap_err(), Errno::EINVAL);
    }
}

#[test]
fn directories_are_created_listed_renamed_and_removed() {
    let folder = Folder::new();
    let root = folder.grant("", Access::ReadWrite);
    root.create_directory(Path::new("a")).unwrap();
    root.create_directory(Path::new("a/b/")).unwrap();
    assert_eq!(root.create_directory(Path::new("a")), Err(Errno::EEXIST));
    root.open_file(Path::new("a/b/file"), CREATE).unwrap();
    let inner = root.open_directory(Path::new("a/b")).unwrap();
    let entries = inner.entries(0, 100).unwrap();
    assert_eq!((entries.len(), &entries[0].name[..], entries[0].kind), (1, &b"file"[..], FileKind::File));
    root.rename(Path::new("a/b/file"), &root, Path::new("moved")).unwrap();
    inner.rename(Path::new("gone"), &root, Path::new("x")).unwrap_err();
    assert_eq!(inner.entries(0, 100).unwrap(), []);
    let mut names: Vec<_> = root.entries(0, 100).unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    assert_eq!(names, [&b"a"[..], b"moved"]);
    assert_eq!(root.entries(1, 100).unwrap().len(), 1);
    assert_eq!(root.entries(0, 1).unwrap().len(), 1);
    assert_eq!(root.remove_directory(Path::new("a")), Err(Errno::ENOTEMPTY));
    assert_eq!(root.remove_file(Path::new("a")), Err(Errno::EISDIR));
    root.remove_directory(Path::new("a/b")).unwrap();
    root.remove_directory(Path::new("a")).unwrap();
    root.remove_file(Path::new("moved")).unwrap();
    assert_eq!(root.entries(0, 100).unwrap(), []);
    assert_eq!(root.stat(Path::new(".")).unwrap().kind, FileKind::Directory);
}

#[test]
fn a_read_only_grant_changes_nothing() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("dir")).unwrap();
    std::fs::write(folder.path("file"), "content").unwrap();
    let root = folder.grant("", Access::ReadOnly);
    let file = Path::new("file");
    assert_eq!(root.open_file(file, READ).unwrap().read(&mut [0; 16]), Ok(7));
    for options in [CREATE, OpenOptions { write: true, ..READ }, OpenOptions { append: true, ..READ }] {
        assert_eq!(root.open_file(file, options).unwrap_err(), Errno::EROFS);
        let inner = root.open_directory(Path::new("dir")).unwrap();
        assert_eq!(inner.open_file(file, options).unwrap_err(), Errno::EROFS, "inherited");
    }
    assert_eq!(root.create_directory(Path::new("new")), Err(Errno::EROFS));
    assert_eq!(root.remove_file(file), Err(Errno::EROFS));
    assert_eq!(root.remove_directory(Path::new("dir")), Err(Errno::EROFS));
    let writable = folder.grant("dir", Access::ReadWrite);
    assert_eq!(root.rename(file, &writable, file), Err(Errno::EROFS));
    writable.open_file(Path::new("x"), CREATE).unwrap();
    assert_eq!(writable.rename(Path::new("x"), &root, Path::new("x")), Err(Errno::EROFS));
    assert_eq!(std::fs::read(folder.path("file")).unwrap(), b"content");
}

#[test]
fn a_file_is_an_fd_that_is_always_ready() {
    let folder = Folder::new();
    let table = FdTable::new(16);
    let root = folder.grant("", Access::ReadWrite);
    let fd = table.open(root.open_file(Path::new("a"), CREATE).unwrap(), Flags::NONE).unwrap();
    assert_eq!(table.write(fd, b"abc"), Ok(3));
    assert_eq!(table.read(fd, &mut [0; 4]), Ok(0));
    let file = table.object_as::<sinew_fd::File>(fd).unwrap();
    table.close(fd).unwrap();
    assert_eq!(file.stat().unwrap_err(), Errno::EBADF);
    let directory = table.open(root.clone(), Flags::NONE).unwrap();
    assert_eq!(table.read(directory, &mut [0; 4]), Err(Errno::EISDIR));
    table.close(directory).unwrap();
    assert_eq!(root.stat(Path::new("a")).unwrap_err(), Errno::EBADF);
}
