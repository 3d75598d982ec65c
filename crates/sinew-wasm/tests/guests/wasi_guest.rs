//! A guest that makes any call of WASI that a test asks it for, and reports the result.
//!
//! Its module is generated from the list of calls in `guests/wat/abi.wat`. A request has the number of a call as its kind,
//! and as its payload the arguments, eight bytes each, and data that they refer to.

use std::fmt::Write;

use sinew_kernel::{ActorRef, Message, Node};
use sinew_wasm::{Engine, Grants, Guest, Module, StackClass, WasmNode};

use crate::kit::Peer;

/// Where the payload of a request is placed.
const PAYLOAD: i64 = 0x10000;
/// Where the data of a request begins: after the arguments.
const DATA: i64 = PAYLOAD + 80;
/// Where results go. It is filled with zeros before each call, and its begin is reported after it.
pub(crate) const RESULT: i64 = 0x20000;
/// The bytes that are reported.
pub(crate) const REPORTED: usize = 4096;
/// The end of the guest's memory.
pub(crate) const MEMORY_END: i64 = 0x30000;

/// A call, as `abi.wat` has it.
pub(crate) struct Call {
    pub(crate) name: String,
    /// The type of each parameter is 64 bits wide.
    pub(crate) params: Vec<bool>,
}

/// The calls of WASI that have a result: all but `proc_exit`.
pub(crate) fn calls() -> Vec<Call> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/wat/abi.wat");
    let text = std::fs::read_to_string(path).unwrap();
    let call = |line: &str| {
        let line = line.trim().strip_prefix(r#"(import "wasi_snapshot_preview1" ""#)?;
        let (name, types) = line.split_once('"')?;
        types.contains("(result i32)").then_some(())?;
        let params = types.split_once("(param ").map_or("", |(_, rest)| rest.split(')').next().unwrap());
        Some(Call {
            name: name.to_owned(),
            params: params.split_whitespace().map(|it| it == "i64").collect(),
        })
    };
    text.lines().filter_map(call).collect()
}

/// The module of the guest.
pub(crate) fn module(engine: &Engine) -> Module {
    engine.module("wasi", module_text(&calls())).unwrap()
}

fn module_text(calls: &[Call]) -> String {
    let (mut imports, mut arms) = (String::new(), String::new());
    for (number, Call { name, params }) in calls.iter().enumerate() {
        let types: String = params.iter().map(|wide| if *wide { " i64" } else { " i32" }).collect();
        let param = if types.is_empty() { String::new() } else { format!("(param{types})") };
        writeln!(
            imports,
            r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} {param} (result i32)))"#
        )
        .unwrap();
        let loads: String = params
            .iter()
            .enumerate()
            .map(|(at, wide)| {
                let load = if *wide { "i64.load" } else { "i32.load" };
                format!("({load} offset={} (local.get $ptr))", at * 8)
            })
            .collect();
        writeln!(
            arms,
            "(if (i32.eq (local.get $kind) (i32.const {number})) (then (local.set $result (call ${name} {loads}))))"
        )
        .unwrap();
    }
    format!(
        r#"(module
        (import "env" "mk_send" (func $send (param i64 i32 i32 i32) (result i32)))
        {imports}
        (memory (export "memory") 3)
        (func (export "mk_alloc") (param i32) (result i32) (i32.const {PAYLOAD}))
        (func (export "mk_free") (param i32))
        (func (export "handle_message") (param $kind i32) (param $from i64) (param $ptr i32) (param i32) (result i32)
            (local $result i32)
            (memory.fill (i32.const {RESULT}) (i32.const 0) (i32.const 0x10000))
            {arms}
            (drop (call $send (local.get $from) (local.get $result) (i32.const {RESULT}) (i32.const {REPORTED})))
            (i32.const 1)))"#
    )
}

