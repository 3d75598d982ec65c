//! Arguments, environment, exit, random numbers, yielding.

use rustix::rand::{GetRandomFlags, getrandom};
use sinew_core::Errno;

use super::{Guest, Outcome, WASI, blocking_call, call, can_block};
use crate::failure::HostExit;
use crate::host::access::Access;
use crate::host::waiting::{SLEEP, wait, yield_once};
use crate::host::{HostCall, I32};

pub(in crate::host) const CALLS: &[HostCall] = &[
    // args_sizes_get(count*, size*): the number of arguments, and the bytes of all with their zeros. EFAULT.
    call!(args_sizes_get(count: i32, size: i32)),
    // args_get(list*, text*): the address of each argument, and the arguments, each with a zero. EFAULT.
    call!(args_get(list: i32, text: i32)),
    // environ_sizes_get(count*, size*): as args_sizes_get, for the variables that the guest was given. EFAULT.
    call!(environ_sizes_get(count: i32, size: i32)),
    // environ_get(list*, text*): as args_get, with `NAME=value`. EFAULT.
    call!(environ_get(list: i32, text: i32)),
    // random_get(buffer*, size): random bytes of the system. EFAULT; E2BIG for more than 1 MiB or `Limits::copy`.
    call!(random_get(buffer: i32, size: i32)),
    // sched_yield(): lets other actors run. EDEADLK without a stack.
    blocking_call!(sched_yield()),
    // proc_exit(code): ends the guest, normally with 0, else with the error "exit code N". Does not return.
    HostCall {
        module: WASI,
        name: "proc_exit",
        params: &[I32],
        results: &[],
        can_block: false,
        link: |linker, _| {
            let call = |_: Guest<'_>, code: i32| Err::<(), _>(HostExit::Code(code).into());
            linker.func_wrap(WASI, "proc_exit", call).map(drop)
        },
    },
];

fn arguments(caller: &mut Guest<'_>) -> Vec<Vec<u8>> {
    let options = &caller.state().profile.options;
    let args = options.args.iter().map(|arg| &**arg);
    std::iter::once(&*options.name).chain(args).map(with_zero).collect()
}

fn environment(caller: &mut Guest<'_>) -> Vec<Vec<u8>> {
    let variables = caller.state().profile.options.env.iter();
    variables.map(|(name, value)| with_zero(&format!("{name}={value}"))).collect()
}

fn with_zero(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn args_sizes_get(caller: &mut Guest<'_>, count: i32, size: i32) -> Outcome {
    let texts = arguments(caller);
    put_sizes(caller, &texts, count, size)
}

fn args_get(caller: &mut Guest<'_>, list: i32, text: i32) -> Outcome {
    let texts = arguments(caller);
    put_texts(caller, &texts, list, text)
}

fn environ_sizes_get(caller: &mut Guest<'_>, count: i32, size: i32) -> Outcome {
    let texts = environment(caller);
    put_sizes(caller, &texts, count, size)
}

fn environ_get(caller: &mut Guest<'_>, list: i32, text: i32) -> Outcome {
    let texts = environment(caller);
    put_texts(caller, &texts, list, text)
}

fn put_sizes(caller: &mut Guest<'_>, texts: &[Vec<u8>], count: i32, size: i32) -> Outcome {
    let (count, size) = (caller.out(count, 4)?, caller.out(size, 4)?);
    caller.put(count, &(texts.len() as u32).to_le_bytes());
    let bytes: usize = texts.iter().map(Vec::len).sum();
    caller.put(size, &(bytes as u32).to_le_bytes());
    Ok(())
}

fn put_texts(caller: &mut Guest<'_>, texts: &[Vec<u8>], list: i32, start: i32) -> Outcome {
    let bytes = texts.concat();
    let (list, text) = (caller.range(list, texts.len() * 4)?, caller.range(start, bytes.len())?);
    let mut address = start.cast_unsigned();
    let mut addresses = Vec::with_capacity(list.len());
    for text in texts {
        addresses.extend_from_slice(&address.to_le_bytes());
        address = address.wrapping_add(text.len() as u32); // all of them are in its memory
    }
    caller.fill(list, &addresses);
    caller.fill(text, &bytes);
    Ok(())
}

/// Random bytes that one call gives: they are made on the worker.
const MOST_RANDOM_BYTES: usize = 1 << 20;

fn random_get(caller: &mut Guest<'_>, buffer: i32, size: i32) -> Outcome {
    let buffer = caller.range(buffer, size.cast_unsigned() as usize)?;
    if buffer.len() > caller.state().profile.options.limits.copy.min(MOST_RANDOM_BYTES) {
        return Err(Errno::E2BIG);
    }
    let mut rest = caller.contents(buffer);
    while !rest.is_empty() {
        match getrandom(&mut *rest, GetRandomFlags::empty()) {
            Ok(count) => rest = &mut rest[count..],
            Err(rustix::io::Errno::INTR) => (),
            Err(_) => return Err(Errno::EIO),
        }
    }
    Ok(())
}

async fn sched_yield(caller: &mut Guest<'_>) -> Outcome {
    if !can_block(caller) {
        return Err(Errno::EDEADLK);
    }
    wait(caller, SLEEP, yield_once()).await;
    Ok(())
}
