import { useState } from "preact/hooks";
import { modules, reminders } from "../api";
import { useAction, useLoad } from "../load";
import { href, type Route } from "../route";
import { may, useSession } from "../session";
import { bytes, count, duration, Name, Text, Time } from "../text";
import { Badge, Confirm, Failure, Field, Page, Pages, Section, Show, Table } from "../ui";
import type { MessageDetails } from "../gen/greenroom/v1/actor_pb";
import { DeadLetterKind, type DeadLetter, type Reminder, type ReminderSchedule } from "../gen/greenroom/v1/reminder_pb";
import { Role } from "../gen/greenroom/v1/status_pb";

// The type of the reminders that are delivered to subscribers instead of actors.
export const subscriptionType = "greenroom.subscription";

function schedule(s: ReminderSchedule | undefined): string {
  if (!s) return "";
  if (s.cron) return `${s.cron}${s.zone ? ` in ${s.zone}` : ""}`;
  if (s.every) return `every ${duration(s.every)}`;
  return "once";
}

const keyOf = (r: Reminder | undefined): string => `${r?.actor?.type}\n${r?.actor?.id}\n${r?.name}`;

function ActorLink({ app, of }: { app: string; of: Reminder | undefined }) {
  const type = of?.actor?.type ?? "";
  const id = of?.actor?.id ?? "";
  if (type === subscriptionType) {
    return (
      <>
        subscription <Name of={id} />
      </>
    );
  }
  return (
    <a href={href(app, "actors", [type, id])}>
      {type} <Name of={id} />
    </a>
  );
}

// Sender names who has sent a message.
export function Sender({ app, of }: { app: string; of: MessageDetails | undefined }) {
  const from = of?.from;
  if (!from) return <>a caller from outside</>;
  return (
    <a href={href(app, "actors", [from.type, from.id])}>
      {from.type} <Name of={from.id} />
    </a>
  );
}

// WhatFailed names a dead letter: a firing by its reminder, a message by its method and sender.
export function WhatFailed({ app, of }: { app: string; of: DeadLetter }) {
  const message = of.reminder?.message;
  if (!message) return <Name of={of.reminder?.name ?? ""} />;
  return (
    <>
      message <code>{of.reminder?.spec?.method}</code> of <Sender app={app} of={message} />
    </>
  );
}

export function Reminders({ route }: { route: Route }) {
  const { app } = route;
  const type = route.query.get("type") ?? "";
  const id = route.query.get("id") ?? "";
  const [typedID, setTypedID] = useState(id);
  const types = useLoad(async (signal) => (await modules.listTypes({ app }, { signal })).types.map((t) => t.type?.name ?? ""), [app]);
  const names = [...new Set([...(types.data ?? []), subscriptionType, ...(type ? [type] : [])])];
  return (
    <Page title="Reminders">
      <form
        role="search"
        class="search"
        onSubmit={(e) => {
          e.preventDefault();
          location.hash = href(app, "reminders", [], { type, id: type ? typedID : "" });
        }}
      >
        <div class="field">
          <label for="of">Of the type</label>
          <select id="of" value={type} onChange={(e) => (location.hash = href(app, "reminders", [], { type: e.currentTarget.value }))}>
            <option value="">all types</option>
            {names.map((n) => (
              <option key={n} value={n}>
                {n === subscriptionType ? "subscriptions" : n}
              </option>
            ))}
          </select>
        </div>
        {type && (
          <>
            <Field label={type === subscriptionType ? "Of the subscription" : "Of the actor with the ID"} value={typedID} maxLength={512} onInput={(e) => setTypedID(e.currentTarget.value)} />
            <button type="submit">Show</button>
          </>
        )}
      </form>
      <List key={`${type}\n${id}`} app={app} type={type} id={id} />
      <DeadLetters key={`dead ${type}`} app={app} type={type} />
      <Buckets app={app} />
    </Page>
  );
}

