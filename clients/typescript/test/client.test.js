// Against the `hepm serve` at HEPM_URL, which knows runs that call get_order, then refund.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { Hepm, HepmError, RefusedError, TimedOutError, UnreachableError } from "hepm";

const hepm = new Hepm();
const fail = (/** @type {unknown} */ error) => {
  throw error;
};
const wish = "Refund parcel 7, the glass is broken.";
const tools = ["get_order", "refund", "close_ticket"].map((name) => ({ type: "function", function: { name } }));

/**
 * A server of one's own, for what hepm serve would not do.
 * @param {import("node:http").RequestListener} answer
 * @param {(url: string) => Promise<void>} use
 */
async function answering(answer, use) {
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  try {
    await use(`http://127.0.0.1:${port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("a session is told the next tools, and its run is stored with its calls and its outcome", async () => {
  const session = hepm.session("ts-ticket-7", { tools, user: "ada", onError: fail });
  session.say("user", wish);
  const first = await session.hint();
  assert.match(first.present, /Suggested next tools: get_order/);
  assert.deepEqual(first.tools.map(({ tool }) => tool), ["get_order"]);
  session.call("get_order", { parcel: 7 }, { state: "delivered" });
  session.call("refund", { parcel: 7 }, "no such account", { error: true });
  session.say("assistant", "Nothing can be refunded.");
  assert.deepEqual(await session.record(), { run: "ts-ticket-7", messages: 6 });
  for (let time = 0; time < 2; time++) {
    assert.deepEqual(await session.finish({ success: false }), {
      session: "ts-ticket-7",
      run: "ts-ticket-7",
      stored: true,
    });
  }
  const run = await hepm.request("GET /api/run", { id: "ts-ticket-7" });
  assert.equal(run.success, false);
  const calls = /** @type {Record<string, unknown>[]} */ (run.turns.flatMap(({ calls }) => calls));
  assert.deepEqual(calls.map(({ name, arguments: args, result, error }) => [name, args, result, error]), [
    ["get_order", '{"parcel": 7}', '{"state":"delivered"}', false],
    ["refund", '{"parcel": 7}', "no such account", true],
  ]);
});

test("suggestions, searches, shortlists and the report are answered", async () => {
  const { tools: next } = await hepm.suggest({ session_id: "ts-asks", history: ["get_order"] });
  assert.equal(next[0]?.tool, "refund");
  const { situations } = await hepm.search("refund a broken parcel", { k: 3 });
  assert.ok(situations.some(({ called_next }) => called_next.includes("refund")));
  const { tools: kept } = await hepm.shortlist("refund it", tools);
  assert.deepEqual(kept, tools);
  assert.match((await hepm.report()).sentence, /runs/);
  assert.equal((await hepm.health()).status, "ok");
});

test("a refusal says what was refused and why", async () => {
  /** @type {[() => Promise<unknown>, number, RegExp][]} */
  const refused = [
    [() => hepm.outcome("nobody", { success: true }), 404, /POST \/outcome \(404\).*nobody/],
    [() => hepm.request("GET /api/run", { id: "none" }), 404, /no run 'none'/],
    // @ts-expect-error: it is none
    [() => hepm.outcome("ts-ticket-7", { success: "yes" }), 400, /success: input should be a valid boolean/],
    [() => hepm.suggest({ session_id: "", history: [] }), 400, /session_id/],
  ];
  for (const [ask, status, said] of refused) {
    await assert.rejects(ask, (error) => error instanceof RefusedError && error.status === status && said.test(error.message));
  }
});

test("a server that is not there, is late, or is something else is said to be so", async () => {
  let nowhere = "";
  await answering(() => {}, async (url) => void (nowhere = url));
  const nobody = new Hepm({ url: nowhere, retries: 0 });
  await assert.rejects(nobody.health(), (error) => error instanceof UnreachableError && /ECONNREFUSED.*is hepm serve running/.test(error.message));
  assert.throws(() => new Hepm({ url: "localhost:8765" }), HepmError);
  await answering(() => {}, async (url) => {
    const late = new Hepm({ url, timeoutMs: 50 });
    await assert.rejects(late.health(), (error) => error instanceof TimedOutError && /within 50 ms/.test(error.message));
    const leaving = new AbortController();
    const asked = late.report({ timeoutMs: 60_000, signal: leaving.signal });
    leaving.abort(new Error("the user left"));
    await assert.rejects(asked, /the user left/);
  });
  await answering((_, response) => response.end("<html>"), async (url) => {
    await assert.rejects(new Hepm({ url }).report(), /something other than JSON/);
  });
});

test("a request that may pass later is sent again, and a redirect never takes the token away", async () => {
  let asked = 0;
  await answering((_, response) => {
    response.statusCode = ++asked < 3 ? 503 : 200;
    response.end('{"session": "s", "stored": true}');
  }, async (url) => {
    assert.deepEqual(await new Hepm({ url }).outcome("s", { reward: 1 }), { session: "s", stored: true });
    assert.equal(asked, 3);
  });
  await answering((request, response) => {
    assert.equal(request.url, "/health");
    response.writeHead(302, { location: "/elsewhere" }).end();
  }, async (url) => {
    await assert.rejects(new Hepm({ url, token: "token-of-ada", retries: 0 }).health(), UnreachableError);
  });
});

test("an agent whose memory is gone goes on without hints, and its end says that", async () => {
  /** @type {unknown[]} */
  const errors = [];
  const session = new Hepm({ url: "http://127.0.0.1:9", retries: 0 }).session("s", { onError: (error) => errors.push(error) });
  session.say("user", wish);
  assert.deepEqual(await session.hint(), { run: "", stable: "", present: "", tools: [] });
  assert.equal(await session.record(), undefined);
  assert.equal(errors.length, 2);
  /** @type {Record<string, unknown>} */
  const circular = {};
  circular["self"] = circular;
  session.call("odd", circular, 10n);
  await assert.rejects(session.finish({ success: true }), UnreachableError);
});
