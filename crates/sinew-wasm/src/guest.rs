//! Guests before they run: a module, and what it may do.

use crate::class::StackClass;
use crate::grants::Grants;
use crate::limits::Limits;
use crate::module::Module;
use crate::profile::Options;

/// A module with the options of its guests. Each spawn makes a new instance of it.
///
/// ```
/// use sinew_wasm::{Engine, Grants, Guest, Limits, StackClass};
///
/// let engine = Engine::new()?;
/// let module = engine.module("stays", r#"(module
///     (func (export "handle_message") (param i32 i64 i32 i32) (result i32)
///         i32.const 1))"#)?;
/// Guest::new(&module).stack(StackClass::Medium).grants(Grants::none().see()).limits(Limits::default().memory(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a guest runs when it is spawned"]
pub struct Guest {
    pub(crate) module: Module,
    pub(crate) options: Options,
}

impl Guest {
    /// Returns a guest with the default options of `module`: no grants, default limits, and the stack
    /// class that its imports call for.
    pub fn new(module: &Module) -> Guest {
        let options = Options {
            class: module.default_class(),
            limits: Limits::default(),
            grants: Grants::none(),
            name: module.shared_name(),
            args: Vec::new(),
            env: Vec::new(),
        };
        Guest { module: module.clone(), options }
    }

    /// Sets the stack class. By default it is [`None`](StackClass::None) for a module that imports no
    /// call that can block, [`Huge`](StackClass::Huge) for a program, else [`Small`](StackClass::Small).
    pub fn stack(mut self, class: StackClass) -> Guest {
        self.options.class = class;
        self
    }

    /// Sets what it may take of the host.
    pub fn limits(mut self, limits: Limits) -> Guest {
        self.options.limits = limits;
        self
    }

    /// Sets what it may do beyond computing, receiving and logging.
    pub fn grants(mut self, grants: Grants) -> Guest {
        self.options.grants = grants;
        self
    }

    /// Sets the arguments of a program, after argument 0, which is the name of the module.
    pub fn args<A: Into<Box<str>>>(mut self, args: impl IntoIterator<Item = A>) -> Guest {
        self.options.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a variable of its environment. By default it has none: the environment of the host is never visible.
    pub fn env(mut self, name: impl Into<Box<str>>, value: impl Into<Box<str>>) -> Guest {
        let name = name.into();
        self.options.env.retain(|(other, _)| *other != name);
        self.options.env.push((name, value.into()));
        self
    }
}

impl From<&Module> for Guest {
    fn from(module: &Module) -> Guest {
        Guest::new(module)
    }
}
