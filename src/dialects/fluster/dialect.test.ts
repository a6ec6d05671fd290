import { describe, expect, it } from "vitest";
import { DIALECT_DEFAULTS } from "../settings.ts";
import { flusterDialect, readFluster } from "./dialect.ts";

const BASE = { name: "flaky-job", entrypoint: ["python", "flaky.py"] };
const PARENT = "job_01m7gekg9zevv9a6xvvwmt1v8g";
const FILL = { FLUSTER_JOB_ID: "jobId", FLUSTER_ATTEMPT_ID: "attemptIndex" };
const read = (parts: object) => readFluster({ ...BASE, ...parts }, DIALECT_DEFAULTS.fluster);
const job = (parts: object = {}) => {
  const { jobs } = read(parts);
  expect(jobs).toHaveLength(1);
  return jobs[0] as (typeof jobs)[number] & { input: Record<string, unknown> };
};

describe("an entrypoint", () => {
  it("is a command as a list, with or without its name", () => {
    expect(job()).toMatchObject({ task: "exec", input: { argv: ["python", "flaky.py"], fill: FILL } });
    expect(job({ entrypoint: { command: ["python", "flaky.py"] } })).toEqual(job());
  });

  it("is a line for a shell only if requested", () => {
    const input = { command: "exit $((RANDOM % 2))", shell: true, fill: FILL };
    expect(job({ entrypoint: { shell: "exit $((RANDOM % 2))" } })).toMatchObject({ task: "exec", input });
    expect(() => job({ entrypoint: "exit 1" })).toThrow(
      expect.objectContaining({ path: "entrypoint", message: expect.stringContaining("shell (a line for a shell)") }),
    );
  });

  it("is a task of a worker with its arguments", () => {
    expect(job({ entrypoint: { task: "flaky", args: { n: 1 } } })).toMatchObject({ task: "flaky", input: { n: 1 } });
    expect(job({ entrypoint: { task: "flaky" } })).not.toHaveProperty("input");
    expect(job({ entrypoint: { task: "flaky", args: null } }).input).toBe(null);
  });

  it("that is a task has no environment and no ports", () => {
    const entrypoint = { task: "flaky" };
    expect(() => job({ entrypoint, ports: ["http"] })).toThrow(expect.objectContaining({ path: "ports" }));
    expect(() => job({ entrypoint, environment: { env_vars: { A: "1" } } })).toThrow(
      expect.objectContaining({ path: "environment.env_vars" }),
    );
    expect(job({ entrypoint, ports: [], environment: { env_vars: {} } })).toMatchObject({ task: "flaky" });
  });

  it.each([
    [undefined, "entrypoint"],
    [7, "entrypoint"],
    [[], "entrypoint"],
    [["a", 7], "entrypoint[1]"],
    [{}, "entrypoint"],
    [{ command: [] }, "entrypoint.command"],
    [{ command: "ls" }, "entrypoint.command"],
    [{ command: ["a", null] }, "entrypoint.command[1]"],
    [{ command: ["a"], shell: "a" }, "entrypoint"],
    [{ shell: "" }, "entrypoint.shell"],
    [{ shell: ["a"] }, "entrypoint.shell"],
    [{ task: "" }, "entrypoint.task"],
    [{ task: "http", args: { url: "ftp://x" } }, "entrypoint.args.url"],
    [{ task: "exec", args: { argvv: ["a"] } }, "entrypoint.args.argvv"],
    [{ command: ["a"], args: 1 }, "entrypoint.args"],
    [{ comand: ["a"] }, "entrypoint.comand"],
  ])("%j is refused", (entrypoint, path) => {
    expect(() => job({ entrypoint })).toThrow(expect.objectContaining({ code: "invalid_config", path }));
  });
});

describe("an environment", () => {
  it("has variables, which are the command's", () => {
    expect(job({ environment: { env_vars: { BUCKET: "gs://b", EMPTY: "" } } }).input.env).toEqual({
      BUCKET: "gs://b",
      EMPTY: "",
    });
    expect(job({ environment: { env_vars: null } }).input).not.toHaveProperty("env");
  });

  it.each([
    [{ env_vars: { N: 1 } }, "environment.env_vars.N"],
    [{ env_vars: { "A-B": "1" } }, 'environment.env_vars["A-B"]'],
    [{ env_vars: { PERDURE_JOB_ID: "1" } }, "environment.env_vars.PERDURE_JOB_ID"],
    [{ env_vars: { FLUSTER_ATTEMPT_ID: "7" } }, "environment.env_vars.FLUSTER_ATTEMPT_ID"],
    [{ env_vars: { FLUSTER_PORT_HTTP: "80" } }, "environment.env_vars.FLUSTER_PORT_HTTP"],
    [{ env_vars: [] }, "environment.env_vars"],
    [{ pip_packages: "numpy" }, "environment.pip_packages"],
    [{ workspace: 7 }, "environment.workspace"],
    [{ env_var: {} }, "environment.env_var"],
    [7, "environment"],
  ])("%j is refused", (environment, path) => {
    expect(() => job({ environment })).toThrow(expect.objectContaining({ code: "invalid_config", path }));
  });

  it("that would have to be built is a note", () => {
    const environment = { workspace: ".", pip_packages: ["numpy"], extras: ["tpu"], env_vars: {} };
    expect(read({ environment }).notes.map((note) => note.split(" ")[0])).toEqual([
      "environment.workspace",
      "environment.pip_packages",
      "environment.extras",
    ]);
    expect(read({ environment: { workspace: "", pip_packages: [], extras: [] } }).notes).toEqual([]);
  });
});

