import { describe, expect, it } from "vitest";
import { task } from "../core/task.ts";
import { checkWork, kindsOf } from "./work-options.ts";

describe("a worker's options", () => {
  it("have defaults", () => {
    expect(checkWork({})).toMatchObject({ slots: 10, queues: null, name: null, labels: {}, stopGraceMs: 5_000 });
  });

  it("make a label of each runtime, beside those of the user", () => {
    const { labels } = checkWork({ labels: { zone: "a" }, runtimes: ["python", "cuda"] });
    expect(labels).toEqual({ zone: "a", "runtime/python": "yes", "runtime/cuda": "yes" });
  });

  it("keep names that begin as a runtime's for runtimes", () => {
    const label = () => checkWork({ labels: { "runtime/python": "yes" } });
    expect(label).toThrow(expect.objectContaining({ code: "invalid_config", path: "work.labels" }));
    expect(label).toThrow(/say it with runtimes/);
  });

  it.each([["python"], [[""]], [[7]], [["x".repeat(193)]]])("refuse %j as runtimes", (runtimes) => {
    expect(() => checkWork({ runtimes: runtimes as never })).toThrow(/work.runtimes/);
  });

  it("name the nearest known one to a misspelt one", () => {
    expect(() => checkWork({ runtime: ["python"] } as never)).toThrow(/Did you mean "runtimes"/);
  });
});

describe("the tasks of a worker", () => {
  it("are a list of tasks, each kind once", () => {
    const [a, b] = [task("a", () => 1), task("b", () => 1)];
    expect(kindsOf([a, b])).toEqual(["a", "b"]);
    expect(() => kindsOf([a, b, task("a", () => 2)])).toThrow(/each kind once/);
    expect(() => kindsOf([])).toThrow(/a list of tasks/);
    expect(() => kindsOf([{ kind: "a" }] as never)).toThrow(/a list of tasks/);
  });
});
