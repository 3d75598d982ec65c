//! What can go wrong before a guest runs.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The thread that ends the slices of guests could not be started.
    #[error("cannot start the thread that ticks guests: {0}; end some threads, or raise the system's limit")]
    Thread(#[source] io::Error),
    /// The compiler does not support this machine.
    #[error("WebAssembly is not supported here: {0}")]
    Unsupported(String),
    /// The folder of the cache cannot be used.
    #[error("cannot cache compiled modules in {}: {error}", folder.display())]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// Why, and what to do.
        #[source]
        error: CacheFolderError,
    },
}

/// Why a folder cannot hold the cache of compiled modules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheFolderError {
    /// It is a symbolic link.
    #[error("it is a symbolic link; give the path of the folder that it leads to")]
    Link,
    /// It is a file, or something else.
    #[error("it is not a folder; give another path, or remove it")]
    NotAFolder,
    /// It belongs to another user, who could change the code in it.
    #[error("it belongs to user {owner}, and this process runs as user {user}; give a folder of user {user}")]
    OtherOwner {
        /// The user to whom it belongs.
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// Other users can enter it, or its owner cannot.
    #[error("its mode is {mode:04o}, and has to be 0700; change that with chmod, or remove it")]
    Mode {
        /// The permission bits that it has.
        mode: u32,
    },
    /// It cannot be opened or created.
    #[error("{0}; give a path at which this process can create a folder")]
    System(#[from] io::Error),
}

impl EngineError {
    pub(crate) fn new(error: wasmtime::Error) -> EngineError {
        EngineError::Unsupported(format!("{error:#}"))
    }
}

/// Why a module was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// It is not a valid module.
    #[error("module {module:?} is not valid WebAssembly: {error}")]
    Invalid {
        /// The name of the module.
        module: Box<str>,
        /// What is wrong with it, and where.
        error: String,
    },
    /// It is a valid module, but not an actor: each fault of its imports and exports.
    #[error("module {module:?} cannot run as an actor:\n{}", Listed(faults))]
    NotAnActor {
        /// The name of the module.
        module: Box<str>,
        /// What is missing, or has another type.
        faults: Vec<String>,
    },
    /// There is no engine for its stack class.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The task that loads it was cancelled, or must not block.
    #[error(transparent)]
    Blocking(#[from] sinew_io::BlockingError),
}

/// One fault a line.
struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            write!(f, "{separator}  - {fault}")?;
        }
        Ok(())
    }
}
