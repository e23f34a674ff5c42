import { status } from "../api";
import { useLoad } from "../load";
import { roleName } from "../session";
import { Name, Time } from "../text";
import { Badge, Page, Show, Table } from "../ui";

export function Tokens() {
  const list = useLoad((signal) => status.listTokens({}, { signal }), [], 10_000);
  return (
    <Page title="Tokens">
      <p class="note">
        The tokens that this server accepts, without their secrets. They are set with <code>--token-file</code> and <code>--tokens-file</code>.
      </p>
      <Show of={list}>
        {(l) => (
          <Table
            label="Tokens"
            keyOf={(t) => t.name}
            rows={l.tokens}
            empty={
              <>
                The server does not ask for tokens. To change that, start it with <code>--token-file</code> or <code>--tokens-file</code>.
              </>
            }
            columns={[
              { name: "Name", cell: (t) => <Name of={t.name} /> },
              { name: "Role", cell: (t) => roleName(t.role) },
              { name: "App", cell: (t) => t.app || "all" },
              { name: "Last used here", cell: (t) => <Time at={t.lastUsedAt} /> },
              { name: "Status", cell: (t) => (t.own ? <Badge kind="good">yours</Badge> : "") },
            ]}
          />
        )}
      </Show>
    </Page>
  );
}
