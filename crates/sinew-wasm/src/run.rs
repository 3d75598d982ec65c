//! The life of a guest: one future, from its instance to its end.
//!
//! Each message is one call of the guest's export. The call of a guest that may block runs on a stack of
//! its own, which wasmtime leaves while a host call waits; the future is pending then, and its next poll
//! may be on any worker. A guest without a stack is called on the worker's.

use std::pin::pin;
use std::sync::Arc;

use sinew_kernel::raw::Inbox;
use sinew_kernel::{ExitReason, Flow, Message};
use wasmtime::{AsContextMut, Instance, InstancePre, Memory, Store, TypedFunc};

use crate::cpu;
use crate::failure::{During, HostExit, reason};
use crate::module::{Form, Module};
use crate::profile::Profile;
use crate::state::GuestState;

/// A guest that is linked, and can be instantiated any number of times.
pub(crate) struct Linked {
    pub(crate) module: Module,
    pub(crate) profile: Arc<Profile>,
    pub(crate) instance: InstancePre<GuestState>,
}

type HandleMessage = TypedFunc<(i32, i64, i32, i32), i32>;

/// Runs a guest to its end. It is ticked while it is polled.
pub(crate) async fn run_guest(guest: Arc<Linked>, inbox: Inbox) -> Flow {
    let ticked = guest.clone();
    let mut life = pin!(live(guest, inbox));
    std::future::poll_fn(move |context| {
        let _ticks = ticked.module.engine().ticker.enter();
        cpu::begin_poll();
        life.as_mut().poll(context)
    })
    .await
}

async fn live(linked: Arc<Linked>, inbox: Inbox) -> Flow {
    let module = &linked.module;
    let mut guest = match Instantiated::new(&linked, &inbox).await {
        Ok(guest) => guest,
        Err(error) => return Flow::Exit(reason(&error, During::Start, module.debug_info())),
    };
    inbox.started();
    if guest.form == Form::Program {
        return guest.run_program(module).await;
    }
    loop {
        let message = inbox.recv().await;
        let during = During::Message(message.kind, message.source);
        match guest.handle(message).await {
            Ok(0) => return Flow::Stop,
            Ok(_) => (),
            Err(error) => return Flow::Exit(reason(&error, during, module.debug_info())),
        }
    }
}

/// An instance of a guest.
struct Instantiated {
    store: Store<GuestState>,
    form: Form,
    can_block: bool,
    handle_message: Option<HandleMessage>,
    instance: Instance,
    payloads: Payloads,
}

/// Where the payloads of messages are placed.
enum Payloads {
    /// The module has no memory, and gets their length only.
    Nowhere,
    /// Through the module's own allocator.
    Allocated { alloc: TypedFunc<i32, i32>, free: TypedFunc<i32, ()> },
    /// In an area that the host has added to the memory.
    Area { start: usize, size: usize },
}

const WASM_PAGE: usize = 64 << 10;

/// The lowest address of a payload: a pointer of zero means that there is none.
const LOWEST_PAYLOAD: usize = 16;

impl Instantiated {
    async fn new(linked: &Linked, inbox: &Inbox) -> wasmtime::Result<Instantiated> {
        let Linked { module, profile, instance: pre } = linked;
        let can_block = profile.options.class.can_block();
        let mut state = GuestState::new(profile.clone(), inbox.clone());
        state.open_directories().await?;
        let mut store = Store::new(pre.module().engine(), state);
        store.limiter(|state| state);
        store.epoch_deadline_callback(GuestState::tick);
        reset_deadline(&mut store);
        let instance =
            if can_block { pre.instantiate_async(&mut store).await? } else { pre.instantiate(&mut store)? };
        store.data_mut().memory = instance.get_memory(&mut store, "memory");
        let form = module.form();
        let handle_message = match form {
            Form::Actor => Some(instance.get_typed_func(&mut store, "handle_message")?),
            Form::Program => None,
        };
        let payloads = Payloads::Nowhere;
        let mut guest = Instantiated { store, form, can_block, handle_message, instance, payloads };
        if guest.form == Form::Actor {
            guest.initialize().await?;
        }
        guest.store.data_mut().cpu.started();
        Ok(guest)
    }

    /// Prepares an actor for its messages, and calls `_initialize`.
    async fn initialize(&mut self) -> wasmtime::Result<()> {
        let (instance, store) = (self.instance, &mut self.store);
        self.payloads = Payloads::of(&instance, store)?;
        if let Ok(initialize) = instance.get_typed_func::<(), ()>(&mut *store, "_initialize") {
            call(&mut self.store, self.can_block, &initialize, ()).await?;
        }
        Ok(())
    }

