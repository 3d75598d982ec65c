;; Computes without end in its first turn.
(module
  (memory (export "memory") 1)
  (func $handle_message (export "handle_message")
    (param $kind i32) (param $source i64) (param $payload i32) (param $size i32) (result i32)
    (loop $again
      (br $again))
    (unreachable)))
