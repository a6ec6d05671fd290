/** Input schemas of any library that follows Standard Schema: checked at submit if the task is known, and before the
 *  handler, which gets the schema's output. */
import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { Perdure as Client } from "../src/client/index.ts";
import { PerdureError, type StandardSchema, task } from "../src/index.ts";
import { openTestEngine } from "../src/testing/index.ts";

const handle = (input: { day: string; copies: number }) => `${input.day} x ${input.copies}`;
/** Written by hand, and asynchronous: the interface is all it needs. */
const own: StandardSchema<{ day: string; copies: number }> = {
  "~standard": {
    version: 1,
    vendor: "own",
    validate: async (value) => {
      const { day, copies } = (value ?? {}) as { day?: unknown; copies?: unknown };
      if (typeof day === "string" && typeof copies === "number") return { value: { day, copies } };
      return { issues: [{ message: "expected a number", path: [{ key: "copies" }] }] };
    },
  },
};
const LIBRARIES = [
  ["zod", task("report", { schema: z.object({ day: z.string(), copies: z.number() }) }, handle)],
  ["valibot", task("report", { schema: v.object({ day: v.string(), copies: v.number() }) }, handle)],
  ["arktype", task("report", { schema: type({ day: "string", copies: "number" }) }, handle)],
  ["one's own", task("report", { schema: own }, handle)],
] as const;

describe.each(LIBRARIES)("a schema of %s", (_, report) => {
  it("refuses an invalid input at submit, and accepts a valid one", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.work([report]);
    const wrong = { day: "today", copies: "3" } as never;
    await expect(kit.perdure.submit(report, wrong)).rejects.toMatchObject({
      code: "invalid_payload",
      path: "payload",
      message: expect.stringMatching(/^payload: is not an input of "report": copies: /),
    });
    const right = { day: "today", copies: 3 };
    const answers = await kit.perdure.submitMany([
      { task: report, input: wrong },
      { task: report, input: right },
    ]);
    expect(answers.map((answer) => (answer.ok ? "ok" : answer.error.code))).toEqual(["invalid_payload", "ok"]);
    const job = await kit.perdure.submit(report, right);
    await kit.runToEnd(job);
    expect(await job.result()).toBe("today x 3");
  });

  it("fails a job without retries if its invalid input was submitted by name", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.work([report]);
    const job = await kit.perdure.submit("report", { day: "today" }, { retry: 5 });
    expect(await kit.runToEnd(job)).toMatchObject({ state: "failed", reason: "invalid", attempt: 1 });
    const [attempt] = await job.attempts();
    expect(attempt?.failure).toMatchObject({ name: "InvalidInputError", class: "invalid" });
    expect(attempt?.failure?.message).toContain("the input does not match the task's schema: copies");
  });
});

describe("a schema", () => {
  const remind = task(
    "remind",
    { schema: z.object({ at: z.coerce.date<string>(), note: z.string().default("-") }) },
    (input) => {
      expectTypeOf(input).toEqualTypeOf<{ at: Date; note: string }>();
      return { at: input.at, note: input.note };
    },
  );

  it("passes its output to the handler, and types the input of the submit", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.work([remind]);
    const job = await kit.perdure.submit(remind, { at: "2030-05-01" });
    await kit.runToEnd(job);
    const result = await job.result();
    expectTypeOf(result).toEqualTypeOf<{ at: string; note: string }>();
    expect(result).toEqual({ at: "2030-05-01T00:00:00.000Z", note: "-" });
    expect((await job.get()).payload).toEqual({ at: "2030-05-01" }); // as submitted
  });

  it("is checked by a client before it calls its server", async () => {
    const calls: unknown[] = [];
    const fetch = async (...call: unknown[]) => {
      calls.push(call);
      throw new Error("no server");
    };
    const client = await Client.connect("http://127.0.0.1:1", { token: "t", patience: 0, fetch });
    await expect(client.submit(remind, { at: "someday" })).rejects.toMatchObject({ code: "invalid_payload" });
    const [answer] = await client.submitMany([{ task: remind, input: {} }]);
    expect(answer).toMatchObject({ ok: false, error: { code: "invalid_payload" } });
    expect(calls).toEqual([]);
  });

  it("of a child is checked too, and ends its parent", async () => {
    await using kit = await openTestEngine();
    const parent = task("parent", { retry: 3 }, async (_: undefined, ctx) => {
      await ctx.submit(remind, { at: "someday" });
    });
    await kit.perdure.work([parent, remind]);
    const job = await kit.perdure.submit(parent);
    expect(await kit.runToEnd(job)).toMatchObject({ state: "failed", reason: "rejected", attempt: 1 });
  });

  it("that is invalid is refused when the task is created", () => {
    expect(() => task("bad", { schema: { parse: () => 1 } as never }, () => 1)).toThrow(PerdureError);
  });
});
