/** Mistakes in files and settings are reported with their position, the nearest known word and the correction; a note has
 *  the position of its field, or none. */
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { perdure } from "./kit.ts";
import { newDir, openWhere } from "./targets.ts";

const UNKNOWN = "job_00000000000000000000000000";
const ENGINE = { PERDURE_OPAL_ENGINE: "engine" };

function fill(dir: string, files: Readonly<Record<string, string>>): string {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  return dir;
}

/** Runs a command in a new directory with these files. */
function runWith(
  argv: readonly string[],
  files: Readonly<Record<string, string>>,
  env: Record<string, string> = ENGINE,
) {
  return perdure(argv, { cwd: fill(newDir(), files), env });
}

const dry = (text: string) => runWith(["apply", "--dry-run", "-f", "b.yaml"], { "b.yaml": text });

describe("a mistake in a file of another system", () => {
  it.each<[string, string]>([
    [
      "prompt: x\ninput_file: /etc/passwd\n",
      'b.yaml:2:1: input_file: "/etc/passwd" is not in the folder of the file that names it; put it there\n',
    ],
    // The path occurs in two fields, so there is no position.
    ["prompt: /etc/passwd\ninput_file: /etc/passwd\n", 'b.yaml: "/etc/passwd" is not in the folder of'],
    [
      "name: a\nentrypoint: [a]\nports: []\nparent_job_id: job_x\n",
      'b.yaml:4:1: parent_job_id: must be the id of a job, in full: job_ and 26 characters; got "job_x"',
    ],
    ["entrypoint: [a]\nports: []\n", "b.yaml:1:1: name: is missing; must be text of"],
    ["kind: AgentTask\nspec: { prompt: p }\n", "b.yaml:1:1: apiVersion: is missing; must be a group and a version"],
    [
      "apiVersion: core.hortator.ai/v1alpha1\nkind: AgentTask\nspec: { prompt: p }\n",
      "b.yaml:1:1: metadata: is missing",
    ],
    [
      "name: a\nruntime: pyhton\nentrypoint: b.yaml\n",
      'b.yaml:2:1: runtime: must be python, shell, node (also called nodejs); got "pyhton". Did you mean "python"?',
    ],
    [
      "name: a\nentrypoint: [a]\nresources: { memory: 999999999t }\n",
      'b.yaml:3:14: resources.memory: must be bytes, or text such as "512m" or "2g", at most 1024t; got "999999999t"',
    ],
    [
      "argv: [a]\nretry: true\n",
      "b.yaml:2:1: retry: true does not set the number of attempts; must be a number of attempts such as 5",
    ],
    [
      "name: a\nruntime: shell\nentrypoint: actions/a.sh\n",
      'b.yaml:3:1: entrypoint: "actions/a.sh" does not exist; must be a file beside the action, or below it; a path from ' +
        "the pack's folder requires a pack.yaml there, with a line such as ref: mypack",
    ],
  ])("is reported with its position: %j", async (text, message) => {
    const { code, stdout, stderr } = await dry(text);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(`perdure apply: ${message}`);
  });

  it.each<[string, string, string]>([
    ["metadata: {}\npromt: hi\n", "2:1", '"prompt" by "promt"'],
    ["name: a\nentrypont: [a]\nresources: {}\n", "2:1", '"entrypoint" by "entrypont"'],
    ["name: a\nentrypoint: [a]\nresorces: {}\n", "3:1", '"resources" by "resorces"'],
    ["apiVersion: core.hortator.ai/v1alpha1\nkind: AgentTsk\n", "2:1", '"AgentTask" by "AgentTsk"'],
    [
      "apiVersion: core.hortator.ai/v1alpha1\nkind: ClusterAgentRol\n",
      "2:1",
      '"ClusterAgentRole" by "ClusterAgentRol"',
    ],
    [
      "name: a\nentrypoint: [a]\nretry: { max_retries_failur: 2 }\n",
      "3:10",
      '"max_retries_failure" by "max_retries_failur"',
    ],
    ["agv: [a]\n", "1:1", '"argv" by "agv"'],
  ])(
    "in the field that identifies the kind of file is reported with the nearest word and its position: %j",
    async (text, place, hint) => {
      const { code, stderr } = await dry(text);
      expect(code).toBe(2);
      expect(stderr).toContain(`b.yaml:${place}: got a document of no known kind. Did you mean ${hint}? A job`);
      expect(stderr).toContain("fluster's fields in retry");
      expect(stderr).toContain("kind: ClusterAgentRole");
    },
  );

  it("has no hint if no known word is similar", async () => {
    const { stderr } = await dry("name: x\nentrypoint: y\n");
    expect(stderr).toContain("b.yaml:1:1: got a document of no known kind. A job of Perdure has argv");
  });

  it("has the position of a parent that does not exist, and nothing is stored", async () => {
    const { dir, ask, library } = await openWhere("data");
    fill(dir, {
      "own.yaml": `jobs:\n  - argv: [a]\n  - argv: [b]\n    parent: ${UNKNOWN}\n`,
      "fluster.yaml": `name: a\nentrypoint: [a]\nports: []\nparent_job_id: ${UNKNOWN}\n`,
    });
    for (const [file, place] of [
      ["own.yaml", "4:5"],
      ["fluster.yaml", "4:1"],
    ] as const) {
      const { code, stderr } = await ask("apply", "-f", file);
      expect(code).toBe(2);
      expect(stderr).toMatch(new RegExp(`^perdure apply: ${file}:${place}: its parent: `));
    }
    expect((await library.jobs()).jobs).toEqual([]);
  });
});

