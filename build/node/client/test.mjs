// Calls the counter example over every protocol, with a client generated from
// our protos. Usage: node test.mjs http://127.0.0.1:8080
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { ActorService } from "./gen/greenroom/v1/actor_pb.js";
import { ErrorDetailSchema } from "./gen/greenroom/v1/error_pb.js";
import { ModuleService } from "./gen/greenroom/v1/module_pb.js";

const baseUrl = process.argv[2];
if (!baseUrl) {
  console.error("usage: node test.mjs URL");
  process.exit(2);
}

const token = process.env.GREENROOM_TOKEN;
const interceptors = token
  ? [(next) => (req) => (req.header.set("Authorization", `Bearer ${token}`), next(req))]
  : [];
const common = { baseUrl, interceptors };
const transports = {
  "Connect, HTTP/1.1": createConnectTransport({ ...common, httpVersion: "1.1" }),
  "Connect, HTTP/1.1, JSON": createConnectTransport({ ...common, httpVersion: "1.1", useBinaryFormat: false }),
  "Connect, HTTP/1.1, GET": createConnectTransport({ ...common, httpVersion: "1.1", useHttpGet: true }),
  "Connect, HTTP/2": createConnectTransport({ ...common, httpVersion: "2" }),
  "gRPC": createGrpcTransport(common),
  "gRPC-Web, HTTP/1.1": createGrpcWebTransport({ ...common, httpVersion: "1.1" }),
  "gRPC-Web, HTTP/2": createGrpcWebTransport({ ...common, httpVersion: "2" }),
};

const encode = (value) => new TextEncoder().encode(JSON.stringify(value));
const decode = (bytes) => JSON.parse(new TextDecoder().decode(bytes));

// refused returns the code and the detail of the error that call fails with.
async function refused(call) {
  try {
    await call;
  } catch (err) {
    const connectError = ConnectError.from(err);
    const [detail] = connectError.findDetails(ErrorDetailSchema);
    assert.ok(detail, `error without ErrorDetail: ${connectError.message}`);
    return { code: connectError.code, detail };
  }
  assert.fail("the call succeeded");
}

for (const [name, transport] of Object.entries(transports)) {
  const actors = createClient(ActorService, transport);
  const modules = createClient(ModuleService, transport);
  const actor = { type: "Counter", id: `node/${randomUUID()}||a b 🎭` };

  let res = await actors.invoke({ actor, method: "Add", payload: encode({ amount: 40 }) });
  assert.deepEqual(decode(res.payload), { count: 40 });
  res = await actors.invoke({ actor, method: "Add", payload: encode({ amount: 2 }) });
  assert.deepEqual(decode(res.payload), { count: 42 });
  assert.ok(res.version > 0n);

  const query = await actors.query({ actor, method: "Get" });
  assert.deepEqual(decode(query.payload), { count: 42 });
  const state = await actors.getState({ actor });
  assert.equal(state.version, res.version);

  let { code, detail } = await refused(actors.query({ actor, method: "Add" }));
  assert.equal(code, Code.FailedPrecondition);
  assert.equal(detail.kind, "not_read_only");
  assert.equal(detail.actorId, actor.id);

  const most = (2n ** 63n - 1n).toString();
  ({ detail } = await refused(
    actors.invoke({ actor, method: "Add", payload: new TextEncoder().encode(`{"amount":${most}}`) }),
  ));
  assert.equal(detail.kind, "guest_error");
  assert.equal(detail.guest?.code, "overflow");

  ({ code, detail } = await refused(actors.invoke({ actor: { type: "Counter" }, method: "Add" })));
  assert.equal(code, Code.InvalidArgument);
  assert.equal(detail.kind, "invalid_argument");

  const { types } = await modules.listTypes({});
  assert.ok(types.some((t) => t.type?.name === "Counter"));
  await actors.deleteActor({ actor });
  ({ code } = await refused(actors.getActor({ actor })));
  assert.equal(code, Code.NotFound);
  console.log(`ok  ${name}`);
}
process.exit(0); // HTTP/2 sessions would keep the process for a while
