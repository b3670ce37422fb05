// The exports of all plugins: the version, the input buffer, and the settings.

import { LogLevel, MINOR, log } from "./abi";
import { configure } from "./index";

let buffer = new ArrayBuffer(0);
let garbage = 0;

/** How much garbage, in bytes, is worth a collection. Most of it is a call's input and copies of it. */
const COLLECT = 16 << 10;

/** Ends a call. Only globals refer to objects between calls, as the collector requires. */
export function end(length: i32): i32 {
  garbage += 256 + 4 * length;
  if (garbage > COLLECT) sluice_collect();
  return 0;
}

/** Returns a part of the input. */
export function bytes(from: i32, length: i32): Uint8Array {
  return Uint8Array.wrap(buffer, from, length);
}

export function text(from: i32, length: i32): string {
  return String.UTF8.decodeUnsafe(changetype<usize>(buffer) + from, length);
}

export function sluice_abi_v1(): i32 {
  return MINOR;
}

export function sluice_buffer(size: i32): usize {
  if (buffer.byteLength < size) buffer = new ArrayBuffer(size);
  return changetype<usize>(buffer);
}

export function sluice_configure(binding: i32, length: i32): i32 {
  const wrong = configure(binding);
  if (wrong != "") {
    log(LogLevel.Error, wrong);
    return 1;
  }
  return end(length);
}

/** Runs the garbage collector. The gateway also calls it between calls. */
export function sluice_collect(): void {
  garbage = 0;
  __collect();
}
