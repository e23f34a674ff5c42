// Shows which servers hold which part of a type's hash space, as a ring and as a table.
import { cluster } from "./api";
import { useLoad } from "./load";
import { rate, short } from "./text";
import { Badge, Empty, Section, Show, Table } from "./ui";

const colours = 8;
const space = 2 ** 64;

export function Placement({ app, type }: { app: string; type: string }) {
  const placement = useLoad(
    async (signal) => {
      const [table, hosts] = await Promise.all([cluster.getPlacement({ app, type }, { signal }), cluster.listHosts({}, { signal })]);
      return { table, names: new Map(hosts.hosts.map((h) => [h.hostId, h.name || short(h.hostId)])) };
    },
    [app, type],
    5_000,
  );
  return (
    <Section title="Placement" note="Which servers hold the type's actors now, and what they are asked for.">
      <Show of={placement}>
        {({ table, names }) => {
          if (table.ranges.length === 0) return <Empty>A type placed {table.placement} has no table: its actors are not held by ranges.</Empty>;
          const hosts = [...new Set(table.ranges.flatMap((r) => r.hosts))].sort();
          const nameOf = (id: string) => names.get(id) ?? short(id);
          const parts = table.ranges.map((r) => ({ r, share: Number(r.last - r.first + 1n) / space }));
          const rows = hosts.map((id) => ({
            id,
            share: parts.reduce((sum, p) => (p.r.hosts.includes(id) ? sum + p.share / p.r.hosts.length : sum), 0),
            moved: table.ranges.filter((r) => r.moved && r.hosts.includes(id)).length,
            heat: table.heat.find((h) => h.hostId === id)?.callsPerSecond ?? 0,
          }));
          const nobody = parts.reduce((sum, p) => (p.r.hosts.length === 0 ? sum + p.share : sum), 0);
          let at = 0;
          return (
            <div class="placement">
              <svg viewBox="-60 -60 120 120" role="img" aria-label={`The hash space as a ring. ${rows.map((r) => `${nameOf(r.id)} has ${(r.share * 100).toFixed(0)} %`).join(", ")}.`}>
                {parts.map((p) => {
                  const from = at;
                  at += p.share;
                  const length = 2 * Math.PI * 48;
                  const host = hosts.indexOf(p.r.hosts[0] ?? "");
                  return (
                    <circle
                      key={String(p.r.first)}
                      class={host < 0 ? "part nobody" : `part c${host % colours}`}
                      r="48"
                      stroke-dasharray={`${p.share * length} ${length}`}
                      stroke-dashoffset={-from * length}
                      transform="rotate(-90)"
                    />
                  );
                })}
                <text y="4">{table.placement}</text>
              </svg>
              <div>
                {nobody > 0 && (
                  <p>
                    <Badge kind="warn">{(nobody * 100).toFixed(1)} % is between two servers, or its server is away</Badge>
                  </p>
                )}
                <Table
                  label="Placement by server"
                  keyOf={(r) => r.id}
                  rows={rows}
                  empty="No server holds any of it now: calls wait until one does."
                  columns={[
                    {
                      name: "Server",
                      cell: (r) => (
                        <>
                          <span class={`dot c${hosts.indexOf(r.id) % colours}`} aria-hidden="true" /> {nameOf(r.id)}
                        </>
                      ),
                    },
                    { name: "Share", number: true, cell: (r) => `${(r.share * 100).toFixed(1)} %` },
                    { name: "Calls/s", number: true, cell: (r) => rate(r.heat) },
                    { name: "Hot ranges moved here", number: true, cell: (r) => String(r.moved) },
                  ]}
                />
              </div>
            </div>
          );
        }}
      </Show>
    </Section>
  );
}
