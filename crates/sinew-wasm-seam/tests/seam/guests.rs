//! Guests: an engine whose memory is ours, and the one host function that waits.

use std::sync::Arc;

use sinew_chan::chan::{self, Receiver, Sender};
use wasmtime::{Caller, Config, Engine, Linker, Module, Store, TypedFunc};

use crate::slabs::{Count, Memories, Stacks};
use crate::support::Counted;

/// What a guest's stack has in all, and what its own code may use of it; the rest is for host functions, whose frames
/// are large without optimisation.
pub(crate) const STACK: usize = 128 << 10;
pub(crate) const GUEST_STACK: usize = 32 << 10;

/// What a memory may grow to.
pub(crate) const MEMORY: usize = 256 << 10;

/// An engine, whose guests yield when it is ticked, its host functions, and what it has of our slabs.
pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<Guest>,
    pub(crate) stacks: Arc<Count>,
    pub(crate) memories: Arc<Count>,
}

impl Host {
    pub(crate) fn new() -> Host {
        Host::with(|_| ())
    }

    /// A host with other settings.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Host {
        let (stacks, memories) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut config = Config::new();
        config
            .memory_reservation(0)
            .memory_reservation_for_growth(0)
            .memory_guard_size(0)
            .guard_before_linear_memory(false)
            .memory_init_cow(false)
            .async_stack_size(STACK)
            .max_wasm_stack(GUEST_STACK)
            .epoch_interruption(true)
            .with_host_stack(Arc::new(Stacks(stacks.clone())))
            .with_host_memory(Arc::new(Memories { capacity: MEMORY, count: memories.clone() }));
        change(&mut config);
        let engine = Engine::new(&config).unwrap();
        let mut linker = Linker::new(&engine);
        linker.func_wrap_async("host", "wait", |caller, (n,)| Box::new(wait(caller, n))).unwrap();
        Host { engine, linker, stacks, memories }
    }

    pub(crate) fn module(&self, text: &str) -> Module {
        Module::new(&self.engine, text).unwrap()
    }

    /// A new instance of `module` for `guest`, and a call of its export `run`. The instance lives as long as the call.
    pub(crate) fn call(
        &self,
        module: &Module,
        guest: Guest,
        argument: i32,
    ) -> impl Future<Output = wasmtime::Result<i32>> + Send + 'static {
        let before = self.linker.instantiate_pre(module).unwrap();
        let mut store = Store::new(&self.engine, guest);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        async move {
            let instance = before.instantiate_async(&mut store).await?;
            let run: TypedFunc<i32, i32> = instance.get_typed_func(&mut store, "run")?;
            run.call_async(&mut store, argument).await
        }
    }

    /// What is out of our slabs: stacks, and memories.
    pub(crate) fn out(&self) -> (usize, usize) {
        (self.stacks.out(), self.memories.out())
    }
}

type OnWait = Box<dyn FnMut(i32) + Send>;

/// What the host has for a guest.
pub(crate) struct Guest {
    gate: Receiver<i32>,
    on_wait: OnWait,
    held: Option<Counted>,
}

impl Guest {
    /// A guest, and the gate that its calls of `wait` are answered through.
    pub(crate) fn new() -> (Guest, Sender<i32>) {
        let (sender, gate) = chan::bounded(1);
        (Guest::at(gate), sender)
    }

    /// A guest at a gate.
    pub(crate) fn at(gate: Receiver<i32>) -> Guest {
        Guest { gate, on_wait: Box::new(|_| ()), held: None }
    }

    /// Calls `on_wait` with the guest's argument at the beginning of each wait.
    pub(crate) fn on_wait(self, on_wait: impl FnMut(i32) + Send + 'static) -> Guest {
        Guest { on_wait: Box::new(on_wait), ..self }
    }

    /// A resource that belongs to the guest's next wait.
    pub(crate) fn holding(self, held: Counted) -> Guest {
        Guest { held: Some(held), ..self }
    }
}

/// `host.wait(n: i32) -> i32`: waits for what comes through the guest's gate.
async fn wait(mut caller: Caller<'_, Guest>, n: i32) -> wasmtime::Result<i32> {
    let guest = caller.data_mut();
    (guest.on_wait)(n);
    let _held = guest.held.take();
    Ok(guest.gate.recv_async().await?)
}
