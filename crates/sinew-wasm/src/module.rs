//! Modules: compiled once, checked, and linked for the stack classes that their guests have.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use sinew_sync::statics::OnceLock;
use wasmtime::{ExternType, FuncType, InstancePre, Linker, ValType};

use crate::class::StackClass;
use crate::debug_info::DebugInfo;
use crate::engine::{Engine, Inner as EngineInner};
use crate::error::LoadError;
use crate::host::{self, HostCall};
use crate::state::GuestState;

/// A compiled module that can run as an actor. Cloning it gives another handle to the same module.
///
/// There are two forms:
///
/// - An actor exports `handle_message(kind i32, source i64, ptr i32, len i32) -> i32`, which is called
///   for each message. It stays if that returns anything but zero, and stops with zero.
/// - A program exports `_start`, which is called once.
#[derive(Clone)]
pub struct Module(Arc<Inner>);

struct Inner {
    engine: Engine,
    name: Arc<str>,
    /// As compiled by the engine of class NONE.
    compiled: wasmtime::Module,
    form: Form,
    debug: Option<sinew_sync::Arc<DebugInfo>>,
    /// The host calls that it imports, in the order of its imports.
    imports: Vec<&'static HostCall>,
    linked: [OnceLock<InstancePre<GuestState>>; StackClass::ALL.len()],
}

/// Who loads a module. Those of guests are not stored in the cache: a guest must not fill the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Host,
    Guest,
}

/// What a module exports to be run by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Actor,
    Program,
}

impl Engine {
    /// Loads a module from `source`: WebAssembly, binary or as text. `name` is how errors and traces
    /// call it.
    ///
    /// Compiling takes from a millisecond to seconds. A task is suspended meanwhile.
    ///
    /// # Errors
    ///
    /// If it is not valid, or cannot run as an actor: then each missing or mistyped import and export
    /// is named.
    pub fn module(&self, name: &str, source: impl AsRef<[u8]>) -> Result<Module, LoadError> {
        let (engine, name, source) = (self.clone(), Box::from(name), Vec::from(source.as_ref()));
        sinew_io::blocking(move || Module::compile(engine, name, &source, Origin::Host))?
    }

    /// [`module`](Engine::module) for a guest that spawns it.
    pub(crate) async fn module_async(&self, name: Box<str>, source: Vec<u8>) -> Result<Module, LoadError> {
        let engine = self.clone();
        sinew_io::blocking_async(move || {
            let module = Module::compile(engine, name, &source, Origin::Guest)?;
            module.link(module.default_class())?; // here, and not on the stack of the guest
            Ok(module)
        })
        .await?
    }

    /// Loads a module from a file, `.wasm` or `.wat`. It is called by the name of the file without its
    /// ending.
    ///
    /// # Errors
    ///
    /// If the file cannot be read; otherwise as for [`module`](Engine::module).
    pub fn module_file(&self, path: impl AsRef<Path>) -> Result<Module, LoadError> {
        let (engine, path) = (self.clone(), path.as_ref().to_owned());
        sinew_io::blocking(move || {
            let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into();
            let source = std::fs::read(&path).map_err(|error| LoadError::File { path, error })?;
            Module::compile(engine, name, &source, Origin::Host)
        })?
    }
}

impl Module {
    fn compile(
        engine: Engine,
        name: Box<str>,
        source: &[u8],
        origin: Origin,
    ) -> Result<Module, LoadError> {
        let compiled = load_or_compile(&engine.0, engine.0.class(StackClass::None)?, source, origin)
            .map_err(|error| LoadError::Invalid { module: name.clone(), error: format!("{error:#}") })?;
        let mut faults = Vec::new();
        let form = check_exports(&compiled, &mut faults);
        let imports = check_imports(&compiled, &mut faults);
        let Some(form) = form.filter(|_| faults.is_empty()) else {
            return Err(LoadError::NotAnActor { module: name, faults });
        };
        let (debug, linked) = (debug_info(&engine, source, origin), [const { OnceLock::new() }; StackClass::ALL.len()]);
        let name = name.into();
        Ok(Module(Arc::new(Inner { engine, name, compiled, form, debug, imports, linked })))
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the host calls that it imports, as `module.name`.
    pub fn imports(&self) -> impl Iterator<Item = String> + '_ {
        self.0.imports.iter().map(|call| format!("{}.{}", call.module, call.name))
    }

