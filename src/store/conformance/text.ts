/** Payloads and results are returned byte for byte (I18); names, messages and logs as text (F58). */
import fc from "fast-check";
import { expect, test } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import { failure } from "../../core/decision/failure.ts";
import { storable } from "../../lib/text.ts";
import type { Bench } from "./bench.ts";
import { newJob, placeOf, reportOf, T0 } from "./kit.ts";

/** JSON that parsers read alike and printers would write differently. */
const ODD_JSON = [
  "null",
  '  {"a" : 1 , "b":[ ] }\n\t',
  '{"b":1,"a":2,"b":3}',
  "1e2",
  "1e400",
  "-0",
  "123456789012345678901234567890.10",
  '"\\u0000"',
  '"\\ud800 alone"',
  '"\\u00e9 é e\u0301"',
  '"\u2028\u2029\ufeff"',
  '"😀 \\ud83d\\ude00"',
  '"\\/ / \\" \\\\"',
  '{"__proto__":{"x":1},"constructor":null}',
  `${"[".repeat(64)}1${"]".repeat(64)}`,
  '""',
];

/** JSON text with escapes and white space as people and other languages write them. */
const jsonText = fc
  .tuple(fc.json({ maxDepth: 4, stringUnit: "binary" }), fc.constantFrom("", " ", "\n\t"), fc.boolean())
  .map(([text, space, escaped]) => {
    const written = escaped
      ? text.replaceAll(/[^ -~]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
      : text;
    return `${space}${written}${space}`;
  });

export function textTests(bench: Bench): void {
  async function roundTrip(texts: readonly string[]): Promise<void> {
    const session = await bench.open({ kinds: ["echo"], slots: 1_000 });
    await bench.insert(texts.map((payload, i) => ({ payload, kind: "echo", runAt: T0 - texts.length + i })));
    const jobs = await bench.claim(session, texts.length);
    expect(jobs.map((job) => job.payload)).toEqual(texts);
    await bench.settle(
      jobs.map((job) => reportOf(job, { kind: "completed", result: job.payload })),
      T0,
    );
    const rows = await bench.store.jobs(jobs.map((job) => job.id));
    expect(rows.map((row) => row?.payload)).toEqual(texts);
    expect(rows.map((row) => row?.result)).toEqual(texts);
  }

  test("keeps unusual JSON as written", async () => {
    await roundTrip(ODD_JSON);
  });

  test("keeps any JSON text as written", async () => {
    const texts = fc.array(jsonText, { minLength: 1, maxLength: 20 });
    await fc.assert(fc.asyncProperty(texts, roundTrip), { numRuns: IS_FULL ? 25 : 5 });
  });

  test("keeps a text of 1 MiB", async () => {
    await roundTrip([JSON.stringify("x".repeat(1_048_574)), JSON.stringify("é".repeat(524_287))]);
  });

  test("keeps names in any script, wherever a name is allowed", async () => {
    const name = "łódź 😀 \u202e‮ 'quoted\" \\ %_$1 ?";
    const job = newJob({ namespace: name, queue: name, kind: name, key: name, tags: [name], labels: { [name]: name } });
    await bench.store.insert([job], T0);
    const session = { namespace: name, kinds: [name], queues: [name], labels: { [name]: name }, name, host: name };
    const claimed = await bench.take(await bench.open(session));
    expect(claimed).toMatchObject({ id: job.id, namespace: name, queue: name, kind: name, tags: [name] });
    expect(await bench.row(job.id)).toMatchObject({ key: name, labels: { [name]: name } });
    expect((await bench.store.sessions.list())[0]).toMatchObject(session);
    expect((await bench.store.queues.counts(name, T0))[0]).toMatchObject({ namespace: name, queue: name });
  });

  test("keeps messages, stacks, logs and progress as normalized by the text rules", async () => {
    const nasty = storable(`a\0b \ud800 \udc00 ${"é😀".repeat(3_000)}\0`, 2_048);
    const { job, session } = await bench.running();
    await bench.renew(session, [{ ...placeOf(job), log: nasty, progress: JSON.stringify(nasty) }], T0 + 1);
    expect((await bench.row(job.id)).progress).toBe(JSON.stringify(nasty));
    const whole = failure({ kind: "error", message: nasty, stack: nasty, name: nasty, code: nasty });
    await bench.report(job, { kind: "failed", failure: whole }, T0 + 2, { log: nasty });
    expect(await bench.store.attempts(job.id)).toMatchObject([{ failure: whole, log: nasty + nasty }]);
    const ended = (await bench.store.events.page({ after: 0, limit: 9, jobId: job.id })).events.at(-1);
    expect(ended).toMatchObject({ data: { failure: { message: nasty } } });
  });

  test("keeps log text of many renewals in its order", async () => {
    const { job, session } = await bench.running();
    const lines = Array.from({ length: 30 }, (_, i) => `line ${i}\n`);
    for (const [i, log] of lines.entries()) await bench.renew(session, [{ ...placeOf(job), log }], T0 + i);
    await bench.report(job, undefined, T0 + 50, { log: "end\n" });
    expect((await bench.store.attempts(job.id))[0]?.log).toBe(`${lines.join("")}end\n`);
  });

  test("keeps distant times and numbers at their limits", async () => {
    const far = 8.64e15;
    const [a] = await bench.insert([{ runAt: far, deadlineAt: far, timeoutMs: 2 ** 40, expireInMs: 2 ** 45 }]);
    const id = (a as { id: string }).id;
    expect(await bench.row(id)).toMatchObject({
      ...{ runAt: far, deadlineAt: far, timeoutMs: 2 ** 40, expireInMs: 2 ** 45, expiresAt: far + 2 ** 45 },
    });
    expect(await bench.claimAnswer(await bench.open(), 1, T0)).toMatchObject({ jobs: [], nextAt: far });
  });
}
