/** `perdure apply`, `perdure convert` and the views, for every kind of file, on a local data directory and through a server. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { readJobFiles } from "../../src/cli/apply/read-jobs.ts";
import { ROUTES } from "../../src/contract/routes.ts";
import type { ReadEntry } from "../../src/dialects/dialect.ts";
import { EVENT_VIEW_NAMES, JOB_VIEW_NAMES } from "../../src/dialects/registry.ts";
import { DIALECT_DEFAULTS } from "../../src/dialects/settings.ts";
import { toSubmitItem } from "../../src/engine/submit-item.ts";
import { descriptionOf } from "../../src/server/openapi.ts";
import { OWN, SAMPLES } from "../dialects/samples.ts";
import { startServer } from "../server/kit.ts";
import { perdure } from "./kit.ts";
import { KINDS, newDir, openWhere } from "./targets.ts";

const EXAMPLES = resolve(import.meta.dirname, "../../examples");
/** An example file of each kind, and the options it is applied with. */
const FILES = {
  opal: ["opal/job.yaml"],
  fluster: ["fluster/flaky-job.yaml"],
  noetl: ["noetl/fetch-data.yaml"],
  attune: ["attune/packs/mypack/actions/api-call.yaml", "-p", "url=https://api.example.org/price"],
  "agent-task": ["agent-task/task.yaml"],
} as const;
const ENGINE = { PERDURE_OPAL_ENGINE: '["sh", "engine.sh"]' };
const opalSettings = { ...DIALECT_DEFAULTS, opal: { ...DIALECT_DEFAULTS.opal, engine: ["sh", "engine.sh"] } };

function written(text: string): string {
  const file = join(newDir(), "jobs.yaml");
  writeFileSync(file, text);
  return file;
}

function fileOf([name, ...more]: readonly string[]): string[] {
  return ["-f", join(EXAMPLES, name as string), ...more];
}

describe.each(KINDS)("apply --key to %s", (kind) => {
  it("finds the job again; it requires a file with one job that has no key", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const parent = await library.submit("parent");
    const argv = [...fileOf(FILES["agent-task"]), "--key", "part-1"];
    const [first] = await askJson<[{ id: string }]>("apply", ...argv);
    expect(await askJson("apply", ...argv)).toEqual([{ id: first.id, created: false }]);
    expect(await (await library.job(first.id)).get()).toMatchObject({ key: "part-1" });
    for (const [file, words] of [
      ["argv: [a]\n---\nargv: [b]\n", "--key requires files with one job, and these have 2"],
      [`argv: [a]\nkey: mine\nparent: ${parent.id}\n`, 'already has the key "mine"'],
    ] as const) {
      const said = await ask("apply", "-f", written(file), "--key", "k");
      expect(said).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining(words) });
    }
    const blank = await ask("apply", ...fileOf(FILES.fluster), "--key", "");
    expect(blank).toMatchObject({ code: 2, stderr: expect.stringContaining("--key") });
  });
});

