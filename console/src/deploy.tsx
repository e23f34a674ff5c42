// Deploys a module from a file. The dialog shows what the module changes before it is switched over.
import { useRef, useState } from "preact/hooks";
import { Code, ConnectError } from "@connectrpc/connect";
import { modules, upload } from "./api";
import { compareModule, type Change } from "./changes";
import { useAction } from "./load";
import { useSession } from "./session";
import { bytes, short, Text } from "./text";
import { Badge, Dialog, Facts, Failure, Field } from "./ui";
import type { Module, ServedType } from "./gen/greenroom/v1/module_pb";

export function DeployBox({ app, served, onDeployed }: { app: string; served: ServedType[]; onDeployed: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  const abort = useRef<AbortController | undefined>(undefined);
  const [over, setOver] = useState(false);
  const [module, setModule] = useState<Module>();
  const [done, setDone] = useState("");
  const check = useAction();
  const session = useSession();
  const take = (file: File | undefined) => {
    if (!file) return;
    setDone("");
    abort.current = new AbortController();
    const { signal } = abort.current;
    void check.run(async () => {
      if (file.size > session.maxModuleBytes) {
        throw new ConnectError(`The file has ${bytes(file.size)}; this server takes modules of at most ${bytes(session.maxModuleBytes)} (--max-module).`, Code.ResourceExhausted);
      }
      setModule(await upload(app, file, signal));
    });
  };
  return (
    <section aria-label="Deploy">
      <div
        class={`drop${over ? " over" : ""}`}
        onDragOver={(e) => {
          e.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(e) => {
          e.preventDefault();
          setOver(false);
          take(e.dataTransfer?.files[0]);
        }}
      >
        {check.busy ? (
          <p role="status">
            The server checks and compiles the module…{" "}
            <button type="button" onClick={() => abort.current?.abort()}>
              Cancel
            </button>
          </p>
        ) : (
          <p>
            Drop a <code>.wasm</code> file here, or{" "}
            <button type="button" onClick={() => input.current?.click()}>
              choose one
            </button>
            . You see what it changes before it is switched over.
          </p>
        )}
        <input
          ref={input}
          type="file"
          accept=".wasm,application/wasm"
          hidden
          aria-label="Module to deploy"
          onChange={(e) => {
            take(e.currentTarget.files?.[0]);
            e.currentTarget.value = "";
          }}
        />
      </div>
      {check.problem && <Failure of={check.problem} />}
      {done && (
        <div class="box good" role="status">
          {done}
        </div>
      )}
      {module && (
        <Switch
          app={app}
          module={module}
          served={served}
          onClose={() => setModule(undefined)}
          onDone={(text) => {
            setModule(undefined);
            setDone(text);
            onDeployed();
          }}
        />
      )}
    </section>
  );
}

const kinds: Record<Change["kind"], "good" | "warn" | "plain"> = { new: "good", changed: "warn", same: "plain" };

function Switch({ app, module, served, onClose, onDone }: { app: string; module: Module; served: ServedType[]; onClose: () => void; onDone: (text: string) => void }) {
  const [message, setMessage] = useState("");
  const [force, setForce] = useState(false);
  const deploy = useAction();
  const changes = compareModule(module, served);
  return (
    <Dialog title="The module is valid. Deploy it?" onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void deploy.run(async () => {
            const r = await modules.deploy({ app, digest: module.digest, message, force });
            const names = r.deployments.map((d) => `${d.type} (generation ${d.generation})`).join(", ");
            onDone([`Deployed ${names}.`, ...r.warnings].join(" "));
          });
        }}
      >
        <Facts
          of={[
            ["Module", <code>{short(module.digest)}</code>],
            ["Size", bytes(module.size)],
            ["Built with", module.sdk || "unknown"],
          ]}
        />
        <ul class="changes">
          {changes.map((c) => (
            <li key={c.type}>
              <Badge kind={kinds[c.kind]}>{c.kind}</Badge> <strong>{c.type}</strong>: {c.what.join("; ")}
              {c.warnings.map((w) => (
                <p key={w} class="note badtext">
                  <Text of={w} />
                </p>
              ))}
            </li>
          ))}
        </ul>
        <Field label="Message for the history (may be empty)" maxLength={1024} value={message} onInput={(e) => setMessage(e.currentTarget.value)} />
        {deploy.problem && <Failure of={deploy.problem} />}
        {deploy.problem?.kind === "schema_rollback" && (
          <label>
            <input type="checkbox" checked={force} onChange={(e) => setForce(e.currentTarget.checked)} /> Deploy it all the same
          </label>
        )}
        <div class="actions">
          <button type="submit" disabled={deploy.busy}>
            {deploy.busy ? "Deploying…" : "Deploy"}
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
