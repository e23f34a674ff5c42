// Clients of the API, and the token that they send.
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { ActorService } from "./gen/greenroom/v1/actor_pb";
import { ClusterService } from "./gen/greenroom/v1/cluster_pb";
import { type ErrorDetail, ErrorDetailSchema } from "./gen/greenroom/v1/error_pb";
import { LogService } from "./gen/greenroom/v1/log_pb";
import { type Module, ModuleService, UploadModuleRequestSchema, UploadModuleResponseSchema } from "./gen/greenroom/v1/module_pb";
import { ReminderService } from "./gen/greenroom/v1/reminder_pb";
import { SettingsService } from "./gen/greenroom/v1/settings_pb";
import { StatusService } from "./gen/greenroom/v1/status_pb";

// The token is kept for this tab, until it is closed.
const storageKey = "greenroom.token";
let token = sessionStorage.getItem(storageKey) ?? "";

export function setToken(value: string): void {
  token = value;
  if (value) sessionStorage.setItem(storageKey, value);
  else sessionStorage.removeItem(storageKey);
}
export const hasToken = (): boolean => token !== "";

// refused is called when the server refuses the token, or asks for one.
let refused: () => void = () => {};
export function onRefused(f: () => void): void {
  refused = f;
}

const authenticate: Interceptor = (next) => async (req) => {
  if (token) req.header.set("Authorization", `Bearer ${token}`);
  try {
    return await next(req);
  } catch (e) {
    if (ConnectError.from(e).code === Code.Unauthenticated) refused();
    throw e;
  }
};

const transport = createConnectTransport({
  baseUrl: location.origin,
  useBinaryFormat: true,
  defaultTimeoutMs: 20_000,
  interceptors: [authenticate],
});

export const actors = createClient(ActorService, transport);
export const cluster = createClient(ClusterService, transport);
export const logs = createClient(LogService, transport);
export const modules = createClient(ModuleService, transport);
export const reminders = createClient(ReminderService, transport);
export const settings = createClient(SettingsService, transport);
export const status = createClient(StatusService, transport);

// Problem is an error in words for people.
export interface Problem {
  code: Code;
  kind: string;
  message: string;
  remedy: string;
  detail: ErrorDetail | undefined;
}

const remedies: Partial<Record<Code, string>> = {
  [Code.Unavailable]: "See that the server runs and that this machine reaches it; the console tries again by itself.",
  [Code.DeadlineExceeded]: "The server did not answer in time; it may be busy. Try again.",
  [Code.PermissionDenied]: "Sign in with a token that may do this.",
  [Code.Unauthenticated]: "Sign in with a token of this server.",
  [Code.Unimplemented]: "This server does not have this; see whether it is of an earlier version.",
  [Code.Internal]: "The server's log has the details under the ID in the message.",
};

export function problemOf(e: unknown): Problem {
  const err = ConnectError.from(e);
  const detail = err.findDetails(ErrorDetailSchema)[0];
  // fetch fails with a TypeError where the server cannot be reached.
  const lost = !detail && (e instanceof TypeError || err.cause instanceof TypeError);
  const code = lost ? Code.Unavailable : err.code;
  const message = lost ? "The server cannot be reached." : err.rawMessage;
  return { code, kind: detail?.kind ?? "", message, remedy: remedies[code] ?? "", detail };
}

const chunkBytes = 1 << 20;

// upload sends a module as a client stream. connect-web cannot send client streams, so the envelopes
// are made here.
export async function upload(app: string, file: Blob, signal: AbortSignal): Promise<Module> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const add = (message: Uint8Array) => {
    const envelope = new Uint8Array(5 + message.length);
    new DataView(envelope.buffer).setUint32(1, message.length);
    envelope.set(message, 5);
    parts.push(envelope);
  };
  const send = (content: Parameters<typeof create<typeof UploadModuleRequestSchema>>[1]) =>
    add(toBinary(UploadModuleRequestSchema, create(UploadModuleRequestSchema, content)));
  send({ content: { case: "header", value: { app, size: BigInt(file.size) } } });
  for (let at = 0; at < file.size; at += chunkBytes) {
    const chunk = new Uint8Array(await file.slice(at, at + chunkBytes).arrayBuffer());
    send({ content: { case: "chunk", value: chunk } });
  }
  const headers: Record<string, string> = { "Content-Type": "application/connect+proto", "Connect-Protocol-Version": "1" };
  if (token) headers["Authorization"] = `Bearer ${token}`;
  const url = `${location.origin}/${ModuleService.typeName}/UploadModule`;
  const answer = await fetch(url, { method: "POST", body: new Blob(parts), headers, signal });
  if (!answer.ok) throw new ConnectError(`the server answers ${answer.status}`, answer.status === 401 ? Code.Unauthenticated : Code.Unknown);
  const body = new Uint8Array(await answer.arrayBuffer());
  let module: Module | undefined;
  for (let at = 0; at + 5 <= body.length; ) {
    const size = new DataView(body.buffer, at + 1).getUint32(0);
    const message = body.subarray(at + 5, at + 5 + size);
    if (body[at]! & 2) endOfStream(message);
    else module = fromBinary(UploadModuleResponseSchema, message).module;
    at += 5 + size;
  }
  if (!module) throw new ConnectError("the answer has no module", Code.Internal);
  return module;
}

// endOfStream throws the error that a Connect stream ended with, if it did.
function endOfStream(message: Uint8Array): void {
  const end = JSON.parse(new TextDecoder().decode(message)) as {
    error?: { code?: string; message?: string; details?: { type: string; value: string }[] };
  };
  if (!end.error) return;
  const name = (end.error.code ?? "unknown").replace(/(^|_)(.)/g, (_, __, c: string) => c.toUpperCase());
  const err = new ConnectError(end.error.message ?? "", Code[name as keyof typeof Code] ?? Code.Unknown);
  for (const d of end.error.details ?? []) {
    err.details.push({ type: d.type, value: Uint8Array.from(atob(d.value), (c) => c.charCodeAt(0)) });
  }
  if (err.code === Code.Unauthenticated) refused();
  throw err;
}