describe.each(KINDS)("apply to %s", (kind) => {
  it("applies the items of a list of manifests, each with its position in the file", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const item = (name: string, more = "") =>
      `  - apiVersion: core.hortator.ai/v1alpha1\n    kind: AgentTask\n    metadata: { name: ${name} }\n` +
      `    spec: { prompt: p, command: [agent]${more} }\n`;
    const list = `apiVersion: v1\nkind: List\nmetadata: { resourceVersion: "" }\nitems:\n${item("one")}`;
    const stored = await askJson<{ id: string }[]>("apply", "-f", written(list + item("two")));
    const names = stored.map(async ({ id }) => (await (await library.job(id)).get()).annotations["agent-task/name"]);
    expect(await Promise.all(names)).toEqual(["one", "two"]);
    const { code, stderr } = await ask("apply", "-f", written(list + item("two", ", bugdet: {}")));
    expect([code, stderr]).toEqual([2, expect.stringMatching(/jobs\.yaml:12:42: spec\.bugdet: unknown field/)]);
    const stranger = await ask("apply", "-f", written(`${list}  - { apiVersion: v1, kind: Pod }\n`));
    expect(stranger).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/jobs\.yaml:9:5: got a document of no known kind/),
    });
    expect((await library.jobs()).jobs).toHaveLength(2);
  });

  it.each(Object.entries(FILES))("stores the example of %s, and prints every view of it", async (name, file) => {
    const { ask, askJson, library, server } = await openWhere(kind, { env: ENGINE });
    if (server !== null && name === "opal") return; // a server has its own engine: see below
    const [{ id }] = await askJson<[{ id: string }]>("apply", ...fileOf(file));
    const job = await (await library.job(id)).get();
    expect(job.kind).toBe("exec");
    for (const view of JOB_VIEW_NAMES) {
      const { code, stdout } = await ask("get", "-o", view, id);
      expect(code).toBe(0);
      const shown = JSON.parse(stdout);
      expect(shown).toBeTypeOf("object");
      if (server === null) continue;
      // The server's view and the one that the command builds from what it reads are the same.
      expect((await server.call("GET", `/v1/jobs/${id}?view=${view}`)).body).toEqual(shown);
    }
    for (const view of EVENT_VIEW_NAMES) {
      const { code, stdout } = await ask("events", "--view", view, "--json", id);
      expect((await ask("events", "--view", view, id)).code).toBe(0);
      expect([code, Array.isArray(JSON.parse(stdout))]).toEqual([0, true]);
      if (server === null) continue;
      const { body } = await server.call("GET", `/v1/jobs/${id}/events?view=${view}`);
      expect(body).toEqual({ events: JSON.parse(stdout), next: null });
    }
  });

  it("takes Perdure's own job file, several documents in a file, and several files", async () => {
    const { ask, library, dir } = await openWhere(kind);
    writeFileSync(join(dir, "own.yaml"), OWN);
    writeFileSync(join(dir, "both.yaml"), `---\n${SAMPLES.fluster}---\n# nothing here\n---\n${SAMPLES.noetl}`);
    const { code, stdout } = await ask("apply", "-f", "own.yaml", "-f", "both.yaml");
    expect(code).toBe(0);
    const jobs = await Promise.all(
      stdout
        .trim()
        .split("\n")
        .map(async (id) => (await library.job(id)).get()),
    );
    expect(jobs.map((job) => job.kind)).toEqual(["exec", "exec", "http"]);
    expect(jobs.map((job) => job.policy.preset)).toEqual(["default", "fluster", "noetl"]);
  });

  it("stores nothing if any document is invalid, and reports where", async () => {
    const { ask, library, dir } = await openWhere(kind);
    writeFileSync(join(dir, "own.yaml"), OWN);
    writeFileSync(join(dir, "bad.yaml"), `${SAMPLES.noetl}---\n${SAMPLES.fluster}extra: 1\n`);
    const { code, stdout, stderr } = await ask("apply", "-f", "own.yaml", "-f", "bad.yaml");
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^perdure apply: bad\.yaml:20:1: extra: unknown field "extra"; known fields: name, /);
    expect((await library.jobs()).jobs).toEqual([]);
  });

  it("shows the jobs and stores none with --dry-run", async () => {
    const { ask, askJson, library, dir } = await openWhere(kind);
    writeFileSync(join(dir, "job.yaml"), SAMPLES.fluster);
    expect((await ask("apply", "-f", "job.yaml", "--dry-run")).stdout).toBe(
      "job.yaml:1:1: exec (fluster)\n  Name      flaky\n  Timeout   none\n" +
        "  Attempts  4 in all; 100 retries after lost workers\n  Backoff   1 s, 2 s, 4 s\n  Budget    none\n",
    );
    expect(await askJson("apply", "-f", "job.yaml", "--dry-run")).toMatchObject([
      {
        ...{ kind: "exec", name: "flaky", input: { argv: ["python3", "flaky.py"] } },
        ...{ options: { retry: { preset: "fluster" } }, policy: { maxAttempts: 4, workerLost: { maxRetries: 100 } } },
      },
    ]);
    // Values that exist only once the job is stored are left out.
    writeFileSync(join(dir, "job.yaml"), "kind: resize\ntimeout: 90s\n");
    const open = await ask("apply", "-f", "job.yaml", "--dry-run");
    expect(open.stdout).toContain("  Timeout   1.5 min\n  Attempts  as its workers publish for the kind, else 1\n");
    expect(await askJson("apply", "-f", "job.yaml", "--dry-run")).toMatchObject([{ kind: "resize", policy: null }]);
    expect((await library.jobs()).jobs).toEqual([]);
  });
});

