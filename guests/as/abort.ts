// What the compiler calls for `throw` and for failed checks: logs the text and traps.

@external("env", "mk_log")
declare function mk_log(level: i32, text: usize, size: u32): void;

const LOG_ERROR: i32 = 3;

export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const text = String.UTF8.encode(`${message} at ${file}:${line}:${column}`);
  mk_log(LOG_ERROR, changetype<usize>(text), text.byteLength);
  unreachable();
}