    /// Returns those of its [imports](Module::imports) that always fail with `ENOSYS`: calls of WASI that Sinew does not
    /// implement. A program that imports one may still run, since most are used by few programs.
    pub fn unsupported_imports(&self) -> impl Iterator<Item = String> + '_ {
        self.0.imports.iter().filter(|call| host::is_unsupported(call)).map(ToString::to_string)
    }

    /// Returns the stack class that its guests have by default.
    pub fn default_class(&self) -> StackClass {
        match self.0.form {
            Form::Program => StackClass::Huge,
            Form::Actor if self.0.imports.iter().any(|call| call.can_block) => StackClass::Small,
            Form::Actor => StackClass::None,
        }
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.0.name.clone()
    }

    pub(crate) fn form(&self) -> Form {
        self.0.form
    }

    pub(crate) fn debug_info(&self) -> Option<&DebugInfo> {
        self.0.debug.as_deref()
    }

    pub(crate) fn engine(&self) -> &EngineInner {
        &self.0.engine.0
    }

    pub(crate) fn engine_handle(&self) -> &Engine {
        &self.0.engine
    }

    /// The module linked for a class, once.
    pub(crate) fn link(&self, class: StackClass) -> Result<InstancePre<GuestState>, LoadError> {
        let cell = &self.0.linked[class as usize];
        if let Some(linked) = cell.get() {
            return Ok(linked.clone());
        }
        let linked = self.link_anew(class)?;
        Ok(cell.get_or_init(|| linked).clone())
    }

    fn link_anew(&self, class: StackClass) -> Result<InstancePre<GuestState>, LoadError> {
        let not_an_actor = |faults| LoadError::NotAnActor { module: (&*self.0.name).into(), faults };
        if !class.can_block() {
            let void = |call: &&&HostCall| call.can_block && call.results.is_empty();
            let faults: Vec<String> = self.0.imports.iter().filter(void).map(|call| {
                format!("import {call} cannot report that it must not block: give the guest a stack class, or import the form that returns i32")
            }).collect();
            if !faults.is_empty() {
                return Err(not_an_actor(faults));
            }
        }
        let failed = |error: wasmtime::Error| not_an_actor(vec![format!("{error:#}")]);
        let engine = self.0.engine.0.class(class)?;
        let module = if class == StackClass::None {
            self.0.compiled.clone()
        } else {
            let bytes = self.0.compiled.serialize().map_err(failed)?;
            // SAFETY: the bytes are those of a module that this process has compiled, unchanged.
            unsafe { wasmtime::Module::deserialize(engine, bytes) }.map_err(failed)?
        };
        let mut linker = Linker::new(engine);
        linker.allow_shadowing(true); // a call may be imported twice
        for call in &self.0.imports {
            (call.link)(&mut linker, class.can_block()).map_err(failed)?;
        }
        linker.instantiate_pre(&module).map_err(failed)
    }
}

/// Loads the module from the cache of the engine, or compiles it and stores it there.
fn load_or_compile(
    engine: &EngineInner,
    of_class: &wasmtime::Engine,
    source: &[u8],
    origin: Origin,
) -> wasmtime::Result<wasmtime::Module> {
    let Some(cache) = &engine.cache else {
        return wasmtime::Module::new(of_class, source);
    };
    let key = cache.key(source);
    let stored = cache.find(&key, |code| {
        // SAFETY: the code is what `serialize` returned for an engine with the same fingerprint, stored
        // below by a process of our own user. Nobody else can have written it: its folder has mode 0700
        // and it is a file of ours that nobody else can write to. It is unchanged: its SHA-256 was
        // verified on these very bytes. The module `cache` checks all of that before it makes a
        // `TrustedCode`.
        unsafe { wasmtime::Module::deserialize(of_class, code.bytes()) }.ok()
    });
    if let Some(module) = stored {
        return Ok(module);
    }
    let module = wasmtime::Module::new(of_class, source)?;
    if origin == Origin::Host {
        cache.store(&key, module.serialize().map_err(io::Error::other));
    }
    Ok(module)
}

/// The source lines of a module, if they are wanted.
fn debug_info(engine: &Engine, source: &[u8], origin: Origin) -> Option<sinew_sync::Arc<DebugInfo>> {
    if engine.0.source_lines && origin == Origin::Host { DebugInfo::of(source) } else { None }
}

