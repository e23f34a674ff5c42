import { useEffect, useRef, useState } from "preact/hooks";
import { Code } from "@connectrpc/connect";
import { actors, cluster, logs, modules, problemOf, reminders, type Problem } from "../api";
import { useAction, useLoad } from "../load";
import { href, type Route } from "../route";
import { may, useSession } from "../session";
import { bytes, count, dateOf, duration, Hex, Name, Text, Time } from "../text";
import { Tree } from "../tree";
import { Badge, Confirm, Empty, Facts, Failure, Page, Section, Show, Table } from "../ui";
import { Sender, WhatFailed } from "./reminders";
import { marksOf } from "./type";
import type { ActorEvent, ActorTimer, StateEntry, Subscription } from "../gen/greenroom/v1/actor_pb";
import type { LogLine } from "../gen/greenroom/v1/log_pb";
import type { Method } from "../gen/greenroom/v1/module_pb";
import { DeadLetterKind } from "../gen/greenroom/v1/reminder_pb";
import { Role } from "../gen/greenroom/v1/status_pb";

export interface Key {
  app: string;
  type: string;
  id: string;
}

// Actor is a live view of one actor.
export function Actor({ route }: { route: Route }) {
  const session = useSession();
  const actor: Key = { app: route.app, type: route.names[0]!, id: route.names.slice(1).join("/") };
  const deps = [actor.app, actor.type, actor.id];
  const [deleting, setDeleting] = useState(false);
  const remove = useAction();
  const view = useLoad(async (signal) => orNothing(actors.getActor({ actor }, { signal })), deps, 1_500);
  const version = view.data?.actor?.version;
  const where = useLoad(async (signal) => (session.cluster && !session.app ? await cluster.where({ ...actor }, { signal }) : undefined), deps, 5_000);
  const stored = view.data?.actor;
  const owner = where.data;
  return (
    <Page
      title={
        <>
          {actor.type} <Name of={actor.id} />
        </>
      }
      actions={
        <>
          <a href={href(actor.app, "types", [actor.type])}>Its type</a>
          {stored && may(session, Role.DEPLOY) && (
            <button type="button" class="danger" onClick={() => setDeleting(true)}>
              Delete…
            </button>
          )}
        </>
      }
    >
      <Show of={view}>
        {() =>
          stored ? (
            <Facts
              of={[
                ["Version", String(stored.version)],
                ["Changed", <Time at={stored.updatedAt} />],
                ["State", bytes(stored.stateSize)],
                ["Generation", String(stored.generation)],
                ["State schema", String(stored.stateSchema)],
                ["Activation", stored.active ? <Badge kind="good">in memory</Badge> : <Badge kind="plain">not in memory</Badge>],
                ["Mailbox", `${count(stored.queueDepth)} waiting`],
                ...(owner ? [["Server", owner.moving ? "between two servers" : owner.name || owner.hostId || "not held"] as [string, string], ["Placement", owner.placement] as [string, string]] : []),
                ...(owner?.groupKey ? [["Group", <Text of={`${owner.group} ${owner.groupKey}`} />] as [string, preact.ComponentChild]] : []),
              ]}
            />
          ) : (
            <Empty>This actor has no stored state. Every ID is an actor, so you can call it.</Empty>
          )
        }
      </Show>
      <div class="columns">
        <div>
          {stored && version !== undefined && <State actor={actor} version={version} />}
          {stored && <Timers of={stored.timers} />}
          <Reminders actor={actor} />
          <Subscriptions actor={actor} />
          <Inbox actor={actor} />
        </div>
        <div>
          <Call actor={actor} onCalled={view.reload} />
          <Events actor={actor} />
          <Logs actor={actor} />
        </div>
      </div>
      {deleting && (
        <Confirm
          title="Delete this actor's state?"
          typed={actor.id}
          action="Delete"
          busy={remove.busy}
          problem={remove.problem}
          onClose={() => setDeleting(false)}
          onConfirm={() =>
            void remove
              .run(() => actors.deleteActor({ actor }))
              .then((ok) => {
                if (!ok) return;
                setDeleting(false);
                view.reload();
              })
          }
        >
          <p>All that the actor has stored is removed, with its reminders, for good.</p>
        </Confirm>
      )}
    </Page>
  );
}

