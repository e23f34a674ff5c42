import { useState } from "preact/hooks";
import { modules } from "../api";
import { DeployBox } from "../deploy";
import { useLoad } from "../load";
import { href, type Route } from "../route";
import { may, useSession } from "../session";
import { short, Text, Time } from "../text";
import { Badge, Page, Section, Show, Table } from "../ui";
import { Role } from "../gen/greenroom/v1/status_pb";

export function Types({ route }: { route: Route }) {
  const session = useSession();
  const { app } = route;
  const [deployed, setDeployed] = useState(0);
  const types = useLoad((signal) => modules.listTypes({ app }, { signal }), [app, deployed], 10_000);
  return (
    <Page title="Types">
      {may(session, Role.DEPLOY) && <DeployBox app={app} served={types.data?.types ?? []} onDeployed={() => setDeployed((n) => n + 1)} />}
      <Section title="What is deployed">
        <Show of={types}>
          {(l) => (
            <Table
              label="Types"
              keyOf={(t) => t.type?.name ?? ""}
              rows={l.types}
              empty={
                <>
                  No type is deployed in this app. {may(session, Role.DEPLOY) ? "Drop a module above, or use" : "Somebody with the role deploy can use"}{" "}
                  <code>greenroom deploy</code>.
                </>
              }
              columns={[
                { name: "Type", cell: (t) => <a href={href(app, "types", [t.type?.name ?? ""])}>{t.type?.name}</a> },
                { name: "Methods", cell: (t) => t.type?.methods.map((m) => m.name).join(", ") },
                { name: "Placement", cell: (t) => t.type?.placement },
                { name: "Generation", number: true, cell: (t) => String(t.deployment?.generation ?? "") },
                { name: "Module", cell: (t) => <code>{short(t.deployment?.digest ?? "")}</code> },
                { name: "Deployed", cell: (t) => <Time at={t.deployment?.createdAt} /> },
                { name: "Message", cell: (t) => (t.deployment?.message ? <Text of={t.deployment.message} most={80} /> : "") },
                {
                  name: "Missing settings",
                  cell: (t) => {
                    const m = t.deployment?.missing;
                    const lacks = m ? [...m.config, ...m.secrets, ...m.http] : [];
                    return lacks.length > 0 ? <Badge kind="warn">{lacks.join(", ")}</Badge> : "";
                  },
                },
                { name: "Actors", cell: (t) => <a href={href(app, "actors", [t.type?.name ?? ""])}>list</a> },
              ]}
            />
          )}
        </Show>
      </Section>
    </Page>
  );
}
