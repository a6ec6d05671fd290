import { expect, it } from "vitest";
import { parsePlaybookPath } from "./playbooks.ts";
import { checkRunOptions, checkRunsFilter, checkStepsPage } from "./runs.ts";

it("reads paths of the catalog with a version and without", () => {
  expect(parsePlaybookPath("shop/orders@3")).toEqual({ path: "shop/orders", version: 3 });
  expect(parsePlaybookPath("orders")).toEqual({ path: "orders", version: null });
  for (const wrong of ["", "a@0", "a@x", "/a", "a/", "a//b", "../a", "a b", "a@1@2", "a".repeat(201)]) {
    expect(() => parsePlaybookPath(wrong), wrong).toThrow("must be a path of the catalog");
  }
});

it("checks the options of a run, and names a misspelled one", () => {
  expect(checkRunOptions({ key: "a", timeout: "2h" })).toEqual({ key: "a", timeoutMs: 7_200_000 });
  expect(() => checkRunOptions({ tag: ["a"] } as never)).toThrow('Did you mean "tags"');
  expect(() => checkRunOptions({ priority: 10 })).toThrow("run.priority");
});

it("checks filters and pages", () => {
  expect(checkRunsFilter({ state: "running", playbook: "shop/*", tag: "a" })).toMatchObject({ state: "running" });
  expect(() => checkRunsFilter({ state: "blocked" as never })).toThrow("runs.state");
  expect(checkStepsPage({})).toEqual({ after: 0, limit: 100 });
  expect(() => checkStepsPage({ states: ["done" as never] })).toThrow("steps.states");
  expect(() => checkStepsPage({ limit: 1_001 })).toThrow("steps.limit");
});
