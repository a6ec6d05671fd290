import { expect, it } from "vitest";
import { testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import { mergedOver, parseRunData, startRunData } from "./run-data.ts";

const start = (workload: Record<string, unknown>, inputs: Record<string, unknown>) =>
  startRunData(testPlaybook([testStep("a")], { workload }), { inputs, workload: null }, "job_1", Date.UTC(2026, 0, 1));

it("merges the input over the defaults, objects deep and lists replaced", () => {
  const filled = start({ a: { x: 1, y: 2 }, list: [1, 2], only: true }, { a: { y: 3 }, list: [9], more: 0 });
  expect(filled).toEqual({
    ok: true,
    value: {
      inputs: { a: { y: 3 }, list: [9], more: 0 },
      workload: { a: { x: 1, y: 3 }, list: [9], only: true, more: 0 },
    },
  });
});

it("fills defaults one after another, with the input", () => {
  const workload = { base: "http://{{ inputs.host }}", url: "{{ base }}/{{ run.id }}", day: "{{ now }}", host: "h" };
  expect(start(workload, { host: "x.test" })).toMatchObject({
    value: {
      workload: { base: "http://x.test", url: "http://x.test/job_1", day: "2026-01-01T00:00:00.000Z", host: "x.test" },
    },
  });
});

it("never fills a text of the input", () => {
  const hostile = "{{ workload.secret }}{% x %}";
  expect(start({ a: "{{ inputs.a }}", b: "default" }, { a: hostile, b: hostile, c: hostile })).toMatchObject({
    ok: true,
    value: { workload: { a: hostile, b: hostile, c: hostile } },
  });
});

it("reports a name that does not exist, with its place", () => {
  const refused = start({ a: { b: ["{{ inputs.citi }}"] } }, { city: "Oslo" });
  expect(refused).toMatchObject({ ok: false, failure: { class: "invalid", code: "undefined" } });
  expect(refused.ok ? "" : refused.failure.message).toMatch(/^workload\.a\.b\[0\]: .*citi/);
});

it("keeps keys that mean something to JavaScript as plain keys", () => {
  const over = JSON.parse('{"__proto__": {"polluted": 1}}');
  const merged = mergedOver({ a: 1 }, over);
  expect(JSON.stringify(merged)).toBe('{"a":1,"__proto__":{"polluted":1}}');
  expect(({} as { polluted?: number }).polluted).toBe(undefined);
  expect(parseRunData('{"inputs":{"a":1},"workload":null,"returnStep":"x"}')).toEqual({
    inputs: { a: 1 },
    workload: null,
    returnStep: "x",
  });
});

it("checks the input of a run below, and fills in its defaults", () => {
  const playbook = testPlaybook([testStep("a")], {
    inputs: { city: { type: "string", required: true }, days: { type: "integer", default: 3 } },
  });
  const of = (inputs: Record<string, unknown>) => startRunData(playbook, { inputs, workload: null }, "job_1", 0);
  expect(of({ city: "Oslo" })).toMatchObject({
    ok: true,
    value: { inputs: { city: "Oslo", days: 3 }, workload: { days: 3 } },
  });
  const refused = of({ city: 7, dais: 1 });
  expect(refused).toMatchObject({ ok: false, failure: { class: "invalid", code: "input" } });
  expect(refused.ok ? "" : refused.failure.message).toMatch(/unknown input "dais".*city/s);
});
