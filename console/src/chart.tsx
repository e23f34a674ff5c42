// Charts of the last hour, in SVG.
import { useState } from "preact/hooks";
import { seconds as showSeconds } from "./text";

const width = 600;
const height = 110;

// Line is one value for each step.
export interface Line {
  name: string;
  kind: "good" | "bad" | "soft";
  values: number[];
  area?: boolean;
}

// top is a round number that no value exceeds.
function top(max: number): number {
  if (max <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(max));
  for (const m of [1, 2, 5, 10]) if (max <= m * power) return m * power;
  return max;
}

function points(values: number[], max: number): string {
  const last = Math.max(values.length - 1, 1);
  return values.map((v, i) => `${((i * width) / last).toFixed(1)},${(height - (Math.min(v, max) / max) * (height - 4)).toFixed(1)}`).join(" ");
}

// Chart draws lines over steps. Its label says the same in words; the legend shows the values at the
// step under the pointer, or at the one chosen with the arrow keys.
export function Chart({ title, lines, first, step, show }: { title: string; lines: Line[]; first: Date; step: number; show: (v: number) => string }) {
  const [at, setAt] = useState<number | undefined>();
  const steps = lines[0]?.values.length ?? 0;
  const max = top(Math.max(...lines.flatMap((l) => l.values), 0));
  const index = at === undefined ? undefined : Math.max(0, Math.min(steps - 1, at));
  const time = (i: number) => new Date(first.getTime() + i * step * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const words = lines.map((l) => `${l.name}: now ${show(l.values.at(-1) ?? 0)}, at most ${show(Math.max(0, ...l.values))}`).join("; ");
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        <span class="legend">
          {lines.map((l) => (
            <span key={l.name} class={`key ${l.kind}`}>
              {l.name} {show(l.values[index ?? steps - 1] ?? 0)}
            </span>
          ))}
          <span class="faint">{index === undefined ? "now" : time(index)}</span>
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title} over the last hour. ${words}`}
        tabIndex={0}
        onPointerMove={(e) => {
          const box = e.currentTarget.getBoundingClientRect();
          setAt(Math.round(((e.clientX - box.left) / box.width) * (steps - 1)));
        }}
        onPointerLeave={() => setAt(undefined)}
        onBlur={() => setAt(undefined)}
        onKeyDown={(e) => {
          const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
          if (by === undefined) return;
          e.preventDefault();
          setAt((index ?? steps - 1) + by);
        }}
      >
        <line class="grid" x1="0" x2={width} y1={height / 2} y2={height / 2} />
        <line class="grid" x1="0" x2={width} y1="4" y2="4" />
        {lines.map((l) => (
          <g key={l.name} class={`line ${l.kind}`}>
            {l.area && <polygon points={`0,${height} ${points(l.values, max)} ${width},${height}`} />}
            <polyline points={points(l.values, max)} />
          </g>
        ))}
        {index !== undefined && <line class="cursor" x1={(index * width) / Math.max(steps - 1, 1)} x2={(index * width) / Math.max(steps - 1, 1)} y1="0" y2={height} />}
      </svg>
      <div class="axis" aria-hidden="true">
        <span>{time(0)}</span>
        <span>top {show(max)}</span>
        <span>now</span>
      </div>
    </figure>
  );
}

// Spark is a small chart for a table; the number beside it says the same.
export function Spark({ values }: { values: number[] }) {
  const max = top(Math.max(...values, 0));
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      <g class="line good">
        <polyline points={points(values, max)} />
      </g>
    </svg>
  );
}

export const showDuration = showSeconds;