    /// Has the guest handle a message. It stays unless that is zero.
    async fn handle(&mut self, Message { source, kind, payload, .. }: Message) -> wasmtime::Result<i32> {
        self.store.data_mut().begin_message(source, kind);
        let len = payload.bytes().len();
        let start = if len == 0 { 0 } else { self.room(len).await? };
        if start != 0 {
            self.copy(start, payload.bytes())?;
        }
        drop(payload);
        // Both fit: `room` has seen to it, and without a memory nobody uses the length.
        let (ptr, len) = ((start as u32).cast_signed(), (len as u32).cast_signed());
        let function = self.handle_message.as_ref().expect("an actor has it");
        let params = (kind.0.cast_signed(), source.as_u64().cast_signed(), ptr, len);
        let stays = call(&mut self.store, self.can_block, function, params).await?;
        if ptr != 0
            && stays != 0
            && let Payloads::Allocated { free, .. } = &self.payloads
        {
            call(&mut self.store, self.can_block, free, ptr).await?;
        }
        Ok(stays)
    }

    /// The address in the guest's memory for a payload of `len` bytes, or zero if it has no memory.
    async fn room(&mut self, len: usize) -> wasmtime::Result<usize> {
        match &self.payloads {
            Payloads::Nowhere => Ok(0),
            Payloads::Area { start, size } if len <= *size => Ok(*start),
            Payloads::Area { size, .. } => Err(too_large(len, *size)),
            Payloads::Allocated { alloc, .. } => {
                let wanted = i32::try_from(len).map_err(|_| too_large(len, i32::MAX as usize))?;
                let start = call(&mut self.store, self.can_block, alloc, wanted).await?;
                if start == 0 {
                    let text = format!("its allocator has no room for a payload of {len} bytes");
                    return Err(HostExit::Limit(text).into());
                }
                Ok(start.cast_unsigned() as usize)
            }
        }
    }

    /// Copies a payload into the guest's memory.
    fn copy(&mut self, start: usize, bytes: &[u8]) -> wasmtime::Result<()> {
        let memory = self.store.data().memory.expect("payloads are placed in it");
        let place =
            memory.data_mut(&mut self.store).get_mut(start..).and_then(|rest| rest.get_mut(..bytes.len()));
        let Some(place) = place else {
            wasmtime::bail!("its allocator returned {start:#x}, which has no room for {} bytes", bytes.len());
        };
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// Runs a program to its end.
    async fn run_program(&mut self, module: &Module) -> Flow {
        let start = self.instance.get_typed_func::<(), ()>(&mut self.store, "_start");
        let ended = match start {
            Ok(start) => call(&mut self.store, self.can_block, &start, ()).await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => Flow::Stop,
            Err(error) => match reason(&error, During::Program, module.debug_info()) {
                ExitReason::Normal => Flow::Stop,
                reason => Flow::Exit(reason),
            },
        }
    }
}

impl Payloads {
    fn of(instance: &Instance, store: &mut Store<GuestState>) -> wasmtime::Result<Payloads> {
        let Some(memory) = store.data().memory else { return Ok(Payloads::Nowhere) };
        for (alloc, free) in [("mk_alloc", "mk_free"), ("malloc", "free")] {
            let alloc = instance.get_typed_func(&mut *store, alloc);
            let free = instance.get_typed_func(&mut *store, free);
            if let (Ok(alloc), Ok(free)) = (alloc, free) {
                return Ok(Payloads::Allocated { alloc, free });
            }
        }
        Payloads::add_area(memory, store)
    }

    /// Adds an area to the end of the memory.
    fn add_area(memory: Memory, store: &mut Store<GuestState>) -> wasmtime::Result<Payloads> {
        let size = store.data().profile.options.limits.payload_area;
        let end = memory.data_size(&*store);
        let start = end.max(LOWEST_PAYLOAD);
        let grown = (start + size - end).div_ceil(WASM_PAGE) as u64;
        if size > 0 && memory.grow(store.as_context_mut(), grown).is_err() {
            let text = format!(
                "its memory cannot grow by the {size} bytes of the area for payloads; let the module export \
                 `mk_alloc` and `mk_free`, or declare a larger maximum, or raise its limit of memory"
            );
            return Err(HostExit::Limit(text).into());
        }
        Ok(Payloads::Area { start, size })
    }
}

/// Calls a function of a guest.
#[inline]
async fn call<P, R>(
    store: &mut Store<GuestState>,
    can_block: bool,
    function: &TypedFunc<P, R>,
    params: P,
) -> wasmtime::Result<R>
where
    P: wasmtime::WasmParams + Send + Sync,
    R: wasmtime::WasmResults + Send + Sync,
{
    reset_deadline(store);
    if can_block { function.call_async(store, params).await } else { function.call(store, params) }
}

/// The next tick hits the guest.
fn reset_deadline(store: &mut Store<GuestState>) {
    store.set_epoch_deadline(1);
    store.data_mut().cpu.deadline_set();
}

fn too_large(len: usize, room: usize) -> wasmtime::Error {
    HostExit::Limit(format!(
        "a payload of {len} bytes does not fit into the area of {room} for payloads; let the module export \
         `mk_alloc` and `mk_free`, or set a larger `Limits::payload_area`"
    ))
    .into()
}