/// What it is run by. Notes each fault.
fn check_exports(module: &wasmtime::Module, faults: &mut Vec<String>) -> Option<Form> {
    let expected = "handle_message(i32, i64, i32, i32) -> i32";
    let form = match (module.get_export("handle_message"), module.get_export("_start")) {
        (Some(found), _) => {
            use ValType::{I32, I64};
            if !is_function(&found, &[I32, I64, I32, I32], &[I32]) {
                faults.push(format!("export handle_message is {}, expected {expected}", shown(&found)));
            }
            Some(Form::Actor)
        }
        (None, Some(found)) => {
            if !is_function(&found, &[], &[]) {
                faults.push(format!("export _start is {}, expected _start()", shown(&found)));
            }
            Some(Form::Program)
        }
        (None, None) => {
            faults.push(format!("no export handle_message: an actor exports {expected}, a program _start()"));
            None
        }
    };
    for (name, params, results) in [
        ("_initialize", &[][..], &[][..]),
        ("mk_alloc", &[ValType::I32], &[ValType::I32]),
        ("mk_free", &[ValType::I32], &[]),
    ] {
        if let Some(found) = module.get_export(name)
            && !is_function(&found, params, results)
        {
            faults.push(format!(
                "export {name} is {}, expected {}",
                shown(&found),
                signature(name, params, results)
            ));
        }
    }
    match module.get_export("memory") {
        Some(ExternType::Memory(memory)) if memory.is_64() || memory.is_shared() => {
            faults.push("export memory is 64-bit or shared, expected a memory of wasm32".to_owned());
        }
        Some(ExternType::Memory(_)) | None => (),
        Some(other) => faults.push(format!("export memory is {}, expected a memory", shown(&other))),
    }
    form
}

/// The host calls that it imports. Notes each fault.
fn check_imports(module: &wasmtime::Module, faults: &mut Vec<String>) -> Vec<&'static HostCall> {
    let mut calls = Vec::new();
    for import in module.imports() {
        let name = format!("{}.{}", import.module(), import.name());
        let ExternType::Func(found) = import.ty() else {
            faults.push(format!("import {name} is {}: guests import functions only", shown(&import.ty())));
            continue;
        };
        let forms: Vec<&HostCall> = host::find(import.module(), import.name()).collect();
        if let Some(call) = forms.iter().find(|call| is_signature(&found, call.params, call.results)) {
            calls.push(*call);
        } else if let Some(sentence) = host::not_yet(import.module(), import.name()) {
            faults.push(format!("import {name}: {sentence}"));
        } else if forms.is_empty() {
            faults.push(format!("import {name} is not known"));
        } else {
            let expected: Vec<String> =
                forms.iter().map(|call| signature("", call.params, call.results)).collect();
            faults.push(format!(
                "import {name} is {}, expected {}",
                shown(&import.ty()),
                expected.join(" or ")
            ));
        }
    }
    calls
}

fn is_function(found: &ExternType, params: &[ValType], results: &[ValType]) -> bool {
    matches!(found, ExternType::Func(function) if is_signature(function, params, results))
}

fn is_signature(found: &FuncType, params: &[ValType], results: &[ValType]) -> bool {
    let same = |found: &mut dyn Iterator<Item = ValType>, wanted: &[ValType]| {
        let found: Vec<ValType> = found.collect();
        found.len() == wanted.len()
            && found.iter().zip(wanted).all(|(found, wanted)| ValType::eq(found, wanted))
    };
    same(&mut found.params(), params) && same(&mut found.results(), results)
}

/// The type of an import or export, for people.
fn shown(of: &ExternType) -> String {
    match of {
        ExternType::Func(function) => {
            let (params, results): (Vec<_>, Vec<_>) =
                (function.params().collect(), function.results().collect());
            signature("", &params, &results)
        }
        ExternType::Global(_) => "a global".to_owned(),
        ExternType::Table(_) => "a table".to_owned(),
        ExternType::Memory(_) => "a memory".to_owned(),
        ExternType::Tag(_) => "a tag".to_owned(),
    }
}

fn signature(name: &str, params: &[ValType], results: &[ValType]) -> String {
    let list = |types: &[ValType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match results {
        [] => format!("{name}({})", list(params)),
        results => format!("{name}({}) -> {}", list(params), list(results)),
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("name", &self.0.name)
            .field("form", &self.0.form)
            .finish_non_exhaustive()
    }
}
