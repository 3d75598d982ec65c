//! A folder for a test, which is removed at its end, and the log of a node.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sinew_kernel::Node;

/// A folder that is removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sinew-wasm-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    pub(crate) fn write(&self, below: &str, text: &str) {
        std::fs::write(self.path(below), text).unwrap();
    }

    pub(crate) fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.path(below)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a node has logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// A node whose log is kept.
    pub(crate) fn node() -> (Node, Log) {
        let log = Log::default();
        (Node::builder().log_to(log.clone()).build().unwrap(), log)
    }

    /// The lines so far, as `LEVEL text`, without times and ids.
    pub(crate) fn lines(&self, node: &Node) -> Vec<String> {
        node.logger().flush().unwrap();
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let line = |line: &str| {
            let (_, rest) = line.split_once("] ")?;
            let (level, rest) = rest.split_once(" [")?;
            Some(format!("{level} {}", rest.split_once("] ")?.1))
        };
        text.lines().filter_map(line).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
