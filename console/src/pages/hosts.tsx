import { useState } from "preact/hooks";
import { cluster, status } from "../api";
import { useAction, useLoad } from "../load";
import { may, useSession } from "../session";
import { count, Text, Time } from "../text";
import { Badge, Confirm, Facts, Page, Section, Show, Table } from "../ui";
import { leaseOf } from "./overview";
import type { ClusterHost } from "../gen/greenroom/v1/cluster_pb";
import { Role } from "../gen/greenroom/v1/status_pb";
import { Findings } from "../findings";

export function Hosts() {
  const session = useSession();
  const [draining, setDraining] = useState<ClusterHost>();
  const drain = useAction();
  const [asked, setAsked] = useState(false);
  const hosts = useLoad((signal) => cluster.listHosts({}, { signal }), [], 2_000);
  const admin = may(session, Role.ADMIN);
  return (
    <Page
      title="Servers"
      actions={
        admin && (
          <button type="button" onClick={() => setAsked(true)}>
            Check connections
          </button>
        )
      }
    >
      <Show of={hosts}>
        {(l) => (
          <>
            <Facts
              of={[
                ["Leader's term", String(l.leaderEpoch)],
                ["Leader", l.leaderAnswered ? <Badge kind="good">answers</Badge> : <Badge kind="bad">does not answer this server</Badge>],
                ...(l.missing.length > 0 ? [["The leader waits for", l.missing.join(", ")] as [string, string]] : []),
              ]}
            />
            <Table
              label="Servers"
              keyOf={(h) => h.hostId}
              rows={l.hosts}
              empty="No server has a row in the database yet."
              columns={[
                {
                  name: "Server",
                  cell: (h) => (
                    <>
                      <strong>{h.name}</strong> <code title={h.hostId}>{h.hostId.slice(0, 12)}</code>
                    </>
                  ),
                },
                { name: "Address", cell: (h) => h.address },
                {
                  name: "Status",
                  cell: (h) => (
                    <>
                      {h.leader && <Badge kind="good">leader</Badge>} {h.draining && <Badge kind="warn">draining</Badge>} {h.answering && <Badge kind="plain">answering</Badge>}{" "}
                      {l.leaderAnswered && !h.connected && <Badge kind="bad">no session</Badge>}
                    </>
                  ),
                },
                { name: "Lease", cell: (h) => leaseOf(h, l.now) },
                { name: "Ranges", number: true, cell: (h) => count(h.ranges) },
                { name: "Sticky actors", number: true, cell: (h) => count(h.stickyActors) },
                { name: "Weight", number: true, cell: (h) => (h.weight ? h.weight.toFixed(2) : "") },
                { name: "Roles", cell: (h) => h.roles.join(", ") || "all" },
                { name: "Version", cell: (h) => <Text of={h.version || "?"} most={40} /> },
                { name: "Started", cell: (h) => <Time at={h.startedAt} /> },
                {
                  name: "",
                  cell: (h) =>
                    admin && !h.draining ? (
                      <button type="button" class="danger" onClick={() => setDraining(h)}>
                        Drain…
                      </button>
                    ) : (
                      ""
                    ),
                },
              ]}
            />
          </>
        )}
      </Show>
      {asked && <Reach />}
      {draining && (
        <Confirm
          title={`Drain ${draining.name}?`}
          typed={draining.name}
          action="Drain"
          busy={drain.busy}
          problem={drain.problem}
          onClose={() => {
            drain.clear();
            setDraining(undefined);
          }}
          onConfirm={() =>
            void drain
              .run(() => cluster.drainHost({ host: draining.hostId }))
              .then((ok) => {
                if (!ok) return;
                setDraining(undefined);
                hosts.reload();
              })
          }
        >
          <p>The server hands over what it holds, and takes nothing new until it is started again.</p>
        </Confirm>
      )}
    </Page>
  );
}

function Reach() {
  const found = useLoad((signal) => status.diagnose({ reach: true }, { signal, timeoutMs: 60_000 }), []);
  return (
    <Section title="Connections between servers" note="Each server was asked which of the others it cannot reach. That takes as long as a lease, where one does not answer.">
      <Show of={found}>{(d) => <Findings of={d.findings} />}</Show>
    </Section>
  );
}
