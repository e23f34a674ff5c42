// Text that others wrote: names, states and log lines may hold anything.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

// Characters that are invisible or change how others are shown: control characters, direction marks,
// zero-width characters and invisible operators.
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function seen(text: string): ComponentChildren {
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const m of text.matchAll(unseen)) {
    parts.push(text.slice(at, m.index));
    const code = m[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(<span class="unseen" title="a character that is not seen">U+{code}</span>);
    at = m.index + m[0].length;
  }
  if (at === 0) return text;
  parts.push(text.slice(at));
  return parts;
}

// cut shortens text to so many UTF-16 units, without parting a pair.
function cut(text: string, most: number): string {
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}

// Text shows text that others wrote, isolated from the direction of the page. It cuts long text and has a
// button that shows all of it.
export function Text({ of, most = 300, whole = false }: { of: string; most?: number; whole?: boolean }) {
  const [all, setAll] = useState(whole);
  if (of === "") return <span class="faint">empty</span>;
  if (all || of.length <= most) return <bdi class="text">{seen(of)}</bdi>;
  return (
    <>
      <bdi class="text">{seen(cut(of, most))}…</bdi>{" "}
      <button type="button" class="link" onClick={() => setAll(true)}>
        show all {of.length.toLocaleString()} characters
      </button>
    </>
  );
}

// Name shows a short text that others wrote, inside a sentence or a row.
export function Name({ of }: { of: string }) {
  return (
    <bdi class="name" title={of.length > 80 ? of.slice(0, 600) : undefined}>
      {of.length > 80 ? <>{seen(cut(of, 80))}…</> : seen(of)}
    </bdi>
  );
}

export const bytes = (n: bigint | number): string => {
  let v = Number(n);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (v < 1024 || unit === "GiB") return `${v < 10 && unit !== "B" ? v.toFixed(1) : Math.round(v)} ${unit}`;
    v /= 1024;
  }
  return "";
};

export const seconds = (s: number): string => {
  if (s === 0) return "0";
  if (s < 0.001) return `${Math.round(s * 1e6)} µs`;
  if (s < 0.1) return `${(s * 1e3).toFixed(1)} ms`;
  if (s < 1) return `${Math.round(s * 1e3)} ms`;
  return `${s.toFixed(1)} s`;
};

export const count = (n: bigint | number): string => n.toLocaleString("en");

export const rate = (n: number): string => (n === 0 ? "0" : n < 10 ? n.toFixed(n < 0.1 ? 2 : 1) : count(Math.round(n)));

export const dateOf = (t: { seconds: bigint; nanos: number } | undefined): Date | undefined =>
  t && new Date(Number(t.seconds) * 1000 + t.nanos / 1e6);

// ago says how far a time is from now.
export function ago(t: Date, now = new Date()): string {
  const s = Math.round((now.getTime() - t.getTime()) / 1000);
  const abs = Math.abs(s);
  const [n, unit] =
    abs < 60 ? [abs, "s"] : abs < 3600 ? [Math.round(abs / 60), "min"] : abs < 172800 ? [Math.round(abs / 3600), "h"] : [Math.round(abs / 86400), "d"];
  return abs < 2 ? "now" : s > 0 ? `${n} ${unit} ago` : `in ${n} ${unit}`;
}

// Time shows how long ago a moment was; its title is the moment itself.
export function Time({ at }: { at: { seconds: bigint; nanos: number } | undefined }) {
  const t = dateOf(at);
  if (!t) return <span class="faint">–</span>;
  return (
    <time dateTime={t.toISOString()} title={t.toLocaleString()}>
      {ago(t)}
    </time>
  );
}

export const duration = (d: { seconds: bigint; nanos: number } | undefined): string => {
  if (!d) return "";
  const s = Number(d.seconds) + d.nanos / 1e9;
  for (const [n, unit] of [[86400, "d"], [3600, "h"], [60, "min"]] as const) if (s >= n && s % n === 0) return `${s / n} ${unit}`;
  return `${s} s`;
};

export const short = (digest: string): string => digest.slice(0, 12);

const hexRow = 16;

// Hex shows bytes as a dump, in pieces of 1 KiB.
export function Hex({ of }: { of: Uint8Array }) {
  const [most, setMost] = useState(256);
  const rows: string[] = [];
  for (let at = 0; at < Math.min(of.length, most); at += hexRow) {
    const row = of.subarray(at, Math.min(at + hexRow, most));
    const hex = Array.from(row, (b) => b.toString(16).padStart(2, "0")).join(" ");
    const ascii = Array.from(row, (b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : "·")).join("");
    rows.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(hexRow * 3 - 1)}  ${ascii}`);
  }
  if (of.length === 0) return <span class="faint">no bytes</span>;
  return (
    <>
      <pre class="hex">{rows.join("\n")}</pre>
      {of.length > most && (
        <button type="button" class="link" onClick={() => setMost(most + 4096)}>
          show more of {bytes(of.length)}
        </button>
      )}
    </>
  );
}