describe("apply", () => {
  it("reads standard input, and roles beside their tasks; notes go to stderr", async () => {
    const { dir, ask, library } = await openWhere("data");
    const role = [
      ...["apiVersion: core.hortator.ai/v1alpha1", "kind: ClusterAgentRole", "metadata: { name: tester }"],
      ...["spec: { retry: { maxAttempts: 5 } }", ""],
    ].join("\n");
    const task = SAMPLES["agent-task"].replace(/ {2}retry:.*\n/, "  role: tester\n");
    const stdin = vi.spyOn(process, "stdin", "get").mockReturnValue(Readable.from([role, "---\n", task]) as never);
    const { code, stdout } = await ask("apply", "-f", "-");
    stdin.mockRestore();
    expect(code).toBe(0);
    expect((await (await library.job(stdout.trim())).get()).policy.maxAttempts).toBe(5);
    writeFileSync(join(dir, "role.yaml"), role);
    const alone = await ask("apply", "-f", "role.yaml", "--json");
    expect(alone).toMatchObject({ code: 0, stdout: "[]\n" });
    expect(alone.stderr).toMatch(/^note: role\.yaml: ClusterAgentRole tester: a role is not a job/m);
  });

  it("takes roles and the limits of tiers from the settings", async () => {
    const { dir, ask, library } = await openWhere("data");
    mkdirSync(join(dir, "roles"));
    const role =
      "apiVersion: core.hortator.ai/v1alpha1\nkind: ClusterAgentRole\nmetadata: { name: r }\nspec: { budget: { maxTokens: 7 } }\n";
    writeFileSync(join(dir, "roles", "r.yaml"), role);
    const settings = "agent: { roles: [roles], command: [agent, -x], retry: { legionary: { maxAttempts: 9 } } }\n";
    writeFileSync(join(dir, "perdure.yaml"), settings);
    const task = SAMPLES["agent-task"]
      .replace(/ {2}(retry|command|budget):.*\n/g, "")
      .replace("spec:\n", "spec:\n  role: r\n");
    writeFileSync(join(dir, "task.yaml"), task);
    const { stdout, stderr } = await ask("apply", "-f", "task.yaml");
    const { policy, payload } = await (await library.job(stdout.trim())).get();
    expect(stderr).not.toContain("spec.role");
    expect(policy).toMatchObject({ maxAttempts: 9, budget: { tokens: 7 } });
    expect(payload).toMatchObject({ argv: ["agent", "-x"] });
  });

  it("uses the settings of the server, not the local ones", async () => {
    const { server, ask, library, dir } = await openWhere("server");
    writeFileSync(join(dir, "job.yaml"), SAMPLES.opal);
    const { code, stderr } = await ask("apply", "-f", "job.yaml");
    expect(code).toBe(2);
    expect(stderr).toContain("job.yaml:1:1: prompt: no engine is configured to run it; set an engine");
    expect((await server?.call("GET", "/v1/dialects"))?.body).toEqual(DIALECT_DEFAULTS);
    expect(await library.dialectSettings()).toEqual(DIALECT_DEFAULTS);
  });

  it("refuses parameters for files that take none", async () => {
    const { ask, dir } = await openWhere("data");
    writeFileSync(join(dir, "job.yaml"), OWN);
    const { code, stderr } = await ask("apply", "-f", "job.yaml", "-p", "a=1");
    expect([code, stderr]).toEqual([2, "perdure apply: --param: these files take no parameters; leave it out\n"]);
  });

  it("reads no file outside the folder of the document, whatever path or link leads there", async () => {
    const { ask, dir } = await openWhere("data", { env: ENGINE });
    mkdirSync(join(dir, "in"));
    writeFileSync(join(dir, "secret.txt"), "secret");
    symlinkSync(join(dir, "secret.txt"), join(dir, "in", "link.txt"));
    for (const path of ["../secret.txt", join(dir, "secret.txt"), "link.txt", "/dev/zero"]) {
      writeFileSync(join(dir, "in", "job.yaml"), `prompt: x\ninput_file: ${path}\n`);
      const { code, stderr } = await ask("apply", "-f", "in/job.yaml");
      expect(code).toBe(2);
      expect(stderr).toContain("is not in the folder of the file that names it");
    }
    writeFileSync(join(dir, "in", "job.yaml"), "prompt: x\ninput_file: nowhere.txt\n");
    expect((await ask("apply", "-f", "in/job.yaml")).stderr).toContain(
      "in/job.yaml:2:1: input_file: must be a file in the folder of this one; got",
    );
  });

  it("reports a mistake in a pack with its position in the pack's own file", async () => {
    const { ask, dir } = await openWhere("data");
    mkdirSync(join(dir, "p", "actions"), { recursive: true });
    writeFileSync(join(dir, "p", "pack.yaml"), "ref: p\nretry:\n  base_backoff_secs: -1\n");
    writeFileSync(join(dir, "p", "actions", "fetch.yaml"), SAMPLES.attune);
    const { code, stderr } = await ask("apply", "-f", "p/actions/fetch.yaml", "-p", "url=x");
    expect(code).toBe(2);
    expect(stderr).toMatch(/^perdure apply: p\/pack\.yaml:3:3: retry\.base_backoff_secs: must be .*; got -1$/m);
  });
});

