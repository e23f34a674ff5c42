// A JSON value as a tree. Only open nodes are in the page.
import { useState } from "preact/hooks";
import { count, Name, Text } from "./text";

// Exact is a number that a double cannot hold, as it was written.
class Exact {
  constructor(readonly source: string) {}
}

type Json = null | boolean | number | string | Exact | Json[] | { [key: string]: Json };

const page = 100;

// summary describes a closed node.
function summary(v: Json[] | { [key: string]: Json }): string {
  const n = Array.isArray(v) ? v.length : Object.keys(v).length;
  const what = Array.isArray(v) ? "item" : "member";
  return `${count(n)} ${what}${n === 1 ? "" : "s"}`;
}

function Node({ name, value, open }: { name: string | undefined; value: Json; open: boolean }) {
  const [expanded, setExpanded] = useState(open);
  const [most, setMost] = useState(page);
  const label = name === undefined ? null : <span class="member"><Name of={name} />: </span>;
  if (value === null || typeof value !== "object" || value instanceof Exact) {
    return (
      <li>
        {label}
        {typeof value === "string" ? (
          <span class="string">
            "<Text of={value} most={200} />"
          </span>
        ) : (
          <span class="scalar">{value instanceof Exact ? value.source : String(value)}</span>
        )}
      </li>
    );
  }
  const entries: [string | undefined, Json][] = expanded ? (Array.isArray(value) ? value.map((v, i) => [String(i), v]) : Object.entries(value)) : [];
  return (
    <li>
      <button type="button" class="toggle" aria-expanded={expanded} onClick={() => setExpanded(!expanded)}>
        {label}
        <span class="faint">{summary(value)}</span>
      </button>
      {expanded && entries.length > 0 && (
        <ul>
          {entries.slice(0, most).map(([k, v]) => (
            <Node key={k} name={k} value={v} open={false} />
          ))}
          {entries.length > most && (
            <li>
              <button type="button" class="link" onClick={() => setMost(most + 10 * page)}>
                show more; {count(entries.length - most)} are left
              </button>
            </li>
          )}
        </ul>
      )}
    </li>
  );
}

// Tree shows a JSON text. It shows numbers as they are written, even those that a double cannot hold.
export function Tree({ json }: { json: string }) {
  let value: Json;
  try {
    value = (JSON.parse as (text: string, revive: (key: string, v: Json, context?: { source?: string }) => Json) => Json)(json, (_, v, context) =>
      typeof v === "number" && context?.source !== undefined && String(v) !== context.source ? new Exact(context.source) : v,
    );
  } catch {
    return <Text of={json} />;
  }
  return (
    <ul class="tree">
      <Node name={undefined} value={value} open />
    </ul>
  );
}