/// An argument of a call.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// A number.
    N(i64),
    /// The address of a place for a result, so many bytes after `RESULT`.
    Out(i64),
    /// Bytes: their address and their length.
    Text(&'a str),
    /// A list of buffers with addresses and lengths: its address and its length.
    Buffers(&'a [(i64, i64)]),
    /// A list of one buffer with these bytes.
    Bytes(&'a [u8]),
    /// The address of these bytes.
    At(&'a [u8]),
}

/// The guest, and the actor that asks it.
pub(crate) struct WasiGuest {
    calls: Vec<Call>,
    peer: Peer,
    pub(crate) guest: ActorRef<Message>,
}

impl WasiGuest {
    pub(crate) fn new(node: &Node, engine: &Engine, grants: Grants) -> WasiGuest {
        WasiGuest::with(node, engine, |guest| guest.grants(grants))
    }

    pub(crate) fn with(node: &Node, engine: &Engine, options: impl FnOnce(Guest) -> Guest) -> WasiGuest {
        WasiGuest::of(node, &module(engine), options)
    }

    /// A guest of a [`module`] that was compiled before.
    pub(crate) fn of(node: &Node, module: &Module, options: impl FnOnce(Guest) -> Guest) -> WasiGuest {
        let guest = Guest::new(module).stack(StackClass::Small);
        let guest = node.wasm(options(guest)).spawn().unwrap();
        WasiGuest { calls: calls(), peer: Peer::new(node), guest }
    }

    /// Makes a call: its result, and what is at `RESULT` after it.
    #[track_caller]
    pub(crate) fn call(&self, name: &str, args: &[Arg<'_>]) -> (u32, Vec<u8>) {
        let number = self.calls.iter().position(|call| call.name == name).unwrap();
        let (mut numbers, mut data) = (Vec::new(), Vec::new());
        let mut place = |bytes: &[u8]| {
            let start = DATA + data.len() as i64;
            data.extend_from_slice(bytes);
            data.resize(data.len().next_multiple_of(8), 0);
            start
        };
        for arg in args {
            match arg {
                Arg::N(number) => numbers.push(*number),
                Arg::Out(at) => numbers.push(RESULT + at),
                Arg::Text(text) => numbers.extend([place(text.as_bytes()), text.len() as i64]),
                Arg::At(bytes) => numbers.push(place(bytes)),
                Arg::Buffers(buffers) => {
                    let entry = |(ptr, len): &(i64, i64)| [*ptr as u32, *len as u32];
                    let words: Vec<u32> = buffers.iter().flat_map(entry).collect();
                    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                    numbers.extend([place(&bytes), buffers.len() as i64]);
                }
                Arg::Bytes(bytes) => {
                    let start = place(bytes) as u32;
                    let entry = [start.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat();
                    numbers.extend([place(&entry), 1]);
                }
            }
        }
        assert_eq!(numbers.len(), self.calls[number].params.len(), "arguments of {name}");
        numbers.resize(10, 0);
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        self.peer.ask(self.guest.id(), number as u32, &numbers.chain(data).collect::<Vec<u8>>())
    }

    /// Makes a call for its result.
    #[track_caller]
    pub(crate) fn errno(&self, name: &str, args: &[Arg<'_>]) -> u32 {
        self.call(name, args).0
    }

    /// Opens a path below a directory. The file descriptor, or the error.
    #[track_caller]
    pub(crate) fn open(&self, directory: i64, path: &str, how: How) -> Result<i64, u32> {
        let How { oflags, rights, fdflags } = how;
        let (errno, out) = self.call(
            "path_open",
            &[
                Arg::N(directory),
                Arg::N(1),
                Arg::Text(path),
                Arg::N(oflags),
                Arg::N(rights),
                Arg::N(0),
                Arg::N(fdflags),
                Arg::Out(0),
            ],
        );
        if errno == 0 { Ok(i64::from(word(&out, 0))) } else { Err(errno) }
    }

    /// Writes to a file descriptor: the bytes that were taken, or the error.
    #[track_caller]
    pub(crate) fn write(&self, fd: i64, bytes: &[u8]) -> Result<u32, u32> {
        let (errno, out) = self.call("fd_write", &[Arg::N(fd), Arg::Bytes(bytes), Arg::Out(0)]);
        if errno == 0 { Ok(word(&out, 0)) } else { Err(errno) }
    }

    /// Reads from a file descriptor, or the error.
    #[track_caller]
    pub(crate) fn read(&self, fd: i64, most: i64) -> Result<Vec<u8>, u32> {
        let args = [Arg::N(fd), Arg::Buffers(&[(RESULT + 8, most)]), Arg::Out(0)];
        let (errno, out) = self.call("fd_read", &args);
        if errno == 0 { Ok(out[8..8 + word(&out, 0) as usize].to_vec()) } else { Err(errno) }
    }
}

/// How a path is opened.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) oflags: i64,
    pub(crate) rights: i64,
    pub(crate) fdflags: i64,
}

pub(crate) const READ: How = How { oflags: 0, rights: 2, fdflags: 0 };
pub(crate) const CREATE: How = How { oflags: 1, rights: 2 | 1 << 6, fdflags: 0 };
pub(crate) const DIRECTORY: How = How { oflags: 2, rights: 2, fdflags: 0 };

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The numbers of errors that the tests expect.
pub(crate) mod errno {
    pub(crate) const TOO_BIG: u32 = 1;
    pub(crate) const ACCES: u32 = 2;
    pub(crate) const BADF: u32 = 8;
    pub(crate) const DEADLK: u32 = 16;
    pub(crate) const EXIST: u32 = 20;
    pub(crate) const FAULT: u32 = 21;
    pub(crate) const INVAL: u32 = 28;
    pub(crate) const ISDIR: u32 = 31;
    pub(crate) const LOOP: u32 = 32;
    pub(crate) const MFILE: u32 = 33;
    pub(crate) const NOENT: u32 = 44;
    pub(crate) const NOSYS: u32 = 52;
    pub(crate) const NOTDIR: u32 = 54;
    pub(crate) const NOTEMPTY: u32 = 55;
    pub(crate) const NOTSUP: u32 = 58;
    pub(crate) const ROFS: u32 = 69;
    pub(crate) const SPIPE: u32 = 70;
}