/** Common mistakes in each kind of file: the document, and the message. */
const BAD: readonly (readonly [string, string | RegExp])[] = [
  // Not YAML, or too large.
  ["a: [1, 2\n", /^job\.yaml:\d+:\d+: /],
  ["a: 1\n\tb: 2\n", "tabs do not indent"],
  ["prompt: x\nprompt: y\n", 'job.yaml:2:1: duplicate key "prompt"; keep one'],
  [`a: &a [x]\n${"b: &b [*a, *a]\n"}c: ${"*b ".repeat(200)}\n`, /^job\.yaml:/],
  [bomb(), /^job\.yaml:\d+:\d+: /],
  [`a: ${"[".repeat(5_000)}`, "nested more than 64 levels"],
  [`prompt: ${"x".repeat(1_100_000)}\n`, "over 1048576 bytes"],
  [
    `step: a\ntype: python\ncode: "${"x".repeat(900_000)}"\n`,
    "job.yaml:1:1: too much input; must be at most 1048576 bytes",
  ],
  ["---\n".repeat(3_000), "more than 1000 documents"],
  // Unknown fields, with the nearest known one.
  [
    `${SAMPLES.opal}metadate: 1\n`,
    'metadate: unknown field "metadate"; known fields: prompt, metadata, job_id, input_file, retry, env. Did you mean "metadata"?',
  ],
  [
    SAMPLES.fluster.replace("max_retries_failure", "max_retry_failure"),
    /^job\.yaml:7:\d+: retry\.max_retry_failure: .*Did you mean "max_retries_failure"\?/,
  ],
  [
    SAMPLES.noetl.replace("initial_delay", "initial_dely"),
    /^job\.yaml:7:3: retry\.initial_dely: .*Did you mean "initial_delay"\?/,
  ],
  [
    SAMPLES.attune.replace("timeout_seconds", "timeout_secons"),
    /^job\.yaml:4:1: timeout_secons: .*Did you mean "timeout_seconds"\?/,
  ],
  [
    SAMPLES["agent-task"].replace("maxAttempts", "maxAttempt"),
    /^job\.yaml:8:\d+: spec\.retry\.maxAttempt: .*Did you mean "maxAttempts"\?/,
  ],
  [OWN.replace("maxAttempts", "maxAttemps"), /^job\.yaml:2:\d+: retry\.maxAttemps: .*Did you mean "maxAttempts"\?/],
  // Wrong types.
  [SAMPLES.opal.replace("Draw a fox", "[1]"), /job\.yaml:1:1: prompt: must be .*; got \[1\]/],
  [SAMPLES.fluster.replace("cpu: 1", "cpu: lots"), /^job\.yaml:4:\d+: resources\.cpu: must be .*; got "lots"/],
  [SAMPLES.fluster.replace("ports: [http]", "ports: 8080"), /job\.yaml:5:1: ports: must be .*; got 8080/],
  [
    SAMPLES.noetl.replace("max_attempts: 5", "max_attempts: many"),
    /job\.yaml:6:3: retry\.max_attempts: must be .*; got "many"/,
  ],
  [SAMPLES.attune.replace("max_retries: 3", "max_retries: [3]"), /job\.yaml:5:1: max_retries: must be .*; got \[3\]/],
  [
    SAMPLES["agent-task"].replace("prompt: Write the tests", "prompt: { a: 1 }"),
    /^job\.yaml:5:3: spec\.prompt: must be .*; got/,
  ],
  // Negative and absurd numbers.
  [SAMPLES.opal.replace("RETRIES: 3", "RETRIES: -3"), /^job\.yaml:4:\d+: env\.OPAL_MAX_RETRIES: must be .*; got/],
  [
    SAMPLES.fluster.replace("failure: 3", "failure: -1"),
    /^job\.yaml:7:\d+: retry\.max_retries_failure: must be .*; got -1/,
  ],
  [
    SAMPLES.fluster.replace("failure: 3", "failure: 1e300"),
    /^job\.yaml:7:\d+: retry\.max_retries_failure: must be .*; got 1e\+300/,
  ],
  [
    SAMPLES.fluster.replace("memory: 512m", "memory: 999999999999t"),
    /^job\.yaml:4:\d+: resources\.memory: must be .*; got/,
  ],
  [
    SAMPLES.fluster.replace("seconds: 60", "seconds: 1e99"),
    /^job\.yaml:6:1: scheduling_timeout_seconds: must be .*; got/,
  ],
  [
    SAMPLES.noetl.replace("max_attempts: 5", "max_attempts: 0"),
    /job\.yaml:6:3: retry\.max_attempts: must be .*; got 0/,
  ],
  [SAMPLES.noetl.replace("max_delay: 60", "max_delay: -60"), /job\.yaml:9:3: retry\.max_delay: must be .*; got -60/],
  [SAMPLES.attune.replace("max_retries: 3", "max_retries: 101"), /job\.yaml:5:1: max_retries: must be .*; got 101/],
  [
    SAMPLES.attune.replace("timeout_seconds: 30", "timeout_seconds: -1"),
    /job\.yaml:4:1: timeout_seconds: must be .*; got -1/,
  ],
  [
    SAMPLES["agent-task"].replace("maxAttempts: 3", "maxAttempts: -1"),
    /^job\.yaml:8:\d+: spec\.retry\.maxAttempts: must be .*; got -1/,
  ],
  [
    SAMPLES["agent-task"].replace("maxCostUsd: 1.5", "maxCostUsd: -1"),
    /^job\.yaml:9:\d+: spec\.budget\.maxCostUsd: must be .*; got -1/,
  ],
  // An invalid expression, with the position inside it.
  [SAMPLES.noetl.replace(">= 500 }}", ">= }}"), /^job\.yaml:11:3: retry\.retry_when: .*\d/],
  [SAMPLES.noetl.replace("status_code >= 500", "process.exit()"), /^job\.yaml:11:3: retry\.retry_when: /],
  [OWN.replace("maxAttempts: 3", "retryWhen: 'attempt <'"), /^job\.yaml:2:\d+: retry\.retryWhen: /],
  // Missing files and unknown kinds.
  [SAMPLES.attune, /^job\.yaml:3:1: entrypoint: "fetch.py" does not exist/],
  ["hello: world\n", "job.yaml:1:1: got a document of no known kind"],
  ["", "job.yaml:1:1: the file is empty"],
  ["# later\n", "job.yaml:1:1: the file is empty"],
  // A number where text is expected.
  ["argv: [ls]\nenv: { A: 1 }\n", /^job\.yaml:2:\d+: env\.A: must be .*; got 1\. .*Write "1" for the text/],
  [
    SAMPLES.fluster.replace(/environment:.*\n/, "environment: { env_vars: { A: true } }\n"),
    /^job\.yaml:\d+:\d+: environment\.env_vars\.A: must be .*; got true\. .*Write "true" for the text/,
  ],
];