describe("a retry config", () => {
  it.each([
    [{ initial_delay: 90 }, "retry: initial_delay is 90, and every retry waits for the cap of 60 s."],
    [
      { initial_retry_delay_ms: 1_500, max_delay: 1 },
      "retry: initial_retry_delay_ms is 1500, and every retry waits for the cap of 1 s.",
    ],
    [{ max_delay: 0.5 }, "retry: the default delay is 1000 ms, and every retry waits for the cap of 0.5 s."],
    [{ retry_on_exit_codes: [0, 137] }, "retry.retry_on_exit_codes has 0, the exit code of success: it has no effect."],
    [
      { no_retry_on_exit_codes: [0] },
      "retry.no_retry_on_exit_codes has 0, the exit code of success: it has no effect.",
    ],
  ])("that may surprise is noted: %j", (retry, note) => {
    expect(read({ retry: { max_retries_failure: 3, ...retry } }).notes).toEqual([note]);
  });

  it("without retries has no note on delays", () => {
    expect(read({ retry: { initial_delay: 90 } }).notes).toEqual([]);
  });
});

describe("ports", () => {
  it("that clash are reported by the name of the variable", () => {
    expect(() => job({ ports: ["my-port", "MY_PORT"] })).toThrow(
      /"MY_PORT" has the variable FLUSTER_PORT_MY_PORT, which/,
    );
  });

  it("are given by the worker, under fluster's names", () => {
    expect(job({ ports: ["http", "grpc", "my-actor"] }).input).toMatchObject({
      ports: ["http", "grpc", "my-actor"],
      fill: {
        ...FILL,
        FLUSTER_PORT_HTTP: "port.http",
        FLUSTER_PORT_GRPC: "port.grpc",
        FLUSTER_PORT_MY_ACTOR: "port.my-actor",
      },
    });
    expect(job({ ports: [] }).input).not.toHaveProperty("ports");
  });

  it.each([
    ["http", "ports"],
    [[80], "ports[0]"],
    [["80"], "ports[0]"],
    [["http", "HTTP"], "ports[1]"],
    [["a-b", "a_b"], "ports[1]"],
    [["a b"], "ports[0]"],
    [Array.from({ length: 21 }, (_, i) => `p${i}`), "ports"],
  ])("%j are refused", (ports, path) => {
    expect(() => job({ ports })).toThrow(expect.objectContaining({ code: "invalid_config", path }));
  });
});

describe("resources", () => {
  it("are cpu and memory, as they are written", () => {
    expect(job({ resources: { cpu: 1, memory: "512m" } }).options?.resources).toEqual({ cpu: 1, memory: "512m" });
    expect(job({ resources: { memory: "2g" } }).options?.resources).toEqual({ memory: "2g" });
    expect(job({ resources: { cpu: 0 } }).options).not.toHaveProperty("resources");
    expect(job().options).not.toHaveProperty("resources");
  });

  it.each([
    ["512m", 512 * 2 ** 20],
    ["1g", 2 ** 30],
    ["2GB", 2 ** 31],
    [1_000_000, 1_000_000],
    ["1000000", 1_000_000],
  ])("memory of %j is the limit of the command", (memory, bytes) => {
    for (const entrypoint of [["a"], { shell: "a" }, { task: "exec", args: { argv: ["a"] } }]) {
      expect(job({ entrypoint, resources: { memory } }).input.limits).toEqual({ memory: bytes });
    }
    expect(read({ resources: { memory } }).notes).toEqual([]);
  });

  it("memory 0 is no limit, and the lower one applies if the command has its own", () => {
    expect(job({ resources: { cpu: 1, memory: "0" } }).input).not.toHaveProperty("limits");
    const limits = { memory: "100m", openFiles: 9 };
    const entrypoint = { task: "exec", args: { argv: ["a"], limits } };
    expect(job({ entrypoint, resources: { memory: "1g" } }).input.limits).toEqual(limits);
    expect(job({ entrypoint, resources: { memory: 1_000 } }).input.limits).toEqual({ memory: 1_000, openFiles: 9 });
  });

  it("memory of a task is a note: it is a function of a running worker", () => {
    for (const entrypoint of [{ task: "flaky" }, { task: "http", args: { url: "https://a.example" } }]) {
      const { notes, jobs } = read({ entrypoint, resources: { memory: "512m" } });
      expect(notes).toEqual([expect.stringMatching(/^resources\.memory is not enforced: a task is a function/)]);
      expect(jobs[0]?.options?.resources).toEqual({ memory: "512m" });
    }
    expect(read({ entrypoint: { task: "flaky" }, resources: { cpu: 1 } }).notes).toEqual([]);
  });

  it("that are not counted are notes", () => {
    const device = { gpu: { variant: "A100", count: 8 } };
    const resources = { disk: "1g", device, replicas: 2, preemptible: true, regions: ["us"], gpu: 1, tpu: "v4-8" };
    const { notes, jobs } = read({ resources });
    expect(notes.map((note) => note.split(" ")[0])).toEqual([
      ...["resources.disk", "resources.device", "resources.gpu", "resources.tpu"],
      ...["resources.replicas", "resources.preemptible", "resources.regions"],
    ]);
    expect(jobs[0]?.options).not.toHaveProperty("resources");
    const plain = { disk: "0", device: { cpu: {} }, replicas: 1, preemptible: false, regions: [], gpu: 0 };
    expect(read({ resources: plain }).notes).toEqual([]);
  });

  it.each([
    [{ cpu: -1 }, "resources.cpu"],
    [{ cpu: "1" }, "resources.cpu"],
    [{ cpu: 1e9 }, "resources.cpu"],
    [{ memory: "lots" }, "resources.memory"],
    [{ memory: -1 }, "resources.memory"],
    [{ disk: "1x" }, "resources.disk"],
    [{ replicas: 1.5 }, "resources.replicas"],
    [{ regions: "us" }, "resources.regions"],
    [{ preemptible: 1 }, "resources.preemptible"],
    [{ memori: "1g" }, "resources.memori"],
    ["1g", "resources"],
  ])("%j are refused", (resources, path) => {
    expect(() => job({ resources })).toThrow(expect.objectContaining({ code: "invalid_config", path }));
  });
});