describe("a note", () => {
  it.each<[string, string]>([
    ["name: a\nentrypoint: [a]\nresources:\n  cpu: 1\n  disk: 2g\n", "b.yaml:5:3: resources.disk is ignored"],
    [
      "workflow:\n  - step: s\n    type: shell\n    command: a\n    next:\n      - step: other\n",
      'b.yaml:6:9: workflow[0].next[0].step: "other" is not in this file',
    ],
    [
      "apiVersion: a/v1\nkind: AgentTask\nmetadata: { name: a }\nspec:\n  prompt: p\n  command: [a]\n  image: x\n",
      "b.yaml:7:3: spec.image: commands run on their worker",
    ],
    // A note about the whole document has no position.
    [
      "apiVersion: a/v1\nkind: ClusterAgentRole\nmetadata: { name: r }\n",
      "b.yaml: ClusterAgentRole r: a role is not a job",
    ],
    [
      "name: a\nentrypoint: [a]\nenvironment:\n  env_vars:\n    PATH: /x\n",
      "b.yaml:5:5: PATH: a worker runs this command only if its worker.allowEnv has this variable",
    ],
    ["argv: [a]\nenv:\n  LD_PRELOAD: x\n", "b.yaml:3:3: LD_PRELOAD: a worker runs this command only if"],
  ])("has the position of its field, or none: %j", async (text, note) => {
    const { code, stderr } = await dry(text);
    expect([code, stderr]).toEqual([0, expect.stringContaining(`note: ${note}`)]);
    expect(stderr).not.toContain(":1:1:");
  });

  it("about a pack has its position in the pack's manifest", async () => {
    const files = {
      "packs/p/pack.yaml": "ref: p\nconfig: {}\n",
      "packs/p/actions/go.yaml": "name: go\nruntime: shell\nentrypoint: actions/a.sh\n",
      "packs/p/actions/a.sh": "",
    };
    const { stderr } = await runWith(["apply", "--dry-run", "-f", "packs/p/actions/go.yaml"], files);
    expect(stderr).toMatch(/^note: packs\/p\/pack\.yaml:2:1: config: not passed to actions/);
  });

  it("is the same for a retry block alone as for one in a job", async () => {
    const block = "{ max_retries_failure: 2, initial_delay: 100, max_delay: 10, retry_on_exit_codes: [0] }";
    const argv = ["simulate", "-f", "retry.yaml", "--outcomes", "fail,ok"];
    const { stderr } = await runWith(argv, { "retry.yaml": `retry: ${block}\n` });
    expect(stderr).toContain("note: retry.yaml:1:1: retry: initial_delay is 100, and every retry waits for the cap");
    expect(stderr).toContain("note: retry.yaml:1:1: retry.retry_on_exit_codes has 0");
  });

  it("reports that a number of retries alone was read as Perdure's, except with --dialect perdure", async () => {
    const argv = ["simulate", "-f", "retry.yaml", "--outcomes", "fail,ok"];
    const { code, stderr } = await runWith(argv, { "retry.yaml": "# ours?\nretry: 3\n" });
    expect([code, stderr]).toEqual([
      0,
      "note: retry.yaml:2:1: retry: read as Perdure's own. It can be read with --dialect noetl\n",
    ]);
    const sure = await runWith([...argv, "--dialect", "perdure"], { "retry.yaml": "retry: 3\n" });
    expect([sure.code, sure.stderr]).toEqual([0, ""]);
    expect(await runWith(argv, { "retry.yaml": "retry: true\n" })).toMatchObject({
      code: 2,
      stderr:
        "perdure simulate: retry.yaml:1:1: retry: true does not set the number of attempts; must be a number of attempts such as 5, false " +
        "for one attempt, or an object with a policy, such as { maxAttempts: 5 }. It can be read with --dialect noetl\n",
    });
  });
});

