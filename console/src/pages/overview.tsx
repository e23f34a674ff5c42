import { cluster, status } from "../api";
import { Chart, type Line, Spark } from "../chart";
import { Findings } from "../findings";
import { useLoad } from "../load";
import { href, type Route } from "../route";
import { useSession } from "../session";
import { count, dateOf, rate, seconds, Time } from "../text";
import { Badge, Empty, Page, Section, Show, Table } from "../ui";
import type { ClusterHost } from "../gen/greenroom/v1/cluster_pb";
import { type ListTurnsResponse, type TurnStep, type TypeTurns } from "../gen/greenroom/v1/status_pb";

// The newest step is left out while it is younger than this, since its rate says little.
const firstSeconds = 5;

// values returns one value per step, with 0 for steps without a turn. pick gets a step and how many
// of its seconds have passed.
function values(turns: ListTurnsResponse, of: TypeTurns, pick: (s: TurnStep, seconds: number) => number): number[] {
  const step = turns.stepSeconds;
  const last = Number((turns.last?.seconds ?? 0n) - (turns.first?.seconds ?? 0n)) / step;
  const passed = Math.min(step, Number((turns.now?.seconds ?? 0n) - (turns.last?.seconds ?? 0n)));
  const all = new Array<number>(last + 1).fill(0);
  for (const s of of.steps) all[s.index] = pick(s, s.index === last ? Math.max(passed, 1) : step);
  return passed < firstSeconds ? all.slice(0, -1) : all;
}

export function Turns({ turns, of }: { turns: ListTurnsResponse; of: TypeTurns }) {
  const first = dateOf(turns.first)!;
  const step = turns.stepSeconds;
  const chart = (title: string, lines: Line[], show: (v: number) => string) => <Chart title={title} lines={lines} first={first} step={step} show={show} />;
  return (
    <div class="charts">
      {chart("Turns", [{ name: "per second", kind: "good", area: true, values: perSecond(turns, of) }], rate)}
      {chart("Errors", [{ name: "per second", kind: "bad", area: true, values: values(turns, of, (s, seconds) => Number(s.errors) / seconds) }], rate)}
      {chart(
        "Latency",
        [
          { name: "p99", kind: "soft", values: values(turns, of, (s) => s.p99Seconds) },
          { name: "p50", kind: "good", values: values(turns, of, (s) => s.p50Seconds) },
        ],
        seconds,
      )}
    </div>
  );
}

const perSecond = (turns: ListTurnsResponse, of: TypeTurns): number[] => values(turns, of, (s, seconds) => Number(s.turns) / seconds);

export function Overview({ route }: { route: Route }) {
  const session = useSession();
  const { app } = route;
  const turns = useLoad((signal) => status.listTurns({ app }, { signal }), [app], 5_000);
  return (
    <Page title="Overview">
      <Show of={turns}>
        {(t) => (
          <>
            {t.all && <Turns turns={t} of={t.all} />}
            {t.missing.length > 0 && <p class="note badtext">The turns of these servers are missing, since they did not answer: {t.missing.join(", ")}.</p>}
            {t.uncounted > 0n && (
              <p class="note">{count(t.uncounted)} turns are missing here, since the memory for these counts was full.</p>
            )}
            <Section title="By type" note={session.cluster ? "At all servers, in the last hour." : "In the last hour."}>
              <Table
                label="Turns by type"
                keyOf={(r) => r.type}
                rows={t.types}
                empty={
                  <>
                    No turn of this app in the last hour. Call an actor from <a href={href(app, "actors")}>Actors</a>, or with{" "}
                    <code>greenroom call TYPE ID METHOD</code>.
                  </>
                }
                columns={[
                  { name: "Type", cell: (r) => <a href={href(app, "types", [r.type])}>{r.type}</a> },
                  { name: "Turns", number: true, cell: (r) => count(r.turns) },
                  { name: "Turns/s now", number: true, cell: (r) => rate(perSecond(t, r).at(-1) ?? 0) },
                  { name: "Last hour", cell: (r) => <Spark values={perSecond(t, r)} /> },
                  { name: "Errors", number: true, cell: (r) => (r.errors > 0n ? <span class="badtext">{count(r.errors)}</span> : "0") },
                  { name: "p50", number: true, cell: (r) => seconds(r.p50Seconds) },
                  { name: "p99", number: true, cell: (r) => seconds(r.p99Seconds) },
                ]}
              />
            </Section>
          </>
        )}
      </Show>
      <Diagnosis />
      {session.cluster && !session.app && <Hosts app={app} />}
    </Page>
  );
}

// Diagnosis shows the findings of `greenroom doctor` about the server.
function Diagnosis() {
  const found = useLoad((signal) => status.diagnose({}, { signal }), [], 10_000);
  return (
    <Section title="Diagnosis" note={<>What <code>greenroom doctor</code> says of the server.</>}>
      <Show of={found}>{(d) => <Findings of={d.findings} />}</Show>
    </Section>
  );
}

// leaseOf says how long a host's lease still lasts.
export function leaseOf(h: ClusterHost, now: { seconds: bigint; nanos: number } | undefined): string {
  const left = (dateOf(h.expiresAt)?.getTime() ?? 0) - (dateOf(now)?.getTime() ?? 0);
  return left > 0 ? `${(left / 1000).toFixed(1)} s left` : "over";
}

function Hosts({ app }: { app: string }) {
  const hosts = useLoad((signal) => cluster.listHosts({}, { signal }), [], 5_000);
  return (
    <Section title="Servers" actions={<a href={href(app, "hosts")}>Details</a>}>
      <Show of={hosts}>
        {(l) =>
          l.hosts.length === 0 ? (
            <Empty>No server has a row in the database yet.</Empty>
          ) : (
            <Table
              label="Servers"
              keyOf={(h) => h.hostId}
              rows={l.hosts}
              empty=""
              columns={[
                { name: "Server", cell: (h) => h.name || h.hostId },
                {
                  name: "Status",
                  cell: (h) => (
                    <>
                      {h.leader && <Badge kind="good">leader</Badge>} {h.draining && <Badge kind="warn">draining</Badge>} {h.answering && <Badge kind="plain">answering</Badge>}
                    </>
                  ),
                },
                { name: "Lease", cell: (h) => leaseOf(h, l.now) },
                { name: "Ranges", number: true, cell: (h) => count(h.ranges) },
                { name: "Sticky actors", number: true, cell: (h) => count(h.stickyActors) },
                { name: "Started", cell: (h) => <Time at={h.startedAt} /> },
              ]}
            />
          )
        }
      </Show>
    </Section>
  );
}
