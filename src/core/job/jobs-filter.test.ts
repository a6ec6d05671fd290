import { describe, expect, it } from "vitest";
import { checkJobsFilter, FILTER_RULES, type JobsFilter, REDRIVE_FIELDS, toWireFilter } from "./jobs-filter.ts";

const AT = new Date("2026-11-16T09:00:00Z");

/** Each field with what the store and the wire make of it. */
const SAMPLES: { readonly [K in keyof JobsFilter]-?: readonly [NonNullable<JobsFilter[K]>, object, unknown] } = {
  state: ["failed", { state: ["failed"] }, ["failed"]],
  queue: [["a", "b"], { queue: ["a", "b"] }, ["a", "b"]],
  kind: ["exec", { kind: ["exec"] }, ["exec"]],
  tag: ["t", { tag: "t" }, "t"],
  key: ["k", { key: "k" }, "k"],
  name: ["backup-*", { name: "backup-*" }, "backup-*"],
  action: ["core.echo", { action: "core.echo" }, "core.echo"],
  reason: [["exhausted"], { reason: ["exhausted"] }, ["exhausted"]],
  parent: ["job_1", { parentId: "job_1" }, "job_1"],
  steps: [true, { steps: true }, true],
  id: ["01m7", { idPrefix: "job_01m7" }, "01m7"],
  deadLetter: [true, { deadLetter: true }, true],
  submittedAfter: [AT, { submittedAfter: AT.getTime() }, AT.getTime()],
  submittedBefore: [5, { submittedBefore: 5 }, 5],
  order: ["oldest", { order: "oldest" }, "oldest"],
  limit: [7, { limit: 7 }, 7],
  cursor: ["c", { cursor: "c" }, "c"],
};

describe("the table of the jobs filter", () => {
  it.each(Object.entries(SAMPLES))("%s reaches the store and the wire", (field, [given, conditions, wire]) => {
    expect(checkJobsFilter({ [field]: given })).toEqual(conditions);
    expect(toWireFilter({ [field]: given })).toEqual({ [field]: wire });
  });

  it("ignores a field that is undefined, and refuses one that it does not have", () => {
    expect(checkJobsFilter({ tag: undefined } as unknown as JobsFilter)).toEqual({});
    expect(() => checkJobsFilter({ tags: "t" } as unknown as JobsFilter)).toThrow(/jobs\.tags.*tag/s);
  });

  it("has no option of the command line twice", () => {
    const options = FILTER_RULES.flatMap(([, { cli }]) => (cli === undefined ? [] : [cli.name]));
    expect(new Set(options).size).toBe(options.length);
  });

  it("leaves to a redrive what narrows the jobs, and not how they are listed", () => {
    const others = ["steps", "id", "order", "limit", "cursor"];
    expect([...REDRIVE_FIELDS, ...others].sort()).toEqual(Object.keys(SAMPLES).sort());
  });
});