describe("a retry block alone", () => {
  const argv = ["simulate", "-f", "retry.yaml", "--outcomes", "fail,ok"];

  it("whose fields exist in several dialects is refused with those that can read it", async () => {
    const files = { "retry.yaml": "retry: { initial_delay: 2, max_delay: 30 }\n" };
    const { code, stderr } = await runWith(argv, files);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/\. It can be read with --dialect fluster or noetl\n$/)]);
    expect((await runWith([...argv, "--dialect", "noetl"], files)).code).toBe(0);
  });

  it("that no dialect can read is refused without naming one", async () => {
    const { code, stderr } = await runWith(argv, { "retry.yaml": "retry: { maxAttempt: 2 }\n" });
    expect([code, stderr]).toEqual([2, expect.stringMatching(/Did you mean "maxAttempts"\?\n$/)]);
  });
});

describe("an empty list of waits", () => {
  const allowed = "must be a list of 1 to 100 numbers from 0 to 86400, such as [3, 8, 15]";

  it.each(["apply", "convert", "simulate"])("is refused by %s, under its variable or field", async (command) => {
    const job = { "b.yaml": "prompt: x\n" };
    const argv = [command, "-f", "b.yaml"];
    const byVariable = await runWith(argv, job, { ...ENGINE, OPAL_RETRY_BACKOFFS: "[]" });
    expect(byVariable).toMatchObject({ code: 2, stdout: "" });
    expect(byVariable.stderr).toBe(`perdure ${command}: OPAL_RETRY_BACKOFFS: ${allowed}; got "[]"\n`);
    const byFile = await runWith(argv, { ...job, "perdure.yaml": "opal: { retryBackoffs: [] }\n" });
    expect(byFile.stderr).toBe(`perdure ${command}: perdure.yaml:1:9: opal.retryBackoffs: ${allowed}; got []\n`);
  });

  it.each(["up", "server"])("is refused by %s, before it starts", async (command) => {
    const { code, stderr } = await runWith([command, "--port", "0"], {}, { OPAL_RETRY_BACKOFFS: "[]" });
    expect(code).toBe(2);
    expect(stderr).toBe(`perdure ${command}: OPAL_RETRY_BACKOFFS: ${allowed}; got "[]"\n`);
  });
});

describe("a mistyped word on the command line", () => {
  it.each<[string[], string]>([
    [["apply", "-f", "b.yaml", "--dialect", "flustr"], "--dialect: must be one of perdure, opal, fluster"],
    [["apply", "-f", "b.yaml", "--dialect", "flustr"], '; got "flustr". Did you mean "fluster"?\n'],
    [["get", UNKNOWN, "-o", "yml"], "--output: must be one of json, yaml, perdure, opal, "],
    [["get", UNKNOWN, "-o", "agent-tsk,yaml"], '. Did you mean "agent-task"?\n'],
    [["get", UNKNOWN, "-o", "agent-task,yml"], 'the format after the comma is "yml"; allowed: json, yaml\n'],
    [["get", UNKNOWN, "-o", "yaml,agent-task"], 'is "agent-task"; write agent-task,yaml\n'],
    [
      ["get", UNKNOWN, "-o", "json,yaml"],
      "--output: must be one format, or a view and a format, as in perdure,yaml; got ",
    ],
    [["get", UNKNOWN, "-o", "a,b,c"], '--output: must be a view and a format, as in perdure,yaml; got "a,b,c"\n'],
    [["get", UNKNOWN, "-o", "yaml", "--json"], "--json and --output yaml cannot be used together\n"],
  ])("is reported with the nearest one: %j", async (argv, message) => {
    const { code, stderr } = await runWith(argv, { "b.yaml": "argv: [a]\n" });
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });
});

describe("a perdure.yaml in the working directory that names a database", () => {
  it.each([
    ...["ps", "doctor", "prune", "migrate", "migrate --dry-run", "server --port 0"],
    ...["token list", "run true", "submit true", "queues"],
  ])("does not get PGPASSWORD sent to its database by %s", async (command) => {
    let calls = 0;
    const listener = createServer((socket) => {
      calls += 1;
      socket.destroy();
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void listener.close());
    await once(listener, "listening");
    const { port } = listener.address() as AddressInfo;
    const files = { "perdure.yaml": `db: postgres://app@127.0.0.1:${port}/jobs\n` };
    const said = await runWith(command.split(" "), files, { PGPASSWORD: "geheim" });
    expect(`${said.stdout}${said.stderr}`).toContain("cannot collect passwords");
    expect([said.code === 0, calls]).toEqual([false, 0]);
  });
});
