//! The engine: what guests of one process share.
//!
//! wasmtime fixes the size of stacks per engine, so there is one of its engines for each stack class,
//! made when a guest first needs it. They generate the same code: a module is compiled once, and loaded
//! into the other classes from its serialized form.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sinew_kernel::ActorId;
use sinew_sync::statics::OnceLock;
use wasmtime::Config;

use crate::cache::{Cache, CacheStats};
use crate::class::StackClass;
use crate::cpu_times::CpuTimes;
use crate::error::EngineError;
use crate::memory_budget::MemoryBudget;
use crate::slabs::{Memories, Stacks};
use crate::ticker::Ticker;

/// Frames of a guest that a failure names.
const BACKTRACE_FRAMES: usize = 20;

/// Compiles modules and runs guests. Cloning it gives another handle to the same engine.
///
/// ```
/// use sinew_kernel::{Kind, Node};
/// use sinew_wasm::{Engine, WasmNode};
///
/// let engine = Engine::new()?;
/// let module = engine.module("quiet", r#"(module
///     (func (export "handle_message") (param i32 i64 i32 i32) (result i32)
///         i32.const 0))"#)?; // it stops at its first message
///
/// let node = Node::new();
/// let quiet = node.wasm(&module).spawn()?;
/// node.send(quiet.id(), Kind(1), b"hello".as_slice())?;
/// assert_eq!(quiet.join()?.to_string(), "normal");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    classes: [OnceLock<wasmtime::Engine>; StackClass::ALL.len()],
    pub(crate) cache: Option<Cache>,
    pub(crate) ticker: Ticker,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) cpu_times: Arc<CpuTimes>,
    /// Failures name source lines.
    pub(crate) source_lines: bool,
}

/// The options of an [`Engine`].
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `build`"]
pub struct EngineBuilder {
    memory: usize,
    cache: Option<PathBuf>,
    source_lines: bool,
}

impl Engine {
    /// Creates an engine with default options.
    ///
    /// # Errors
    ///
    /// If no thread can be started, or the processor is not supported.
    pub fn new() -> Result<Engine, EngineError> {
        Engine::builder().build()
    }

    /// Returns the options of an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder { memory: usize::MAX, cache: None, source_lines: false }
    }

    /// Returns the CPU time that a guest has used; `None` if there is no such guest. It is counted at the
    /// ticks that hit the guest, a millisecond apart.
    pub fn cpu_time(&self, guest: ActorId) -> Option<Duration> {
        self.0.cpu_times.get(guest)
    }

    /// Returns the bytes of linear memory and tables that all guests have now.
    pub fn memory_used(&self) -> usize {
        self.0.memory.used()
    }

    /// Returns the counters of the cache; `None` if the engine has [none](EngineBuilder::cache).
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.0.cache.as_ref().map(Cache::stats)
    }
}

impl EngineBuilder {
    /// Limits the bytes of linear memory and tables of all guests together. A guest that would exceed
    /// it does not start, and one that runs gets no more. Not limited by default.
    pub fn memory(mut self, bytes: usize) -> EngineBuilder {
        self.memory = bytes;
        self
    }

    /// Keeps compiled modules in `folder`, so that they load without being compiled again, also in
    /// other processes. No modules are kept by default.
    ///
    /// The files are native code, which loading them runs. So the folder must belong to the effective
    /// user of the process, and have mode 0700; it is created so if it is missing. A file that
    /// somebody else could have written, or that is damaged, is ignored and replaced.
    ///
    /// Files are never removed. A user may remove them at any time.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> EngineBuilder {
        self.cache = Some(folder.into());
        self
    }

    /// Has failures of guests name source lines, if their modules have debug information (DWARF). Off by
    /// default: reading it takes memory and time that no limit bounds, so turn it on for modules that you trust.
    /// Modules that guests spawn have none.
    pub fn source_lines(mut self, source_lines: bool) -> EngineBuilder {
        self.source_lines = source_lines;
        self
    }

    /// Creates the engine.
    ///
    /// # Errors
    ///
    /// As for [`Engine::new`], and if the folder of the [cache](EngineBuilder::cache) cannot be used.
    pub fn build(self) -> Result<Engine, EngineError> {
        // Fails here, and not at the first guest.
        let first = wasmtime::Engine::new(&config(StackClass::None)).map_err(EngineError::new)?;
        let open = |folder: PathBuf| {
            Cache::open(&folder, &first).map_err(|error| EngineError::Cache { folder, error })
        };
        let inner = Inner {
            cache: self.cache.map(open).transpose()?,
            classes: [const { OnceLock::new() }; StackClass::ALL.len()],
            ticker: Ticker::start().map_err(EngineError::Thread)?,
            memory: Arc::new(MemoryBudget::new(self.memory)),
            cpu_times: Arc::default(),
            source_lines: self.source_lines,
        };
        inner.tick(&first);
        let _ = inner.classes[StackClass::None as usize].set(first); // it is the first
        Ok(Engine(Arc::new(inner)))
    }
}

impl Inner {
    /// The engine of this class.
    pub(crate) fn class(&self, class: StackClass) -> Result<&wasmtime::Engine, EngineError> {
        let cell = &self.classes[class as usize];
        if cell.get().is_none() {
            let engine = wasmtime::Engine::new(&config(class)).map_err(EngineError::new)?;
            if cell.set(engine).is_ok() {
                self.tick(&self.classes[class as usize].get().expect("it was set").clone());
            }
        }
        Ok(cell.get().expect("it was set, here or by another"))
    }

    fn tick(&self, engine: &wasmtime::Engine) {
        let weak = engine.weak();
        self.ticker.add(move || {
            weak.upgrade().is_some_and(|engine| {
                engine.increment_epoch();
                true
            })
        });
    }
}

/// The settings of a class; those that change the generated code are the same for all.
fn config(class: StackClass) -> Config {
    let mut config = Config::new();
    config
        .memory_reservation(0)
        .memory_reservation_for_growth(0)
        .memory_guard_size(0)
        .guard_before_linear_memory(false)
        .memory_init_cow(false)
        .memory_may_move(true)
        .async_stack_size(class.stack_bytes())
        .max_wasm_stack(class.wasm_bytes())
        .epoch_interruption(true)
        .wasm_backtrace_max_frames(NonZero::new(BACKTRACE_FRAMES))
        .with_host_stack(Arc::new(Stacks))
        .with_host_memory(Arc::new(Memories));
    config
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("memory_used", &self.memory_used()).finish_non_exhaustive()
    }
}
