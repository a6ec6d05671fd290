import { availableParallelism, totalmem } from "node:os";
import { describe, expect, it } from "vitest";
import { hostResources } from "../core/input/resources.ts";
import { task } from "../core/task/task.ts";
import { checkWork, kindsOf } from "./work-options.ts";

describe("a worker's options", () => {
  it("have defaults", () => {
    expect(checkWork({})).toMatchObject({ slots: 10, queues: null, name: null, labels: {}, stopGraceMs: 5_000 });
  });

  it("make a label of each runtime, beside those of the user", () => {
    const resources = { cpu: 0, memory: 0 };
    const { labels } = checkWork({ labels: { zone: "a" }, runtimes: ["python", "cuda"], resources });
    expect(labels).toEqual({ zone: "a", "runtime/python": "yes", "runtime/cuda": "yes" });
  });

  it("keep names that begin as a runtime's for runtimes", () => {
    const label = () => checkWork({ labels: { "runtime/python": "yes" } });
    expect(label).toThrow(expect.objectContaining({ code: "invalid_config", path: "work.labels" }));
    expect(label).toThrow(/use the option runtimes/);
  });

  it("have labels for CPU and memory, by default those of the machine", () => {
    const { labels } = checkWork({ resources: { cpu: 1.5, memory: "2g" } });
    expect(labels).toMatchObject({ "resource/cpu": "1500", "resource/memory": String(2 * 2 ** 30) });
    expect(hostResources(labels).cpu).toBe(Math.max(1_500, availableParallelism() * 1_000));
    const machine = { "resource/cpu": String(availableParallelism() * 1_000) };
    expect(checkWork({}).labels).toMatchObject({ ...machine, "resource/memory": expect.stringMatching(/^\d{6,}$/) });
    expect(Number(checkWork({}).labels["resource/memory"])).toBeLessThanOrEqual(totalmem());
    expect(checkWork({ resources: { memory: 1_024 } }).labels).toMatchObject({ ...machine, "resource/memory": "1024" });
    expect(checkWork({ resources: { cpu: 0, memory: 0 } }).labels).toEqual({});
  });

  it.each<[object, string]>([
    [{ resources: { cpu: -1 } }, "work.resources.cpu"],
    [{ resources: { cpu: "2" } }, "work.resources.cpu"],
    [{ resources: { memory: "2 gallons" } }, "work.resources.memory"],
    [{ resources: { cpus: 2 } }, 'Did you mean "cpu"'],
    [{ resources: 4 }, "work.resources"],
    [{ labels: { "resource/cpu": "64000" } }, "use the option resources"],
    [{ labels: { "resource/gpu": "1" } }, "use the option resources"],
  ])("refuse %j", (options, message) => {
    expect(() => checkWork(options)).toThrow(message);
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
    expect(() => kindsOf([a, b, task("a", () => 2)])).toThrow(/has the kind "a" twice/);
    expect(() => kindsOf([])).toThrow(/a list of tasks/);
    expect(() => kindsOf([{ kind: "a" }] as never)).toThrow(/a list of tasks/);
  });
});