/** The "billion laughs" attack: nine levels of nine aliases. */
function bomb(): string {
  const lines = ["l0: &l0 lol"];
  for (let i = 1; i < 10; i++)
    lines.push(
      `l${i}: &l${i} [${Array(9)
        .fill(`*l${i - 1}`)
        .join(", ")}]`,
    );
  return `${lines.join("\n")}\n`;
}

describe("a bad file", () => {
  it.each(BAD.map(([text, said], i) => [i, text.slice(0, 60), text, said] as const))(
    "%i is refused with its place, exit code 2 and nothing stored: %j",
    async (_i, _shown, text, said) => {
      const cwd = newDir();
      writeFileSync(join(cwd, "job.yaml"), text);
      const { code, stdout, stderr } = await perdure(["apply", "--data", "data", "-f", "job.yaml"], {
        cwd,
        env: ENGINE,
      });
      expect([code, stdout]).toEqual([2, ""]);
      const line = stderr.replace(/^perdure apply: /, "");
      expect(line.split("\n")).toHaveLength(2); // one line for every mistake
      if (typeof said === "string") expect(line).toContain(said);
      else expect(line).toMatch(said);
      // Not even a data directory was created.
      expect((await perdure(["ps", "--data", "data"], { cwd })).stderr).toContain("no Perdure data");
    },
  );
});

