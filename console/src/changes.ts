// What a new version of a type changes for its callers. `greenroom deploy` says the same (changes.go).
import type { ActorType, Method, Module, ServedType } from "./gen/greenroom/v1/module_pb";

export interface Change {
  type: string;
  kind: "new" | "changed" | "same";
  what: string[];
  warnings: string[];
}

const marks: [keyof Method & ("readOnly" | "reentrant" | "private" | "atomic"), boolean, string, string][] = [
  // the mark, whether it is gained, what it is called, what it means to callers
  ["readOnly", false, "is no longer read-only", "queries of it will get not_read_only"],
  ["private", true, "becomes private", "callers will get method_private"],
  ["atomic", true, "becomes atomic", "actors of other servers that call it will get not_atomic"],
  ["reentrant", false, "is no longer reentrant", "actors that call it back will get not_reentrant"],
];

// serviceOf names the Protobuf service of a type, the field of its requests that has the actor's ID, and
// the rpcs that return streams.
export function serviceOf(t: ActorType): string {
  const { name = "", idField = "", streams = [] } = t.protobuf ?? {};
  const more = [];
  if (idField) more.push(`ID: ${idField}`);
  if (streams.length > 0) more.push(`streams: ${streams.join(", ")}`);
  return more.length > 0 ? `${name} (${more.join("; ")})` : name;
}

export function compareType(before: ActorType, now: ActorType): Change {
  const what: string[] = [];
  const warnings: string[] = [];
  const had = new Map(before.methods.map((m) => [m.name, m]));
  const has = new Set(now.methods.map((m) => m.name));
  const added = now.methods.filter((m) => !had.has(m.name)).map((m) => m.name);
  const removed = before.methods.filter((m) => !has.has(m.name)).map((m) => m.name);
  if (added.length > 0) what.push(`adds ${added.join(", ")}`);
  if (removed.length > 0) {
    what.push(`removes ${removed.join(", ")}`);
    warnings.push(`${now.name} loses ${removed.join(", ")}: callers will get method_not_found`);
  }
  for (const m of now.methods) {
    const old = had.get(m.name);
    if (!old) continue;
    for (const [mark, gained, name, meaning] of marks) {
      if (old[mark] === m[mark] || m[mark] !== gained) continue;
      what.push(`${m.name} ${name}`);
      warnings.push(`${m.name} of ${now.name} ${name}: ${meaning}`);
    }
  }
  if (before.stateSchema !== now.stateSchema) what.push(`state schema ${before.stateSchema} to ${now.stateSchema}`);
  if (before.placement !== now.placement) what.push(`placement ${before.placement} to ${now.placement}`);
  if ((before.coLocate?.group ?? "") !== (now.coLocate?.group ?? "")) {
    what.push(`in ${now.coLocate?.group || "no group"}, before in ${before.coLocate?.group || "no group"}`);
  }
  const was = serviceOf(before);
  const is = serviceOf(now);
  if (was !== is) what.push(`serves ${is || "no Protobuf service"}, before ${was || "none"}`);
  return { type: now.name, kind: "changed", what: what.length > 0 ? what : ["the same methods"], warnings };
}

// compareModule says what deploying a module changes in what is served.
export function compareModule(m: Module, served: ServedType[]): Change[] {
  return m.types.map((t) => {
    const current = served.find((s) => s.type?.name === t.name);
    if (!current?.type) return { type: t.name, kind: "new", what: t.methods.map((method) => method.name), warnings: [] };
    if (current.deployment?.digest === m.digest) return { type: t.name, kind: "same", what: ["is served by this module already"], warnings: [] };
    // A placement that was deployed stays.
    const kept = current.deployment?.placement && t.placement !== "stateless" ? { ...t, placement: current.deployment.placement } : t;
    return compareType(current.type, kept);
  });
}
