import { useState } from "preact/hooks";
import { settings } from "../api";
import { useAction, useLoad } from "../load";
import type { Route } from "../route";
import { may, roleName, useSession } from "../session";
import { Name, Text, Time } from "../text";
import { Badge, Confirm, Empty, Failure, Field, Page, Section, Show, Table } from "../ui";
import { Role } from "../gen/greenroom/v1/status_pb";

// Removal is a setting that the caller is about to remove.
interface Removal {
  name: string;
  what: string;
  remove: () => Promise<unknown>;
}

export function Settings({ route }: { route: Route }) {
  const session = useSession();
  const { app } = route;
  const list = useLoad((signal) => settings.getSettings({ app }, { signal }), [app], 10_000);
  const [removal, setRemoval] = useState<Removal>();
  const removing = useAction();
  const admin = may(session, Role.ADMIN);
  const button = (of: Removal) =>
    admin ? (
      <button type="button" class="danger" onClick={() => setRemoval(of)}>
        Remove…
      </button>
    ) : (
      ""
    );
  return (
    <Page title="Settings">
      <p class="note">What the guests of the app {app} may use beyond their states. Changes take effect on this server at once, on others within seconds.</p>
      {!admin && <Empty>A token with the role admin changes these; yours has the role {roleName(session.role)}.</Empty>}
      <Show of={list}>
        {(l) => (
          <>
            <Section title="Configuration">
              <Table
                label="Configuration"
                keyOf={(c) => c.name}
                rows={l.config}
                empty="No value is set."
                columns={[
                  { name: "Name", cell: (c) => <code>{c.name}</code> },
                  { name: "Value", cell: (c) => <Text of={c.value} most={200} /> },
                  { name: "Changed", cell: (c) => <Time at={c.updatedAt} /> },
                  { name: "", cell: (c) => button({ name: c.name, what: "configuration value", remove: () => settings.unsetConfig({ app, name: c.name }) }) },
                ]}
              />
              {admin && <Change title="Set a value" fields={["Name", "Value"]} onChanged={list.reload} change={([name, value]) => settings.setConfig({ app, name: name!, value: value! })} />}
            </Section>
            <Section title="Secrets" note="Their values are shown nowhere: the API never answers with one.">
              <Table
                label="Secrets"
                keyOf={(s) => s.name}
                rows={l.secrets}
                empty="No secret is set."
                columns={[
                  { name: "Name", cell: (s) => <code>{s.name}</code> },
                  { name: "Sealed with", cell: (s) => <code>{s.keyId}</code> },
                  { name: "Status", cell: (s) => (s.readable ? <Badge kind="good">readable</Badge> : <Badge kind="bad">this server does not have its key</Badge>) },
                  { name: "Changed", cell: (s) => <Time at={s.updatedAt} /> },
                  { name: "", cell: (s) => button({ name: s.name, what: "secret", remove: () => settings.unsetSecret({ app, name: s.name }) }) },
                ]}
              />
              {admin && (
                <Change
                  title="Set a secret"
                  fields={["Name", "Value"]}
                  hidden
                  onChanged={list.reload}
                  change={([name, value]) => settings.setSecret({ app, name: name!, value: new TextEncoder().encode(value) })}
                />
              )}
            </Section>
            <Section title="HTTP" note="Hosts that guests may send requests to.">
              <Table
                label="Hosts for HTTP requests"
                keyOf={(h) => h.host}
                rows={l.http}
                empty="Guests may not send requests to any host."
                columns={[
                  { name: "Host", cell: (h) => <Name of={h.host} /> },
                  { name: "Private addresses", cell: (h) => (h.private ? <Badge kind="warn">allowed</Badge> : "refused") },
                  { name: "Changed", cell: (h) => <Time at={h.updatedAt} /> },
                  { name: "", cell: (h) => button({ name: h.host, what: "host", remove: () => settings.revokeHTTP({ app, host: h.host }) }) },
                ]}
              />
              {admin && <Change title="Allow a host" fields={["Host"]} onChanged={list.reload} change={([host]) => settings.grantHTTP({ app, host: host! })} />}
            </Section>
          </>
        )}
      </Show>
      {removal && (
        <Confirm
          title={`Remove this ${removal.what}?`}
          typed={removal.name}
          action="Remove"
          busy={removing.busy}
          problem={removing.problem}
          onClose={() => {
            removing.clear();
            setRemoval(undefined);
          }}
          onConfirm={() =>
            void removing.run(removal.remove).then((ok) => {
              if (!ok) return;
              setRemoval(undefined);
              list.reload();
            })
          }
        >
          <p>Turns that ask for it fail from then on.</p>
        </Confirm>
      )}
    </Page>
  );
}

function Change({ title, fields, hidden, change, onChanged }: {
  title: string;
  fields: string[];
  hidden?: boolean;
  change: (values: string[]) => Promise<unknown>;
  onChanged: () => void;
}) {
  const [values, setValues] = useState(fields.map(() => ""));
  const action = useAction();
  return (
    <form
      class="search"
      aria-label={title}
      onSubmit={(e) => {
        e.preventDefault();
        void action
          .run(() => change(values))
          .then((ok) => {
            if (!ok) return;
            setValues(fields.map(() => ""));
            onChanged();
          });
      }}
    >
      {fields.map((f, i) => (
        <Field
          key={f}
          label={f}
          type={hidden && f === "Value" ? "password" : "text"}
          required={i === 0}
          value={values[i]!}
          onInput={(e) => setValues(values.map((v, j) => (j === i ? e.currentTarget.value : v)))}
        />
      ))}
      <button type="submit" disabled={action.busy}>
        {title}
      </button>
      {action.problem && <Failure of={action.problem} />}
    </form>
  );
}
