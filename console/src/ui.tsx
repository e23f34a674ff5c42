// Components that pages share.
import type { ComponentChildren, TargetedInputEvent } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Problem } from "./api";
import type { Loaded } from "./load";
import { Text } from "./text";

// Page has a heading, which gets the focus after navigation.
export function Page({ title, actions, children }: { title: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  return (
    <>
      <div class="head">
        <h1 tabIndex={-1}>{title}</h1>
        {actions && <div class="actions">{actions}</div>}
      </div>
      {children}
    </>
  );
}

export function Section({ title, note, actions, children }: { title: string; note?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <div class="head">
        <h2 id={id}>{title}</h2>
        {actions && <div class="actions">{actions}</div>}
      </div>
      {note && <p class="note">{note}</p>}
      {children}
    </section>
  );
}

// Failure shows what went wrong and what to do.
export function Failure({ of, retry }: { of: Problem; retry?: (() => void) | undefined }) {
  return (
    <div class="box bad" role="alert">
      <p>
        <Text of={of.message} /> {of.kind && <code>{of.kind}</code>}
      </p>
      {of.detail?.guest?.code && (
        <p>
          The actor's code: <Text of={of.detail.guest.code} />
        </p>
      )}
      {of.detail && of.detail.faults.length > 0 && (
        <ul>
          {of.detail.faults.map((f) => (
            <li key={f.code + f.message}>
              <code>{f.code}</code> <Text of={f.message} />
            </li>
          ))}
        </ul>
      )}
      {of.remedy && <p>{of.remedy}</p>}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export const Empty = ({ children }: { children: ComponentChildren }) => <div class="box empty">{children}</div>;

// Show shows what was loaded. After a failed request it keeps the last data and says why it is old.
export function Show<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  if (of.data === undefined) {
    if (of.problem) return <Failure of={of.problem} retry={of.reload} />;
    return (
      <p class="loading" role="status">
        Loading…
      </p>
    );
  }
  return (
    <>
      {of.problem && (
        <div class="box bad" role="alert">
          <p>
            This is from {of.at?.toLocaleTimeString()}. <Text of={of.problem.message} /> {of.problem.remedy}
          </p>
          <button type="button" onClick={of.reload}>
            Try again
          </button>
        </div>
      )}
      {children(of.data)}
    </>
  );
}

export interface Column<R> {
  name: string;
  cell: (row: R) => ComponentChildren;
  number?: boolean;
}

// Table is a table; on narrow screens CSS turns each row into a list. The roles are explicit, because
// display: block removes those of the elements.
export function Table<R>({ label, columns, rows, keyOf, empty }: { label: string; columns: Column<R>[]; rows: R[]; keyOf: (row: R) => string; empty: ComponentChildren }) {
  if (rows.length === 0) return <Empty>{empty}</Empty>;
  return (
    <table role="table" aria-label={label}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map((c) => (
            <th key={c.name} role="columnheader" scope="col" class={c.number ? "number" : undefined}>
              {c.name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((r) => (
          <tr key={keyOf(r)} role="row">
            {columns.map((c) => (
              <td key={c.name} role="cell" data-label={c.name} class={c.number ? "number" : undefined}>
                <div>{c.cell(r)}</div>
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// Facts shows names and values.
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export const Badge = ({ kind, children }: { kind: "good" | "warn" | "bad" | "plain"; children: ComponentChildren }) => (
  <span class={`badge ${kind}`}>{children}</span>
);

// Field is an input with its label and a hint.
export function Field({ label, hint, type = "text", ...input }: {
  label: string;
  hint?: ComponentChildren;
  type?: "text" | "password" | "search";
  value: string;
  required?: boolean;
  maxLength?: number;
  onInput: (e: TargetedInputEvent<HTMLInputElement>) => void;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input id={id} type={type as "text"} autocomplete="off" spellcheck={false} aria-describedby={hint ? id + "h" : undefined} {...input} />
      {hint && (
        <p class="note" id={id + "h"}>
          {hint}
        </p>
      )}
    </div>
  );
}

// Dialog is modal. Escape closes it.
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    ref.current?.showModal();
  }, []);
  return (
    <dialog ref={ref} aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

// Confirm asks before an action; with typed, that text must be typed first.
export function Confirm({ title, children, typed, action, busy, problem, onConfirm, onClose }: {
  title: string;
  children: ComponentChildren;
  typed?: string;
  action: string;
  busy: boolean;
  problem: Problem | undefined;
  onConfirm: () => void;
  onClose: () => void;
}) {
  const [text, setText] = useState("");
  const allowed = typed === undefined || text === typed;
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (allowed) onConfirm();
        }}
      >
        {children}
        {typed !== undefined && (
          <Field
            label="Type the name to confirm"
            hint={
              <>
                The name is <Text of={typed} whole />
              </>
            }
            value={text}
            onInput={(e) => setText(e.currentTarget.value)}
          />
        )}
        {problem && <Failure of={problem} />}
        <div class="actions">
          <button type="submit" class="danger" disabled={!allowed || busy}>
            {busy ? "Working…" : action}
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

// Pages has buttons for the first and the next page of a list.
export function Pages({ first, next, onFirst, onNext }: { first: boolean; next: string; onFirst: () => void; onNext: () => void }) {
  if (first && !next) return null;
  return (
    <nav class="pages" aria-label="Pages">
      <button type="button" disabled={first} onClick={onFirst}>
        First page
      </button>
      <button type="button" disabled={!next} onClick={onNext}>
        Next page
      </button>
    </nav>
  );
}
