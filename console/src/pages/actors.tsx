import { useState } from "preact/hooks";
import { actors, modules } from "../api";
import { useLoad } from "../load";
import { href, type Route } from "../route";
import { bytes, Name, Time } from "../text";
import { Empty, Field, Page, Pages, Section, Show, Table } from "../ui";

// Actors lists the actors of a type by the prefix of their IDs and by a filter in CEL.
export function Actors({ route }: { route: Route }) {
  const { app } = route;
  const types = useLoad((signal) => modules.listTypes({ app }, { signal }), [app]);
  return (
    <Page title="Actors">
      <Show of={types}>
        {(l) => {
          const names = l.types.map((t) => t.type?.name ?? "");
          const type = route.names[0] ?? names[0];
          if (!type) {
            return (
              <Empty>
                No type is deployed in this app, so it has no actors to look at. <a href={href(app, "types")}>Deploy one.</a>
              </Empty>
            );
          }
          return <List app={app} type={type} names={names.includes(type) ? names : [type, ...names]} prefix={route.query.get("prefix") ?? ""} filter={route.query.get("filter") ?? ""} />;
        }}
      </Show>
    </Page>
  );
}

function List({ app, type, names, prefix, filter }: { app: string; type: string; names: string[]; prefix: string; filter: string }) {
  const [typed, setTyped] = useState(prefix);
  const [typedFilter, setTypedFilter] = useState(filter);
  const [open, setOpen] = useState("");
  const [page, setPage] = useState({ prefix, filter, token: "" });
  const token = page.prefix === prefix && page.filter === filter ? page.token : "";
  const list = useLoad((signal) => actors.listActors({ app, type, prefix, filter, pageSize: 100, pageToken: token }, { signal }), [app, type, prefix, filter, token]);
  return (
    <>
      <div class="search">
        <form
          role="search"
          onSubmit={(e) => {
            e.preventDefault();
            location.hash = href(app, "actors", [type], { prefix: typed, filter: typedFilter });
          }}
        >
          <div class="field">
            <label for="type">Type</label>
            <select id="type" value={type} onChange={(e) => (location.hash = href(app, "actors", [e.currentTarget.value]))}>
              {names.map((n) => (
                <option key={n}>{n}</option>
              ))}
            </select>
          </div>
          <Field label="ID begins with" type="search" value={typed} maxLength={512} onInput={(e) => setTyped(e.currentTarget.value)} />
          <Field label="Filter, such as state.total > 100" type="search" value={typedFilter} maxLength={4096} onInput={(e) => setTypedFilter(e.currentTarget.value)} />
          <button type="submit">Search</button>
        </form>
        <form
          onSubmit={(e) => {
            e.preventDefault();
            if (open) location.hash = href(app, "actors", [type, open]);
          }}
        >
          <Field label="Open the actor with the ID" value={open} maxLength={512} onInput={(e) => setOpen(e.currentTarget.value)} />
          <button type="submit">Open</button>
        </form>
      </div>
      <Section title="Actors with stored state" note="Every ID is an actor. These have been called and have stored something.">
        <Show of={list}>
          {(l) => (
            <>
              <Table
                label="Actors"
                keyOf={(a) => a.key?.id ?? ""}
                rows={l.actors}
                empty={
                  l.nextPageToken
                    ? "None was found so far; continue with the next page."
                    : filter
                      ? "No actor meets the filter. Change it, or leave it empty."
                      : prefix
                        ? "No actor's ID begins with this. Change the search, or open one by its ID."
                        : "No actor of this type has stored anything yet. Open one by an ID of your choice, and call it."
                }
                columns={[
                  {
                    name: "ID",
                    cell: (a) => (
                      <a href={href(app, "actors", [type, a.key?.id ?? ""])}>
                        <Name of={a.key?.id ?? ""} />
                      </a>
                    ),
                  },
                  { name: "Version", number: true, cell: (a) => String(a.version) },
                  { name: "State", number: true, cell: (a) => bytes(a.stateSize) },
                  { name: "Generation", number: true, cell: (a) => String(a.generation) },
                  { name: "Changed", cell: (a) => <Time at={a.updatedAt} /> },
                ]}
              />
              {l.scan && (l.scan.failed > 0n || l.scan.notJson > 0n) ? (
                <p>
                  Left out on this page: {String(l.scan.failed)} for which the filter failed, {String(l.scan.notJson)} whose state is not JSON. <Name of={l.scan.failure} />
                </p>
              ) : null}
              <Pages first={token === ""} next={l.nextPageToken} onFirst={() => setPage({ prefix, filter, token: "" })} onNext={() => setPage({ prefix, filter, token: l.nextPageToken })} />
            </>
          )}
        </Show>
      </Section>
    </>
  );
}
