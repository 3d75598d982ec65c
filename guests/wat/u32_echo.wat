;; A guest without a memory: replies to every message with kind 201 and the kind that it received.
(module
  (import "env" "mk_send_u32" (func $mk_send_u32 (param i64 i32 i32) (result i32)))
  (func $handle_message (export "handle_message")
    (param $kind i32) (param $source i64) (param $payload i32) (param $size i32) (result i32)
    (drop (call $mk_send_u32 (local.get $source) (i32.const 201) (local.get $kind)))
    (i32.const 1)))