describe("a scheduling timeout", () => {
  it("is a limit on each wait for a worker, and final", () => {
    const { options } = job({ scheduling_timeout_seconds: 30 });
    expect(options).toMatchObject({ expireIn: "30s" });
    expect(options?.retry).toMatchObject({ preset: "fluster" }); // which ends a wait that ran out
  });

  it("of 0 is none", () => {
    const { options } = job({ scheduling_timeout_seconds: 0 });
    expect(options).not.toHaveProperty("expireIn");
  });

  it.each([-1, 1.5, "30", 1e12])("of %j is refused", (seconds) => {
    expect(() => job({ scheduling_timeout_seconds: seconds })).toThrow(
      expect.objectContaining({ path: "scheduling_timeout_seconds" }),
    );
  });
});

describe("a job", () => {
  it("keeps its name, and is a child if it names a parent", () => {
    expect(job().options).toMatchObject({ annotations: { "fluster/name": "flaky-job" } });
    expect(job().options).not.toHaveProperty("parent");
    expect(job({ parent_job_id: "" }).options).not.toHaveProperty("parent");
    expect(job({ parent_job_id: PARENT }).options).toMatchObject({ parent: PARENT });
  });

  it("in which something is null is one in which it is not given", () => {
    const nothing = { environment: null, resources: null, ports: null, retry: null, scheduling_timeout_seconds: null };
    expect(job(nothing)).toEqual(job());
  });

  it.each([
    [{ name: undefined }, "name"],
    [{ name: "" }, "name"],
    [{ name: 7 }, "name"],
    [{ nmae: "x" }, "nmae"],
    [{ retry: { max_retries: 1 } }, "retry.max_retries"],
    [{ parent_job_id: 7 }, "parent_job_id"],
    [{ parent_job_id: "job_x" }, "parent_job_id"],
  ])("with %j is refused", (parts, path) => {
    expect(() => job(parts)).toThrow(expect.objectContaining({ code: "invalid_config", path }));
  });

  it("is an object", () => {
    for (const document of [null, 7, "x", [BASE], new Map()]) {
      expect(() => readFluster(document, DIALECT_DEFAULTS.fluster)).toThrow(
        expect.objectContaining({ code: "invalid_config" }),
      );
    }
  });
});

describe("a document", () => {
  it.each([
    { entrypoint: ["a"], resources: {} },
    { entrypoint: ["a"], environment: {} },
    { entrypoint: ["a"], ports: [] },
    { entrypoint: ["a"], scheduling_timeout_seconds: 3 },
    { name: "x", entrypoint: ["a"], retry: { max_retries_failure: 3 } },
  ])("is one of fluster's by its words: %j", (document) => {
    expect(flusterDialect.recognises(document)).toBe(true);
  });

  it.each([
    null,
    [],
    "entrypoint",
    { resources: {} },
    { entrypoint: ["a"] },
    { entrypoint: "a.py", runtime: "python", environment: {} },
    { entrypoint: "a.py", ref: "core.echo", environment: {} },
    { entrypoint: "a.py", apiVersion: "v1", environment: {} },
    { entrypoint: ["a"], retry: { maxAttempts: 3 } },
    { entrypoint: ["a"], retry: 3 },
  ])("is not by others: %j", (document) => {
    expect(flusterDialect.recognises(document)).toBe(false);
  });
});
