/** The calls of an apply of named documents; each lookup is a network request. */
import { expect, it } from "vitest";
import type { Perdure as Engine } from "../../core/api.ts";
import { PerdureError } from "../../core/errors.ts";
import type { JobsFilter } from "../../core/job/jobs-filter.ts";
import { dialectOf } from "../../dialects/registry.ts";
import { DIALECT_DEFAULTS } from "../../dialects/settings.ts";
import { Perdure } from "../../embedded/perdure.ts";
import type { JobToStore } from "./named-jobs.ts";
import { submitAll } from "./named-jobs.ts";

const dialect = dialectOf("agent-task");

function wanted(i: number, maxAttempts = 2): JobToStore {
  const document = {
    ...{ apiVersion: "core.hortator.ai/v1alpha1", kind: "AgentTask", metadata: { name: `t${i}` } },
    spec: { prompt: "Do it.", command: ["agent"], retry: { maxAttempts } },
  };
  const [entry] = dialect.read(document, {
    ...{ settings: DIALECT_DEFAULTS, parameters: {}, documents: [], file: "t.yaml" },
    ...{ yaml: () => null, bytes: () => null, randomBytes: (count: number) => new Uint8Array(count) },
  }).jobs;
  if (entry === undefined) throw new Error("no job");
  return {
    ...{ where: "t.yaml:1:1", dialect: "agent-task" },
    entry: { ...entry, options: { ...entry.options, key: dialect.named?.key(entry) as string } },
  };
}

it("adds that applying again is safe if the connection broke", async () => {
  const lost = new PerdureError("server_unreachable", "http://h cannot be reached");
  const broken = { jobs: async () => ({ jobs: [], next: null }), job: () => Promise.reject(lost) };
  const again = "http://h cannot be reached; apply again: a job that was stored is found by its name";
  const all = { ...broken, submitMany: () => Promise.reject(lost) };
  await expect(submitAll(all, [wanted(0)], null)).rejects.toThrow(again);
  // Other kinds of files have no name: their jobs would be stored twice.
  const plain: JobToStore = { entry: { task: "later" }, where: "a.yaml:1:1" };
  await expect(submitAll(all, [wanted(0), plain], null)).rejects.toThrow(/reached$/);
  const some = { ...broken, submitMany: async () => [lost, lost].map((error) => ({ ok: false, error }) as const) };
  const answers = await submitAll(some, [wanted(0), plain], null);
  expect(answers.map((each) => !each.ok && each.message)).toEqual([again, "http://h cannot be reached"]);
});

it("compares only documents whose jobs exist already, a bounded number at a time", async () => {
  await using library = await Perdure.open(":memory:");
  let [searches, open, most] = [0, 0, 0];
  const counted: Pick<Engine, "jobs" | "job" | "submitMany"> = {
    job: (id) => library.job(id),
    submitMany: (entries) => library.submitMany(entries),
    async jobs(filter?: JobsFilter) {
      searches += 1;
      open += 1;
      most = Math.max(most, open);
      await new Promise((resolve) => setImmediate(resolve));
      return library.jobs(filter).finally(() => (open -= 1));
    },
  };
  const all = Array.from({ length: 40 }, (_, i) => wanted(i));
  const first = await submitAll(counted, all, null);
  expect([first.every(({ ok }) => ok), searches]).toEqual([true, 0]);
  const mixed = [...all.slice(0, 39), wanted(39, 5), wanted(40)];
  const again = await submitAll(counted, mixed, null);
  // In this order: those that exist, the one that differs only in its policy, the new one.
  expect(again.map(({ ok }) => ok)).toEqual([...all.slice(0, 39).map(() => true), false, true]);
  expect(again[39]).toMatchObject({ message: expect.stringContaining("spec.retry.maxAttempts: 2 -> 5") });
  expect([searches, most, (await library.jobs({ limit: 100 })).jobs.length]).toEqual([40, 16, 41]);
});

it("does not submit a document that differs by the command of a job: that would redrive a failed child", async () => {
  await using library = await Perdure.open(":memory:");
  await submitAll(library, [wanted(0)], null);
  const submits: number[] = [];
  const watched: Pick<Engine, "jobs" | "job" | "submitMany"> = {
    ...{ job: (id) => library.job(id), jobs: (filter) => library.jobs(filter) },
    submitMany(entries) {
      submits.push(entries.length);
      return library.submitMany(entries);
    },
  };
  const parent = "job_01m7gekg9zevv9a6xvvwmt1v8g";
  const answers = await submitAll(watched, [wanted(0, 5), wanted(1)], parent);
  expect([answers.map(({ ok }) => ok), submits]).toEqual([[false, true], [1]]);
});
