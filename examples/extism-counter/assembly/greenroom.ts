// What a plug-in needs of Greenroom: its host functions, in the types of
// AssemblyScript. docs/extism.md lists them all.
import { Host, Memory } from "@extism/as-pdk";
import { error_set, length } from "@extism/as-pdk/lib/env";

@external("extism:host/user", "greenroom_state_get")
declare function state_get(key: u64): u64;
@external("extism:host/user", "greenroom_state_set")
declare function state_set(key: u64, value: u64): void;
@external("extism:host/user", "greenroom_self")
declare function self_(): u64;
@external("extism:host/user", "greenroom_fail")
declare function fail_(error: u64): void;

/** The value of a key of this actor's state, null if there is none. */
export function stateGet(key: string): string | null {
  const block = state_get(Memory.allocateString(key).offset);
  return block == 0 ? null : new Memory(block, length(block)).toString();
}

/** Sets a key of this actor's state to a JSON text. */
export function stateSet(key: string, json: string): void {
  state_set(Memory.allocateString(key).offset, Memory.allocateString(json).offset);
}

/** Whose turn this is, as JSON: {"app", "type", "id", "method", …}. */
export function self(): string {
  const block = self_();
  return new Memory(block, length(block)).toString();
}

/** Fails the turn: nothing of it is kept, and the caller gets this error. */
export function fail(status: string, code: string, message: string): i32 {
  fail_(Memory.allocateString(`{"status":"${status}","code":"${code}","message":"${message}"}`).offset);
  return 1;
}

/** Replies. Host.outputString cuts text that is not ASCII short, this does not. */
export function reply(text: string): i32 {
  Host.output(Uint8Array.wrap(String.UTF8.encode(text)));
  return 0;
}

/** What the compiler calls where AssemblyScript throws: see package.json. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const text = (message ? message : "aborted") + " at " + (file ? file : "?") + ":" + line.toString() + ":" + column.toString();
  error_set(Memory.allocateString(text).offset);
  unreachable();
}