function List({ app, type, id }: { app: string; type: string; id: string }) {
  const session = useSession();
  const [token, setToken] = useState("");
  const [deleting, setDeleting] = useState<Reminder>();
  const change = useAction();
  const list = useLoad((signal) => reminders.listReminders({ app, type, id, pageSize: 100, pageToken: token }, { signal }), [app, type, id, token], token ? 0 : 5_000);
  const run = (f: () => Promise<unknown>) =>
    change.run(f).then((ok) => {
      if (ok) {
        setDeleting(undefined);
        list.reload();
      }
    });
  const nameOf = (r: Reminder) => ({ app, type: r.actor?.type ?? "", id: r.actor?.id ?? "", name: r.name });
  return (
    <Section title="Scheduled">
      {change.problem && !deleting && <Failure of={change.problem} />}
      <Show of={list}>
        {(l) => (
          <>
            <Table
              label="Reminders"
              keyOf={keyOf}
              rows={l.reminders}
              empty={
                <>
                  No reminder is set{type ? " here" : " in this app"}. Actors set them in their methods, others with <code>greenroom reminders create</code>.
                </>
              }
              columns={[
                { name: "Of", cell: (r) => <ActorLink app={app} of={r} /> },
                { name: "Name", cell: (r) => <Name of={r.name} /> },
                { name: "Method", cell: (r) => (r.spec?.method ? <code>{r.spec.method}</code> : "") },
                { name: "Schedule", cell: (r) => <Text of={schedule(r.spec?.schedule)} most={80} /> },
                { name: "Due", cell: (r) => <Time at={r.fireAt ?? r.due} /> },
                { name: "Payload", number: true, cell: (r) => bytes(r.payloadSize) },
                {
                  name: "Status",
                  cell: (r) => (
                    <>
                      {r.paused && <Badge kind="warn">paused</Badge>}
                      {r.failures > 0 && (
                        <>
                          <Badge kind="bad">failed {r.failures}×</Badge> <Text of={r.lastError} most={120} />
                        </>
                      )}
                    </>
                  ),
                },
                {
                  name: "",
                  cell: (r) =>
                    may(session, Role.INVOKE) && (
                      <span class="actions">
                        <button
                          type="button"
                          disabled={change.busy}
                          onClick={() => void run(() => (r.paused ? reminders.resumeReminders(nameOf(r)) : reminders.pauseReminders(nameOf(r))))}
                        >
                          {r.paused ? "Resume" : "Pause"}
                        </button>
                        <button type="button" class="danger" onClick={() => setDeleting(r)}>
                          Delete…
                        </button>
                      </span>
                    ),
                },
              ]}
            />
            <Pages first={token === ""} next={l.nextPageToken} onFirst={() => setToken("")} onNext={() => setToken(l.nextPageToken)} />
          </>
        )}
      </Show>
      {deleting && (
        <Confirm
          title="Delete this reminder?"
          action="Delete"
          busy={change.busy}
          problem={change.problem}
          onClose={() => {
            change.clear();
            setDeleting(undefined);
          }}
          onConfirm={() => void run(() => reminders.deleteReminders(nameOf(deleting)))}
        >
          <p>
            <Name of={deleting.name} /> of {deleting.actor?.type} <Name of={deleting.actor?.id ?? ""} /> does not fire any more.
          </p>
        </Confirm>
      )}
    </Section>
  );
}

function DeadLetters({ app, type }: { app: string; type: string }) {
  const session = useSession();
  const [token, setToken] = useState("");
  const change = useAction();
  const list = useLoad((signal) => reminders.listDeadLetters({ app, type, kind: DeadLetterKind.ALL, pageSize: 100, pageToken: token }, { signal }), [app, type, token], token ? 0 : 10_000);
  const run = (f: () => Promise<unknown>) => void change.run(f).then((ok) => ok && list.reload());
  return (
    <Section title="Dead letters" note="Firings and messages that failed as often as their policies allow.">
      {change.problem && <Failure of={change.problem} />}
      <Show of={list}>
        {(l) => (
          <>
            <Table<DeadLetter>
              label="Dead letters"
              keyOf={(d) => d.id}
              rows={l.deadLetters}
              empty="No dead letters: no firing and no message has used up its attempts."
              columns={[
                { name: "Of", cell: (d) => <ActorLink app={app} of={d.reminder} /> },
                { name: "What", cell: (d) => <WhatFailed app={app} of={d} /> },
                { name: "Failed", cell: (d) => <Time at={d.failedAt} /> },
                { name: "Why", cell: (d) => <Text of={d.reason} most={200} /> },
                {
                  name: "",
                  cell: (d) =>
                    may(session, Role.INVOKE) && (
                      <span class="actions">
                        <button type="button" disabled={change.busy} onClick={() => run(() => reminders.retryDeadLetter({ app, id: d.id }))}>
                          Try again
                        </button>
                        {may(session, Role.DEPLOY) && (
                          <button type="button" class="danger" disabled={change.busy} onClick={() => run(() => reminders.deleteDeadLetter({ app, id: d.id }))}>
                            Delete
                          </button>
                        )}
                      </span>
                    ),
                },
              ]}
            />
            <Pages first={token === ""} next={l.nextPageToken} onFirst={() => setToken("")} onNext={() => setToken(l.nextPageToken)} />
          </>
        )}
      </Show>
    </Section>
  );
}

function Buckets({ app }: { app: string }) {
  const [token, setToken] = useState("");
  const list = useLoad((signal) => reminders.listBuckets({ app, pageSize: 100, pageToken: token }, { signal }), [app, token], token ? 0 : 10_000);
  return (
    <Section title="Buckets" note="Up to 100,000 reminders each, and the server that delivers them.">
      <Show of={list}>
        {(l) => (
          <>
            <Table
              label="Buckets"
              keyOf={(b) => `${b.vector} ${b.firstToken}`}
              rows={l.buckets}
              empty="The app has no bucket yet: its first reminder makes one."
              columns={[
                { name: "Tokens from", cell: (b) => <code>{`${b.prefix} ${b.firstToken} ${b.vector}`}</code> },
                { name: "Handed out", number: true, cell: (b) => count(b.used) },
                { name: "Delivered by", cell: (b) => (b.owner ? <code>{b.owner.slice(0, 12)}</code> : <Badge kind="warn">no owner now</Badge>) },
                { name: "Epoch", number: true, cell: (b) => String(b.epoch) },
                { name: "Firings/s", number: true, cell: (b) => count(b.rate) },
                { name: "Status", cell: (b) => (b.closed ? "closed" : "open") },
                { name: "Created", cell: (b) => <Time at={b.createdAt} /> },
              ]}
            />
            <Pages first={token === ""} next={l.nextPageToken} onFirst={() => setToken("")} onNext={() => setToken(l.nextPageToken)} />
          </>
        )}
      </Show>
    </Section>
  );
}