describe("convert", () => {
  const itemOf = ({ task, input, options = {} }: ReadEntry) =>
    toSubmitItem({ kind: task, payload: JSON.stringify(input), options, namespace: "default" });

  it.each(Object.entries(FILES))("turns the example of %s into a job file for the same job", async (_name, file) => {
    const cwd = newDir();
    const [, path, ...more] = fileOf(file);
    for (const asJson of [[], ["--json"]]) {
      const { code, stdout, stderr } = await perdure(["convert", "-f", path as string, ...more, ...asJson], {
        cwd,
        env: ENGINE,
      });
      expect(code).toBe(0);
      writeFileSync(join(cwd, "job.yaml"), stdout);
      for (const note of stderr.split("\n").filter((line) => line.startsWith("note: ") && asJson.length === 0)) {
        expect(stdout).toContain(`# ${note.slice("note: ".length)}`);
      }
      const parameters = more.length === 0 ? {} : { url: "https://api.example.org/price" };
      const wish = { io: { cwd }, settings: () => opalSettings };
      const before = await readJobFiles({ ...wish, files: [path as string], parameters });
      const after = await readJobFiles({ ...wish, files: ["job.yaml"], parameters: {} });
      expect(after.jobs.map(({ dialect }) => dialect)).toEqual(before.jobs.map(() => null));
      const same = (entry: ReadEntry) => {
        // Each reading of the file draws a new OPAL id, and in a job file all values count as set by the submit.
        const text = JSON.stringify({ ...itemOf(entry), sources: null }).replaceAll(/job_[0-9a-f]{12}/g, "job_drawn");
        return JSON.parse(text) as unknown;
      };
      expect(after.jobs.map(({ entry }) => same(entry))).toEqual(before.jobs.map(({ entry }) => same(entry)));
      const submitted = await perdure(["submit", "--data", "data", "-f", "job.yaml"], { cwd });
      expect(submitted.code).toBe(0);
    }
  });

  it("takes the defaults of the server, if there is one, as apply does", async () => {
    const cwd = newDir();
    const fluster = { ...DIALECT_DEFAULTS.fluster, defaultMaxRetriesFailure: 4 };
    const agent = { ...DIALECT_DEFAULTS.agent, command: ["agent"] };
    const server = await startServer({ dialects: { ...DIALECT_DEFAULTS, fluster, agent } });
    onTestFinished(server.close);
    const env = { PERDURE_TOKEN: server.admin };
    writeFileSync(join(cwd, "job.yaml"), "name: train\nentrypoint: { command: [./train.sh] }\nresources: { cpu: 1 }\n");
    writeFileSync(join(cwd, "task.yaml"), SAMPLES["agent-task"].replace(/ {2}command:.*\n/, ""));
    const convert = (name: string, ...argv: string[]) =>
      perdure(["convert", "-f", name, "--json", ...argv], { cwd, env });
    const there = await convert("job.yaml", "--server", server.url);
    expect(JSON.parse(there.stdout)).toMatchObject({ retry: { maxAttempts: 5 } });
    expect(JSON.parse((await convert("job.yaml")).stdout)).toMatchObject({ retry: { maxAttempts: 1 } });
    expect(await convert("task.yaml", "--server", server.url)).toMatchObject({ code: 0 });
    expect(await convert("task.yaml")).toMatchObject({ code: 2 });
  });

  it("lists what a job file cannot express in a comment at the top and on stderr", async () => {
    const cwd = newDir();
    writeFileSync(join(cwd, "job.yaml"), `${SAMPLES.opal.replace("MAX_RETRIES: 3", "LEASE_TTL_SECS: 20")}`);
    const { stdout, stderr } = await perdure(["convert", "-f", "job.yaml"], { cwd, env: ENGINE });
    const note =
      "job.yaml:4:8: env.OPAL_LEASE_TTL_SECS is a setting of the server and its workers, and is ignored here; set it there";
    expect(stdout.split("\n")[0]).toBe(`# ${note}`);
    expect(stderr).toBe(`note: ${note}\n`);
  });

  it("escapes text that is unsafe for a terminal without changing its value", async () => {
    const cwd = newDir();
    const text = "a\u202eb\u0007c\r\n d ";
    writeFileSync(join(cwd, "job.yaml"), JSON.stringify({ argv: ["echo", text] }));
    const { stdout } = await perdure(["convert", "-f", "job.yaml"], { cwd });
    writeFileSync(join(cwd, "again.yaml"), stdout);
    const { jobs } = await readJobFiles({
      files: ["again.yaml"],
      io: { cwd },
      parameters: {},
      settings: () => opalSettings,
    });
    expect(jobs[0]?.entry.input).toEqual({ argv: ["echo", text] });
  });
});

