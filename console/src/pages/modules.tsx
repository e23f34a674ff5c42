import { useState } from "preact/hooks";
import { modules } from "../api";
import { useAction, useLoad } from "../load";
import { href, type Route } from "../route";
import { may, useSession } from "../session";
import { bytes, short, Time } from "../text";
import { Badge, Confirm, Page, Pages, Show, Table } from "../ui";
import type { Module } from "../gen/greenroom/v1/module_pb";
import { Role } from "../gen/greenroom/v1/status_pb";

export function Modules({ route }: { route: Route }) {
  const session = useSession();
  const { app } = route;
  const [token, setToken] = useState("");
  const [deleting, setDeleting] = useState<Module>();
  const remove = useAction();
  const list = useLoad(
    async (signal) => {
      const [l, types] = await Promise.all([modules.listModules({ app, pageSize: 100, pageToken: token }, { signal }), modules.listTypes({ app }, { signal })]);
      const serves = (m: Module) => types.types.filter((t) => t.deployment?.digest === m.digest).map((t) => t.type?.name ?? "");
      return { rows: l.modules.map((m) => ({ m, serves: serves(m) })), next: l.nextPageToken };
    },
    [app, token],
  );
  return (
    <Page title="Modules">
      <Show of={list}>
        {(l) => (
          <>
            <Table
              label="Modules"
              keyOf={({ m }) => m.digest}
              rows={l.rows}
              empty={
                <>
                  The app has no module. Drop one at <a href={href(app, "types")}>Types</a>, or use <code>greenroom deploy</code>.
                </>
              }
              columns={[
                { name: "Module", cell: ({ m }) => <code title={m.digest}>{short(m.digest)}</code> },
                { name: "Types", cell: ({ m }) => m.types.map((t) => t.name).join(", ") },
                { name: "Serves", cell: ({ serves }) => serves.map((s) => <Badge kind="good">{s}</Badge>) },
                { name: "Size", number: true, cell: ({ m }) => bytes(m.size) },
                { name: "Built with", cell: ({ m }) => m.sdk },
                { name: "Uploaded", cell: ({ m }) => <Time at={m.createdAt} /> },
                {
                  name: "",
                  cell: ({ m, serves }) =>
                    serves.length === 0 && may(session, Role.DEPLOY) ? (
                      <button type="button" class="danger" onClick={() => setDeleting(m)}>
                        Delete…
                      </button>
                    ) : (
                      ""
                    ),
                },
              ]}
            />
            <Pages first={token === ""} next={l.next} onFirst={() => setToken("")} onNext={() => setToken(l.next)} />
          </>
        )}
      </Show>
      {deleting && (
        <Confirm
          title="Delete this module?"
          typed={short(deleting.digest)}
          action="Delete"
          busy={remove.busy}
          problem={remove.problem}
          onClose={() => {
            remove.clear();
            setDeleting(undefined);
          }}
          onConfirm={() =>
            void remove
              .run(() => modules.deleteModule({ app, digest: deleting.digest }))
              .then((ok) => {
                if (!ok) return;
                setDeleting(undefined);
                list.reload();
              })
          }
        >
          <p>No deployment can go back to it then, unless it is uploaded again.</p>
        </Confirm>
      )}
    </Page>
  );
}
