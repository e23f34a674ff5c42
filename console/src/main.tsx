import { render } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Code } from "@connectrpc/connect";
import { hasToken, modules, onRefused, setToken, status } from "./api";
import { useLoad } from "./load";
import { href, type Route, useRoute } from "./route";
import { may, roleName, Session, useSession } from "./session";
import { Role } from "./gen/greenroom/v1/status_pb";
import { Empty, Failure, Field, Page } from "./ui";
import { Name } from "./text";
import { Actor } from "./pages/actor";
import { Actors } from "./pages/actors";
import { Hosts } from "./pages/hosts";
import { Modules } from "./pages/modules";
import { Overview } from "./pages/overview";
import { Reminders } from "./pages/reminders";
import { Settings } from "./pages/settings";
import { Tokens } from "./pages/tokens";
import { Type } from "./pages/type";
import { Types } from "./pages/types";

interface PageOf {
  name: string;
  title: string;
  view: (props: { route: Route }) => preact.ComponentChildren;
  role?: Role;
  // The page is about the whole server: tokens of one app do not see it.
  everywhere?: boolean;
  cluster?: boolean;
}

const pages: PageOf[] = [
  { name: "overview", title: "Overview", view: Overview },
  { name: "types", title: "Types", view: ({ route }) => (route.names[0] ? <Type route={route} /> : <Types route={route} />) },
  { name: "actors", title: "Actors", view: ({ route }) => (route.names[1] ? <Actor route={route} /> : <Actors route={route} />) },
  { name: "reminders", title: "Reminders", view: Reminders },
  { name: "modules", title: "Modules", view: Modules },
  { name: "settings", title: "Settings", view: Settings, role: Role.DEPLOY },
  { name: "hosts", title: "Servers", view: Hosts, everywhere: true, cluster: true },
  { name: "tokens", title: "Tokens", view: Tokens, role: Role.ADMIN, everywhere: true },
];

function SignIn({ refused, onDone }: { refused: boolean; onDone: () => void }) {
  const [text, setText] = useState("");
  return (
    <main id="main" class="signin">
      <h1>Greenroom</h1>
      {refused && (
        <div class="box bad" role="alert">
          <p>The server does not accept this token, or no longer accepts it. Sign in with another one.</p>
        </div>
      )}
      <form
        onSubmit={(e) => {
          e.preventDefault();
          setToken(text.trim());
          onDone();
        }}
      >
        <Field
          label="Token"
          type="password"
          required
          value={text}
          hint="One of the server's tokens. It stays in this tab, until you close it or sign out."
          onInput={(e) => setText(e.currentTarget.value)}
        />
        <button type="submit">Sign in</button>
      </form>
    </main>
  );
}

function Console() {
  const [attempt, setAttempt] = useState(0);
  const [signIn, setSignIn] = useState<"no" | "asked" | "refused">("no");
  useEffect(() => onRefused(() => setSignIn(hasToken() ? "refused" : "asked")), []);
  const server = useLoad((signal) => status.getServer({}, { signal }), [attempt], 30_000);
  const signOut = useCallback(() => {
    setToken("");
    setSignIn("asked");
  }, []);
  if (signIn !== "no") {
    return (
      <SignIn
        refused={signIn === "refused"}
        onDone={() => {
          setSignIn("no");
          setAttempt((n) => n + 1);
        }}
      />
    );
  }
  if (!server.data) {
    return (
      <main id="main" class="signin">
        <h1>Greenroom</h1>
        {server.problem && server.problem.code !== Code.Unauthenticated ? (
          <Failure of={server.problem} retry={server.reload} />
        ) : (
          <p role="status">Loading…</p>
        )}
      </main>
    );
  }
  return (
    <Session.Provider value={server.data}>
      <Shell onSignOut={signOut} lost={server.problem !== undefined} />
    </Session.Provider>
  );
}

function Shell({ onSignOut, lost }: { onSignOut: () => void; lost: boolean }) {
  const session = useSession();
  const route = useRoute();
  const app = session.app || route.app;
  const main = useRef<HTMLElement>(null);
  const shown = pages.filter((p) => may(session, p.role ?? Role.READ) && !(p.everywhere && session.app) && !(p.cluster && !session.cluster));
  const page = shown.find((p) => p.name === route.page);
  const place = [app, route.page, ...route.names].join("/");
  const before = useRef(place);
  useEffect(() => {
    document.title = `${[...route.names].reverse().concat(page?.title ?? "").join(" · ").slice(0, 100)} · Greenroom`;
    document.querySelector("nav.side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }); // where the pages are in a row
    if (before.current === place) return;
    before.current = place;
    scrollTo(0, 0);
    main.current?.querySelector("h1")?.focus();
  }, [place]);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(e) => {
          e.preventDefault();
          main.current?.querySelector("h1")?.focus();
        }}
      >
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href={href(app, "overview")}>
          Greenroom
        </a>
        <AppChoice app={app} page={route.page} />
        <span class="who">
          {lost && <strong class="lost">server unreachable</strong>}
          {session.authenticated && (
            <>
              <span title={`role ${roleName(session.role)}`}>
                <Name of={session.token} /> ({roleName(session.role)})
              </span>
              <button type="button" onClick={onSignOut}>
                Sign out
              </button>
            </>
          )}
        </span>
      </header>
      <nav class="side" aria-label="Console">
        <ul>
          {shown.map((p) => (
            <li key={p.name}>
              <a href={href(app, p.name)} aria-current={p.name === route.page ? "page" : undefined}>
                {p.title}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <main id="main" ref={main}>
        {page ? (
          <page.view key={place} route={{ ...route, app }} />
        ) : (
          <Page title="Not here">
            <Empty>
              This page does not exist, or this token may not see it. <a href={href(app, "overview")}>Go to the overview.</a>
            </Empty>
          </Page>
        )}
      </main>
      <footer>
        Greenroom {session.version} · <a href={href(app, "overview")}>overview</a>
      </footer>
    </>
  );
}

// AppChoice chooses the app that the pages show.
function AppChoice({ app, page }: { app: string; page: string }) {
  const session = useSession();
  const apps = useLoad(
    async (signal) => (session.app ? [session.app] : (await modules.listApps({ pageSize: 1000 }, { signal })).apps.map((a) => a.name)),
    [session.app],
    30_000,
  );
  const names = [...new Set([app, ...(apps.data ?? [])])].sort();
  const known = ["actors", "types", "reminders", "modules", "settings"].includes(page) ? page : "overview";
  return (
    <label class="app">
      <span>App</span>
      <select value={app} disabled={names.length < 2} onChange={(e) => (location.hash = href(e.currentTarget.value, known))}>
        {names.map((n) => (
          <option key={n} value={n}>
            {n}
          </option>
        ))}
      </select>
    </label>
  );
}

render(<Console />, document.getElementById("console")!);
