// A counter that survives everything: an actor written as an Extism plug-in.
import { Host, LogLevel } from "@extism/as-pdk";
import { fail, reply, self, stateGet, stateSet } from "./greenroom";

export function greenroom_manifest(): i32 {
  return reply(`{
    "abi": 1,
    "sdk": "extism/assemblyscript",
    "types": [{
      "name": "Counter",
      "methods": [
        {"name": "Add"},
        {"name": "Get", "read_only": true, "idempotent": true},
        {"name": "WhoAmI", "read_only": true}
      ],
      "limits": {"memory_bytes": 8388608}
    }]
  }`);
}

function count(): i64 {
  const stored = stateGet("count");
  return stored === null ? 0 : I64.parseInt(stored);
}

/** Adds the number in the payload, and replies with the new count. */
export function Add(): i32 {
  const text = Host.inputString().trim();
  const amount = I64.parseInt(text);
  if (amount.toString() != text) {
    return fail("invalid_argument", "not_a_number", "give a whole number to add, such as 1");
  }
  const sum = count() + amount;
  if (sum < 0) {
    return fail("failed_precondition", "below_zero", "the count would fall below zero");
  }
  stateSet("count", sum.toString());
  Host.log(LogLevel.Info, "counted to " + sum.toString());
  return reply(sum.toString());
}

/** Replies with the count. */
export function Get(): i32 {
  return reply(count().toString());
}

/** Replies with what this actor knows of itself. */
export function WhoAmI(): i32 {
  return reply(self());
}
