// Replies to pings, as c/echo.c does; on THROW it throws.

import "./abort";

@external("env", "mk_send")
declare function mk_send(to: u64, kind: u32, payload: usize, size: u32): i32;

const PING: u32 = 200;
const PONG: u32 = 201;
const STOP: u32 = 202;
const THROW: u32 = 203;

export function handle_message(kind: u32, source: u64, payload: usize, size: u32): i32 {
  switch (kind) {
    case PING:
      mk_send(source, PONG, payload, size);
      return 1;
    case STOP:
      return 0;
    case THROW:
      throw new Error("asked to throw");
    default:
      return 1;
  }
}

// The allocator takes all of the memory as its heap, so payloads have to come from it.

export function mk_alloc(size: u32): usize {
  return heap.alloc(size);
}

export function mk_free(block: usize): void {
  heap.free(block);
}