// orNothing returns null instead of failing with not_found.
async function orNothing<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (e) {
    if (problemOf(e).code === Code.NotFound) return null;
    throw e;
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function textOf(value: Uint8Array): string | undefined {
  try {
    return decoder.decode(value);
  } catch {
    return undefined;
  }
}

function Value({ of }: { of: StateEntry }) {
  const text = of.json ? textOf(of.value) : undefined;
  return text === undefined ? <Hex of={of.value} /> : <Tree json={text} />;
}

function State({ actor, version }: { actor: Key; version: bigint }) {
  const state = useLoad((signal) => orNothing(actors.getState({ actor }, { signal })), [actor.app, actor.type, actor.id, String(version)]);
  const last = useRef(state.data);
  if (state.data) last.current = state.data; // shown until the next state arrives
  const shown = state.data ?? last.current;
  return (
    <Section title="State">
      <Show of={{ ...state, data: shown }}>
        {(s) =>
          !s || s.entries.length === 0 ? (
            <Empty>The state is empty.</Empty>
          ) : (
            <div class="state">
              {s.entries.map((e) => (
                <details key={e.key} open={s.entries.length <= 10}>
                  <summary>
                    <Name of={e.key || "(no key)"} /> <span class="faint">{bytes(e.value.length)}{e.json ? "" : ", binary"}</span>
                  </summary>
                  <Value of={e} />
                </details>
              ))}
            </div>
          )
        }
      </Show>
    </Section>
  );
}

function Timers({ of }: { of: ActorTimer[] }) {
  return (
    <Section title="Timers">
      <Table
        label="Timers"
        keyOf={(t) => t.name}
        rows={of}
        empty="No timer is set. Timers last as long as the actor is in memory."
        columns={[
          { name: "Name", cell: (t) => <Name of={t.name} /> },
          { name: "Method", cell: (t) => <code>{t.method}</code> },
          { name: "Due", cell: (t) => <Time at={t.due} /> },
          { name: "Every", cell: (t) => duration(t.every) || "once" },
          { name: "Left", number: true, cell: (t) => (t.left > 0 ? count(t.left) : "no limit") },
        ]}
      />
    </Section>
  );
}

function Reminders({ actor }: { actor: Key }) {
  const { app, type, id } = actor;
  const list = useLoad(
    async (signal) => {
      const [set, dead] = await Promise.all([
        reminders.listReminders({ app, type, id, pageSize: 50 }, { signal }),
        reminders.listDeadLetters({ app, type, kind: DeadLetterKind.ALL, pageSize: 1000 }, { signal }),
      ]);
      return { set: set.reminders, more: set.nextPageToken !== "", dead: dead.deadLetters.filter((d) => d.reminder?.actor?.id === id) };
    },
    [app, type, id],
    5_000,
  );
  return (
    <Section title="Reminders" actions={<a href={href(app, "reminders", [], { type, id })}>Details</a>}>
      <Show of={list}>
        {(l) => (
          <>
            <Table
              label="Reminders"
              keyOf={(r) => r.name}
              rows={l.set}
              empty="No reminder is set. The actor sets its own in its methods; others use greenroom reminders create."
              columns={[
                { name: "Name", cell: (r) => <Name of={r.name} /> },
                { name: "Method", cell: (r) => <code>{r.spec?.method}</code> },
                { name: "Due", cell: (r) => <Time at={r.fireAt ?? r.due} /> },
                {
                  name: "Status",
                  cell: (r) => (
                    <>
                      {r.paused && <Badge kind="warn">paused</Badge>} {r.failures > 0 && <Badge kind="bad">failed {r.failures}×</Badge>}
                    </>
                  ),
                },
              ]}
            />
            {l.more && <p class="note">These are the first 50.</p>}
            {l.dead.length > 0 && (
              <>
                <h3>Dead letters</h3>
                <Table
                  label="Dead letters"
                  keyOf={(d) => d.id}
                  rows={l.dead}
                  empty=""
                  columns={[
                    { name: "What", cell: (d) => <WhatFailed app={app} of={d} /> },
                    { name: "Failed", cell: (d) => <Time at={d.failedAt} /> },
                    { name: "Why", cell: (d) => <Text of={d.reason} most={160} /> },
                  ]}
                />
              </>
            )}
          </>
        )}
      </Show>
    </Section>
  );
}

// Subscriptions shows the actors whose events the actor gets, and nothing if it subscribes to none.
function Subscriptions({ actor }: { actor: Key }) {
  const { app, type, id } = actor;
  const list = useLoad((signal) => actors.listSubscriptions({ app, type, id }, { signal }), [app, type, id], 5_000);
  if (list.data?.subscriptions.length === 0 || list.problem?.code === Code.Unimplemented) return null;
  return (
    <Section title="Subscriptions">
      <Show of={list}>
        {(l) => (
          <Table
            label="Subscriptions"
            keyOf={(s) => `${s.publisher?.type} ${s.publisher?.id}`}
            rows={l.subscriptions}
            empty=""
            columns={[
              {
                name: "Publisher",
                cell: (s) => s.publisher && (
                  <a href={href(app, "actors", [s.publisher.type, s.publisher.id])}>
                    {s.publisher.type} <Name of={s.publisher.id} />
                  </a>
                ),
              },
              { name: "Method", cell: (s) => <code>{s.method}</code> },
              { name: "After", cell: (s) => (s.position ? <code>{s.position}</code> : "the beginning") },
              { name: "Changed", cell: (s) => <Time at={s.updatedAt} /> },
              { name: "Status", cell: (s) => <SubscriptionState of={s} /> },
              { name: "Why", cell: (s) => s.lastError && <Text of={s.lastError} most={160} /> },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

function SubscriptionState({ of }: { of: Subscription }) {
  return (
    <>
      {of.publisherTypeMissing && <Badge kind="warn">type not deployed</Badge>} {of.failures > 0 && <Badge kind="bad">failed {of.failures}×</Badge>}{" "}
      {of.behind ? of.failures === 0 && <Badge kind="plain">behind</Badge> : <Badge kind="good">up to date</Badge>}
    </>
  );
}

// Inbox shows the messages that the actor has not consumed, and nothing if it has consumed all.
function Inbox({ actor }: { actor: Key }) {
  const list = useLoad((signal) => actors.listMessages({ actor, pageSize: 50 }, { signal }), [actor.app, actor.type, actor.id], 5_000);
  if (list.data?.messages.length === 0) return null;
  return (
    <Section title="Inbox">
      <Show of={list}>
        {(l) => (
          <>
            <Table
              label="Messages"
              keyOf={(m) => m.id}
              rows={l.messages}
              empty=""
              columns={[
                { name: "Method", cell: (m) => <code>{m.method}</code> },
                { name: "From", cell: (m) => <Sender app={actor.app} of={m.details} /> },
                { name: "Due", cell: (m) => <Time at={m.fireAt ?? m.due} /> },
                { name: "Status", cell: (m) => m.failures > 0 && <Badge kind="bad">failed {m.failures}×</Badge> },
                { name: "Why", cell: (m) => m.lastError && <Text of={m.lastError} most={160} /> },
              ]}
            />
            {l.nextPageToken && <p class="note">These are the first 50.</p>}
          </>
        )}
      </Show>
    </Section>
  );
}

interface Answer {
  method: string;
  contentType: string;
  payload: Uint8Array;
  version: bigint;
  took: number;
}

// The last payload of each type and method; a new form starts with it.
const sent = new Map<string, string>();

function Call({ actor, onCalled }: { actor: Key; onCalled: () => void }) {
  const session = useSession();
  const types = useLoad((signal) => modules.listTypes({ app: actor.app }, { signal }), [actor.app]);
  const methods = (types.data?.types.find((t) => t.type?.name === actor.type)?.type?.methods ?? []).filter(
    (m) => !m.private && (m.readOnly || may(session, Role.INVOKE)),
  );
  return (
    <Section title="Call">
      <Show of={types}>
        {() =>
          methods.length === 0 ? (
            <Empty>
              {may(session, Role.INVOKE) ? "Nothing serves this type, or it has no method that is called from outside." : "This token may call read-only methods alone, and the type has none."}
            </Empty>
          ) : (
            <CallForm actor={actor} methods={methods} onCalled={onCalled} />
          )
        }
      </Show>
    </Section>
  );
}

function CallForm({ actor, methods, onCalled }: { actor: Key; methods: Method[]; onCalled: () => void }) {
  const [name, setName] = useState((methods.find((m) => m.readOnly) ?? methods[0]!).name);
  const method = methods.find((m) => m.name === name) ?? methods[0]!;
  const key = `${actor.type} ${method.name}`;
  const [payloads, setPayloads] = useState<Record<string, string>>({});
  const payload = payloads[key] ?? sent.get(key) ?? (method.readOnly ? "" : "{}");
  const [answer, setAnswer] = useState<Answer>();
  const call = useAction();
  const invalid = payload.trim() !== "" && !isJSON(payload);
  const run = async () => {
    setAnswer(undefined);
    const began = performance.now();
    const req = { actor, method: method.name, payload: new TextEncoder().encode(payload.trim()), contentType: "application/json" };
    const r = method.readOnly ? await actors.query(req) : await actors.invoke(req);
    sent.set(key, payload);
    setAnswer({ method: method.name, contentType: r.contentType, payload: r.payload, version: r.version, took: performance.now() - began });
    onCalled();
  };
  return (
    <form
      class="call"
      onSubmit={(e) => {
        e.preventDefault();
        if (!invalid) void call.run(run);
      }}
    >
      <div class="field">
        <label for="method">Method</label>
        <select id="method" value={method.name} onChange={(e) => setName(e.currentTarget.value)}>
          {methods.map((m) => (
            <option key={m.name} value={m.name}>
              {m.name}
              {marksOf(m).length > 0 ? ` (${marksOf(m).join(", ")})` : ""}
            </option>
          ))}
        </select>
      </div>
      <div class="field">
        <label for="payload">Payload, as JSON; may be empty</label>
        <textarea
          id="payload"
          spellcheck={false}
          value={payload}
          aria-invalid={invalid}
          onInput={(e) => setPayloads({ ...payloads, [key]: e.currentTarget.value })}
        />
        {invalid && <p class="note badtext">This is not valid JSON yet.</p>}
      </div>
      <div class="actions">
        <button type="submit" disabled={call.busy || invalid}>
          {call.busy ? "Calling…" : `Call ${method.name}`}
        </button>
      </div>
      {call.problem && <Failure of={call.problem} />}
      {answer && (
        <div class="box good" role="status">
          <p>
            {answer.method} answered in {Math.round(answer.took)} ms; version {String(answer.version)}
          </p>
          {answer.payload.length === 0 ? <p class="faint">It has no payload.</p> : isJSONType(answer.contentType) && textOf(answer.payload) !== undefined ? <Tree json={textOf(answer.payload)!} /> : <Hex of={answer.payload} />}
        </div>
      )}
    </form>
  );
}

function isJSON(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const isJSONType = (contentType: string): boolean => contentType === "" || /^application\/(.*\+)?json/.test(contentType);

const keptLines = 500;
const keptEvents = 100;

const levels: [number, "bad" | "warn" | "plain", string][] = [
  [8, "bad", "error"],
  [4, "warn", "warn"],
  [0, "plain", "info"],
  [-128, "plain", "debug"],
];

// Logs follows the log lines of the actor.
// useFollow reads a stream of the server from its beginning, and again whenever it breaks. begin
// is called before each time.
function useFollow<T>(open: (signal: AbortSignal) => AsyncIterable<T>, begin: () => void, take: (message: T) => void, deps: unknown[]) {
  const [problem, setProblem] = useState<Problem>();
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    begin();
    const follow = async () => {
      for await (const m of open(abort.signal)) {
        setProblem(undefined);
        take(m);
      }
    };
    follow().catch((e: unknown) => {
      if (abort.signal.aborted) return;
      setProblem(problemOf(e));
      timer = window.setTimeout(() => setAttempt((a) => a + 1), 3_000);
    });
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [...deps, attempt]);
  return { problem, retry: () => setAttempt(attempt + 1) };
}

// Events shows the last events of the actor as they are published, and nothing before there is one.
function Events({ actor }: { actor: Key }) {
  const [events, setEvents] = useState<ActorEvent[]>([]);
  const stream = useFollow(
    (signal) => actors.subscribe({ actor, from: { case: "start", value: true } }, { signal, timeoutMs: 0 }),
    () => setEvents([]),
    (m) => m.events.length > 0 && setEvents((old) => [...old, ...m.events].slice(-keptEvents)),
    [actor.app, actor.type, actor.id],
  );
  if (events.length === 0 && !stream.problem) return null;
  return (
    <Section title="Events">
      {stream.problem && <Failure of={stream.problem} retry={stream.retry} />}
      <div class="logs" role="log" aria-label="Events" tabIndex={0}>
        {events.map((e) => (
          <div key={e.position}>
            <time>{dateOf(e.publishedAt)?.toLocaleTimeString()}</time> <code>{e.name}</code>{" "}
            {e.payload.length > 0 && <Text of={textOf(e.payload) ?? `${e.payload.length} bytes of ${e.contentType}`} most={200} />}
          </div>
        ))}
      </div>
    </Section>
  );
}

function Logs({ actor }: { actor: Key }) {
  const [lines, setLines] = useState<{ n: number; line: LogLine }[]>([]);
  const [dropped, setDropped] = useState(0n);
  const [missing, setMissing] = useState<string[]>([]);
  const lastLine = useRef(0);
  const { problem, retry } = useFollow(
    (signal) => logs.tail({ app: actor.app, actorType: actor.type, actorId: actor.id, minLevel: -128, last: keptLines, follow: true }, { signal, timeoutMs: 0 }),
    () => {
      setLines([]);
      setDropped(0n);
    },
    (m) => {
      setMissing((old) => (m.missing.length > 0 ? m.missing : old));
      setDropped((d) => d + m.dropped);
      setLines((old) => [...old, ...m.lines.map((line) => ({ n: lastLine.current++, line }))].slice(-keptLines));
    },
    [actor.app, actor.type, actor.id],
  );
  return (
    <Section title="Logs">
      {problem && <Failure of={problem} retry={retry} />}
      {missing.length > 0 && <p class="note">These servers did not answer in time, and their lines may be missing: {missing.join(", ")}.</p>}
      {dropped > 0n && <p class="note badtext">{count(dropped)} lines were lost, since more came than this page could read.</p>}
      {lines.length === 0 ? (
        <Empty>Nothing yet. What the actor logs from now on appears here.</Empty>
      ) : (
        <div class="logs" role="log" aria-label="Log lines" tabIndex={0}>
          {lines.map(({ n, line }) => {
            const [, kind, name] = levels.find(([at]) => line.level >= at) ?? levels[3]!;
            return (
              <div key={n}>
                <time>{dateOf(line.time)?.toLocaleTimeString()}</time> <Badge kind={kind}>{name}</Badge> <code>{line.method}</code> <Text of={line.text} />
              </div>
            );
          })}
        </div>
      )}
    </Section>
  );
}
