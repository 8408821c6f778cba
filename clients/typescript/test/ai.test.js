// The real AI SDK with its own mock model, and the `hepm serve` at HEPM_URL.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Hepm } from "hepm";
import { remember } from "hepm/ai";
import * as sdk from "ai";
import * as mocks from "ai/test";

const { generateText, jsonSchema, streamText, tool, wrapLanguageModel } = sdk;
const hepm = new Hepm();
const fail = (/** @type {unknown} */ error) => {
  throw error;
};
/** @type {sdk.Schema<any>} */
const parcel = jsonSchema({ type: "object", properties: { parcel: { type: "integer" } } });
const refused = () => /** @type {string} */ (/** @type {unknown} */ (fail(new Error("no such account"))));
const tools = {
  get_order: tool({ inputSchema: parcel, execute: async () => "delivered" }),
  refund: tool({
    inputSchema: parcel,
    execute: async () => refused(),
  }),
};
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const request = { tools, system: "You serve customers.", prompt: "Refund parcel 7, the glass is broken.", stopWhen: sdk.stepCountIs?.(3) ?? sdk.isStepCount(3) };

/** What the model says in three steps. */
const steps = [
  [{ type: "tool-call", toolCallId: "a", toolName: "get_order", input: '{"parcel":7}' }],
  [{ type: "tool-call", toolCallId: "b", toolName: "refund", input: '{"parcel":7}' }],
  [{ type: "text", text: "Nothing can be refunded." }],
];

/** A model that plays the steps; `prompts` are what it was sent. */
function played() {
  /** @type {any[][]} */
  const prompts = [];
  const next = (/** @type {any} */ { prompt }) => {
    prompts.push(prompt);
    const content = steps[prompts.length - 1] ?? [];
    const unified = content[0]?.type === "text" ? "stop" : "tool-calls";
    return { content, finishReason: { unified, raw: unified } };
  };
  const model = new mocks.MockLanguageModelV4({
    doGenerate: async (/** @type {any} */ options) => /** @type {any} */ ({ ...next(options), usage, warnings: [] }),
    doStream: async (/** @type {any} */ options) => {
      const { content, finishReason } = next(options);
      const parts = content.flatMap((/** @type {any} */ part) =>
        part.type === "text"
          ? [{ type: "text-start", id: "t" }, ...part.text.split(/(?= )/).map((/** @type {string} */ delta) => ({ type: "text-delta", id: "t", delta })), { type: "text-end", id: "t" }]
          : [part],
      );
      const stream = new ReadableStream({
        start(controller) {
          for (const part of [{ type: "stream-start", warnings: [] }, ...parts, { type: "finish", finishReason, usage }]) controller.enqueue(part);
          controller.close();
        },
      });
      return /** @type {any} */ ({ stream });
    },
  });
  return { model, prompts };
}

for (const way of ["generate", "stream"]) {
  test(`an agent that asks its model to ${way} is told the next tools, and its run is recorded`, async () => {
    const session = `ai-${way}`;
    const { model: bare, prompts } = played();
    const model = wrapLanguageModel({ model: bare, middleware: remember(hepm, { session, user: "ada", onError: fail }) });
    const text = way === "generate" ? (await generateText({ model, ...request })).text : await streamText({ model, ...request }).text;
    assert.equal(text, "Nothing can be refunded.");
    await hepm.outcome(session, { success: false });

    const [first, second] = prompts.map((prompt) => prompt.at(-1));
    assert.equal(first.content[0].text, request.prompt);
    assert.match(first.content.at(-1).text, /Suggested next tools: get_order/);
    assert.deepEqual([second.role, /Suggested next tools: refund/.test(second.content[0].text)], ["user", true]);
    assert.deepEqual(prompts[1]?.at(-2).role, "tool"); // results stay as they are
    const run = await hepm.request("GET /api/run", { id: session });
    const calls = /** @type {Record<string, unknown>[]} */ (run.turns.flatMap(({ calls }) => calls));
    assert.deepEqual(calls.map(({ name, arguments: args, result, error }) => [name, args, result, error]), [
      ["get_order", '{"parcel": 7}', "delivered", false],
      ["refund", '{"parcel": 7}', "Error: no such account", true],
    ]);
    assert.equal(run.turns.at(-1)?.text, "Nothing can be refunded.");
    assert.ok(!JSON.stringify(run).includes("hepm-memory"));
  });
}

test("one model serves several runs, each named by its call, and none without a name", async () => {
  const model = wrapLanguageModel({ model: played().model, middleware: remember(hepm) });
  await generateText({ model, ...request, providerOptions: { hepm: { session: "ai-by-call" } } });
  assert.equal((await hepm.request("GET /api/run", { id: "ai-by-call" })).turns.length, 4);
  await assert.rejects(generateText({ model, ...request }), /hepm knows no session of this call/);
});

test("an agent whose memory is gone is answered all the same", async () => {
  /** @type {unknown[]} */
  const errors = [];
  const gone = new Hepm({ url: "http://127.0.0.1:9", retries: 0 });
  const { model: bare, prompts } = played();
  const model = wrapLanguageModel({ model: bare, middleware: remember(gone, { session: "s", onError: (error) => errors.push(error) }) });
  assert.equal((await generateText({ model, ...request })).text, "Nothing can be refunded.");
  assert.equal(errors.length, 6);
  assert.ok(!JSON.stringify(prompts).includes("hepm-memory"));
});
