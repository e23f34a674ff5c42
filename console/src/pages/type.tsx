import { useState } from "preact/hooks";
import { modules, status } from "../api";
import { compareType, serviceOf } from "../changes";
import { useAction, useLoad } from "../load";
import { Placement } from "../placement";
import { href, type Route } from "../route";
import { may, useSession } from "../session";
import { short, Text, Time } from "../text";
import { Badge, Confirm, Empty, Facts, Page, Section, Show, Table } from "../ui";
import { Turns } from "./overview";
import type { ActorType, Deployment, Method } from "../gen/greenroom/v1/module_pb";
import { Role } from "../gen/greenroom/v1/status_pb";

export function Type({ route }: { route: Route }) {
  const session = useSession();
  const { app } = route;
  const name = route.names[0]!;
  const [changed, setChanged] = useState(0);
  const [undeploying, setUndeploying] = useState(false);
  const undeploy = useAction();
  const types = useLoad((signal) => modules.listTypes({ app }, { signal }), [app, changed], 10_000);
  const turns = useLoad((signal) => status.listTurns({ app }, { signal }), [app], 5_000);
  const served = types.data?.types.find((t) => t.type?.name === name);
  const of = turns.data?.types.find((t) => t.type === name);
  const again = () => setChanged((n) => n + 1);
  return (
    <Page
      title={<>Type {name}</>}
      actions={
        <>
          <a href={href(app, "actors", [name])}>Its actors</a>
          {served && may(session, Role.DEPLOY) && (
            <button type="button" class="danger" onClick={() => setUndeploying(true)}>
              Undeploy…
            </button>
          )}
        </>
      }
    >
      <Show of={types}>
        {() =>
          served?.type ? (
            <Definition type={served.type} deployment={served.deployment} />
          ) : (
            <Empty>No module serves this type now. Deploy a module that has it, or roll back to one of the deployments below.</Empty>
          )
        }
      </Show>
      <Section title="Last hour">
        <Show of={turns}>{(t) => (of ? <Turns turns={t} of={of} /> : <Empty>No turn of this type in the last hour.</Empty>)}</Show>
      </Section>
      {session.cluster && !session.app && served && <Placement app={app} type={name} />}
      <History app={app} type={name} changed={changed} onChanged={again} />
      {undeploying && (
        <Confirm
          title={`Take ${name} out of service?`}
          typed={name}
          action="Undeploy"
          busy={undeploy.busy}
          problem={undeploy.problem}
          onClose={() => setUndeploying(false)}
          onConfirm={() =>
            void undeploy
              .run(() => modules.undeploy({ app, types: [name] }))
              .then((ok) => {
                if (!ok) return;
                setUndeploying(false);
                again();
              })
          }
        >
          <p>Calls of its actors will get type_not_found. Their states are kept; a deployment or a rollback brings the type back.</p>
        </Confirm>
      )}
    </Page>
  );
}

export const marksOf = (m: Method): string[] =>
  [m.readOnly && "read-only", m.idempotent && "idempotent", m.reentrant && "reentrant", m.private && "private", m.atomic && "atomic"].filter((s) => s !== false);

function Definition({ type, deployment }: { type: ActorType; deployment: Deployment | undefined }) {
  const uses = [...(type.capabilities?.config ?? []), ...(type.capabilities?.secrets ?? []), ...(type.capabilities?.http ?? [])];
  const lacks = [...(deployment?.missing?.config ?? []), ...(deployment?.missing?.secrets ?? []), ...(deployment?.missing?.http ?? [])];
  return (
    <>
      <Facts
        of={[
          ["Module", <code>{short(deployment?.digest ?? "")}</code>],
          ["Generation", String(deployment?.generation ?? "")],
          ["Deployed", <Time at={deployment?.createdAt} />],
          ["Placement", type.placement],
          ["Instances", type.instance],
          ["Pool", type.pool],
          ["State schema", String(type.stateSchema) + (type.migrate ? ", migrates" : "")],
          ["Group", type.coLocate?.group ? `${type.coLocate.group}${type.coLocate.separator ? ` by ${type.coLocate.parts} part(s) before "${type.coLocate.separator}"` : ""}` : "none"],
          ["Protobuf service", serviceOf(type) || "none"],
          ["Uses", uses.length > 0 ? uses.join(", ") : "nothing beyond its state"],
          ["Missing settings", lacks.length > 0 ? <Badge kind="warn">{lacks.join(", ")}</Badge> : "nothing"],
        ]}
      />
      <Section title="Methods">
        <Table
          label="Methods"
          keyOf={(m) => m.name}
          rows={type.methods}
          empty="The type has no method."
          columns={[
            { name: "Method", cell: (m) => <code>{m.name}</code> },
            { name: "Status", cell: (m) => marksOf(m).join(", ") || "ordinary" },
          ]}
        />
      </Section>
    </>
  );
}

