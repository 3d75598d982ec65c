;; Imports the calls that need more than the host's core: HTTP, file descriptors, hardware. A host
;; without one of them refuses the module and names what is missing.
(module
  (import "env" "mk_http_get" (func (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "env" "mk_http_get_blocking" (func (param i32 i32 i32) (result i32)))
  (import "env" "mk_wait_fd_readable" (func (param i32 i32) (result i32)))
  (import "env" "mk_wait_fd_writable" (func (param i32 i32) (result i32)))
  (import "env" "mk_i2c_read_blocking" (func (param i32 i32) (result i32)))

  (memory (export "memory") 1)
  (func $handle_message (export "handle_message")
    (param $kind i32) (param $source i64) (param $payload i32) (param $size i32) (result i32)
    (i32.const 1)))