describe("a view", () => {
  it("is listed in the description of the API", () => {
    const { getJob, listJobEvents } = ROUTES;
    for (const name of JOB_VIEW_NAMES) expect(descriptionOf("getJob", getJob)).toContain(name);
    for (const name of EVENT_VIEW_NAMES) expect(descriptionOf("listJobEvents", listJobEvents)).toContain(name);
  });

  it("with an unknown name is refused, with the nearest known one", async () => {
    const { ask, library, server } = await openWhere("server");
    const { id } = await library.submit("k", null);
    const said = await ask("get", "-o", "flustr", id);
    expect(said).toMatchObject({ code: 2, stdout: "" });
    expect(said.stderr).toContain('Did you mean "fluster"?');
    const reply = await server?.call("GET", `/v1/jobs/${id}?view=flustr`);
    expect(reply?.status).toBe(400);
    expect(reply?.text).toContain('Did you mean \\"fluster\\"?');
    expect((await server?.call("GET", `/v1/jobs/${id}/events?view=opal`))?.status).toBe(400);
    expect((await server?.call("GET", `/v1/jobs/${id}/events?view=noetl&after=3`))?.status).toBe(400);
    expect((await ask("events", "--view", "noetl")).code).toBe(2);
    expect(await ask("events", "--view", "noetl", "--after", "3", id)).toMatchObject({
      ...{ code: 2, stdout: "", stderr: expect.stringContaining("--view and --after cannot be used together") },
    });
  });

  it("of a job submitted in another format is printed in every state", async () => {
    const { ask, library } = await openWhere("data");
    const { id } = await library.submit("k", { a: 1 });
    await library.cancel(id);
    for (const view of JOB_VIEW_NAMES) expect((await ask("get", "-o", view, id)).code).toBe(0);
  });
});