// History lists the deployments of the type and what each one changed.
function History({ app, type, changed, onChanged }: { app: string; type: string; changed: number; onChanged: () => void }) {
  const session = useSession();
  const [going, setGoing] = useState<Deployment>();
  const rollback = useAction();
  const history = useLoad(
    async (signal) => {
      const { deployments } = await modules.history({ app, type, pageSize: 20 }, { signal });
      const digests = [...new Set(deployments.filter((d) => !d.undeployed && !d.moduleDeleted).map((d) => d.digest))];
      const found = await Promise.all(digests.map((digest) => modules.getModule({ app, digest }, { signal }).catch(() => undefined)));
      const typeOf = (d: Deployment | undefined) =>
        d && found[digests.indexOf(d.digest)]?.module?.types.find((t) => t.name === type);
      return deployments.map((d, i) => {
        const before = typeOf(deployments[i + 1]);
        const now = typeOf(d);
        return { d, changes: before && now ? compareType(before, now) : undefined };
      });
    },
    [app, type, changed],
  );
  return (
    <Section title="History">
      <Show of={history}>
        {(rows) => (
          <Table
            label="Deployments"
            keyOf={({ d }) => String(d.generation)}
            rows={rows}
            empty="This type was never deployed in this app."
            columns={[
              { name: "Generation", number: true, cell: ({ d }) => String(d.generation) },
              { name: "When", cell: ({ d }) => <Time at={d.createdAt} /> },
              {
                name: "Module",
                cell: ({ d }) =>
                  d.undeployed ? (
                    <Badge kind="warn">undeployed</Badge>
                  ) : (
                    <>
                      <code>{short(d.digest)}</code> {d.moduleDeleted && <Badge kind="plain">deleted</Badge>}
                    </>
                  ),
              },
              {
                name: "Changed",
                cell: ({ d, changes }) => (
                  <>
                    {[...(d.rolledBackFrom > 0n ? [`rolled back from ${d.rolledBackFrom}`] : []), ...(changes?.what ?? [])].join("; ")}
                  </>
                ),
              },
              { name: "Message", cell: ({ d }) => (d.message ? <Text of={d.message} most={120} /> : "") },
              {
                name: "",
                cell: ({ d }) =>
                  d !== rows[0]?.d && !d.undeployed && !d.moduleDeleted && may(session, Role.DEPLOY) ? (
                    <button type="button" onClick={() => setGoing(d)}>
                      Roll back to {String(d.generation)}…
                    </button>
                  ) : (
                    ""
                  ),
              },
            ]}
          />
        )}
      </Show>
      {going && (
        <Confirm
          title={`Roll back to generation ${going.generation}?`}
          action="Roll back"
          busy={rollback.busy}
          problem={rollback.problem}
          onClose={() => {
            rollback.clear();
            setGoing(undefined);
          }}
          onConfirm={() =>
            void rollback
              .run(() => modules.rollback({ app, type, generation: going.generation }))
              .then((ok) => {
                if (!ok) return;
                setGoing(undefined);
                onChanged();
              })
          }
        >
          <p>
            Module <code>{short(going.digest)}</code> serves {type} again, as a new generation. Open activations move at their next turn.
          </p>
        </Confirm>
      )}
    </Section>
  );
}
