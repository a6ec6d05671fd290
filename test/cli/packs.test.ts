/** `perdure submit PACK.ACTION`, on a local data directory and through a server. */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { exec } from "../../src/core/input/builtin.ts";
import { task } from "../../src/core/task/task.ts";
import { perdure } from "./kit.ts";
import { KINDS, newDir, openWhere } from "./targets.ts";

const API_CALL = `name: external_api_call
runtime: python
entrypoint: actions/api.py
timeout_seconds: 120 # 2 minutes (overrides global 5 min TTL)
max_retries: 3 # Retry up to 3 times on failure
parameters:
  url: {type: string, required: true}
  tries: {type: integer, default: 2}
`;

const FILES: Readonly<Record<string, string>> = {
  "packs/mypack/pack.yaml": "ref: mypack\nversion: 1.0.0\nretry:\n  base_backoff_secs: 5\n",
  "packs/mypack/actions/api-call.yaml": API_CALL,
  "packs/mypack/actions/api.py": "print(1)\n",
  "packs/mypack/actions/broken.yaml": "name: [\n",
  "packs/other/pack.yaml": "ref: [\n",
};

function fill(dir: string, files: Readonly<Record<string, string>> = FILES): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
}

describe.each(KINDS)("submit an action to %s", (kind) => {
  it("by its name, with its parameters, and keeps a snapshot of its entrypoint", async () => {
    const { ask, askJson, library, dir } = await openWhere(kind);
    fill(dir);
    const argv = ["mypack.external_api_call", "-p", "url=https://example.org", "--tag", "red", "--key", "k1"];
    const { code, stdout, stderr } = await ask("submit", ...argv);
    const start = `perdure ${kind === "server" ? "worker" : "up"} --runtime python`;
    expect({ code, stderr }).toEqual({ code: 0, stderr: `no worker is running; start one with \`${start}\`\n` });
    const job = await (await library.job(stdout.trimEnd())).get();
    expect(job).toMatchObject({ kind: "exec", timeoutMs: 120_000, expireInMs: 120_000, tags: ["red"], key: "k1" });
    expect(job.labels).toEqual({ "runtime/python": "yes" });
    expect(job.policy).toMatchObject({ preset: "attune", maxAttempts: 4, backoff: { initialMs: 5_000 } });
    expect(job.payload).toEqual({
      argv: ["python3", "inputs/api.py"],
      files: { "api.py": Buffer.from("print(1)\n").toString("base64") },
      input: { url: "https://example.org", tries: 2 },
    });
    expect(job.annotations).toMatchObject({ "attune/action": "mypack.external_api_call", "attune/pack": "mypack" });
    const again = await askJson<{ id: string; created: boolean }>("submit", ...argv);
    expect(again).toEqual({ id: job.id, created: false });
  });

  it("takes parameters as JSON too, and other options on the command line", async () => {
    const { askJson, library, dir } = await openWhere(kind);
    fill(dir);
    const argv = ["mypack.external_api_call", "--input", '{"url":"u","tries":7}', "--queue", "q", "--timeout", "9s"];
    const { id } = await askJson<{ id: string }>("submit", ...argv, "--label", "zone=a");
    const job = await (await library.job(id)).get();
    expect(job).toMatchObject({ queue: "q", timeoutMs: 9_000, expireInMs: 120_000, payload: { input: { tries: 7 } } });
    expect(job.labels).toEqual({ zone: "a", "runtime/python": "yes" });
  });

  it.each<[string[], RegExp]>([
    [
      ["mypack.external_api_cal"],
      /action "mypack.external_api_cal" does not exist: packs\/mypack has mypack.external_api_call\. Did you mean "mypack.external_api_call"\?/,
    ],
    [["mypack.gone"], /action "mypack.gone" does not exist/],
    [["mypack.broken"], /packs\/mypack\/actions\/broken.yaml:2:1: /],
    [["other.x"], /packs\/other\/pack.yaml:2:1: /],
    [["mypack.external_api_call"], /api-call.yaml:7:3: parameters.url: the parameter "url" is required/],
    [
      ["mypack.external_api_call", "-p", "url=u", "-p", "tries=x"],
      /api-call.yaml:8:3: parameters.tries: must be .*; got "x"/,
    ],
    [[".x", "-p", "url=u"], /pack "" does not exist/],
    [["../x.external_api_call", "-p", "url=u"], /pack "" does not exist/],
    [["mypack.external_api_call", "-p", "ulr=u"], /api-call.yaml:6:1: .*unknown parameter "ulr".*Did you mean "url"/],
    [["mypack.external_api_call", "-p", "ulr=u", "-p", "url=u"], /api-call.yaml:6:1: .*"ulr".*Did you mean "url"/],
    [["mypack.external_api_call", "--input", "[1]"], /--input: must be .*; got \[1\]/],
    [
      ["mypack.external_api_call", "-p", "url=u", "--max-attempts", "9"],
      /--max-attempts cannot be used with an action/,
    ],
    [["mypack.external_api_call", "-p", "url=u", "--retry", "9"], /--retry cannot be used with an action/],
    [["mypack.external_api_call", "-p", "url=u", "more"], /unexpected argument "more"/],
  ])("refuses %j, and stores nothing", async (argv, line) => {
    const { ask, library, dir } = await openWhere(kind);
    fill(dir);
    const { code, stdout, stderr } = await ask("submit", ...argv);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^perdure submit: [^\n]+\n$/);
    expect(stderr).toMatch(line);
    expect((await library.jobs()).jobs).toEqual([]);
  });
});

describe("submit an action", () => {
  const submit = (cwd: string, name: string, env: Record<string, string> = {}) => {
    return perdure(["submit", "--json", name], { cwd, env });
  };

  it.each<[string, string, string]>([
    ["api.yaml", "name: go\nruntime: shell\nentrypoint: a.sh\nmax_retires: 3\n", "packs/p/actions/api.yaml:4:1: "],
    ["api.yaml", "name: go\nruntime: shell\nentrypoint: a.sh\nmax_retries: -3\n", "packs/p/actions/api.yaml:4:1: "],
    ["api.yaml", "name: go\nruntime: ruby\nentrypoint: a.sh\n", "packs/p/actions/api.yaml:2:1: "],
    ["api.yaml", "name: go\nruntime: shell\nentrypoint: /etc/passwd\n", "packs/p/actions/api.yaml:3:1: "],
    ["api.yaml", "name: go\nruntime: shell\nentrypoint: ../../x.sh\n", "packs/p/actions/api.yaml:3:1: "],
    ["api.yaml", "name: go\nruntime: shell\nentrypoint: gone.sh\n", "packs/p/actions/api.yaml:3:1: "],
    ["api.yaml", "name: go\nruntime: shell\nruntime: node\nentrypoint: a.sh\n", 'action "p.go" does not exist'],
    ["go.yaml", "name: go\nruntime: shell\nruntime: node\nentrypoint: a.sh\n", "packs/p/actions/go.yaml:3:1: "],
    ["go.yaml", "name: go\nruntime: shell\nentrypoint: a.sh\nenabled: false\n", "packs/p/actions/go.yaml:4:1: "],
    ["go.yaml", "name: go\nruntime: shell\nrunner_type: shell\nentrypoint: a.sh\n", "packs/p/actions/go.yaml:3:1: "],
    ["go.yaml", "name: go\nretry: &a [*a]\n", "packs/p/actions/go.yaml:2:"],
  ])("from an invalid file is refused with the position: %s %j", async (name, text, place) => {
    const cwd = newDir();
    const outside = { "packs/x.sh": "", "packs/p/actions/a.sh": "" };
    fill(cwd, { ...outside, "packs/p/pack.yaml": "name: p\n", [`packs/p/actions/${name}`]: text });
    const { code, stderr } = await submit(cwd, "p.go");
    expect(code).toBe(2);
    expect(stderr).toContain(`perdure submit: ${place}`);
  });

  it("of an invalid pack is refused with the position in its manifest", async () => {
    const cwd = newDir();
    const action = "name: go\nruntime: shell\nentrypoint: actions/a.sh\n";
    const files = { "packs/p/actions/go.yaml": action, "packs/p/actions/a.sh": "true\n" };
    fill(cwd, { ...files, "packs/p/pack.yaml": "ref: p\nretry:\n  jitter_factor: 2\n" });
    const { code, stderr } = await submit(cwd, "p.go");
    expect(code).toBe(2);
    expect(stderr).toBe(
      "perdure submit: packs/p/pack.yaml:3:3: retry.jitter_factor: must be a number from 0 to below 1; got 2\n",
    );
  });

  it("cannot use a file outside its pack through a link", async () => {
    const cwd = newDir();
    const action = "name: go\nruntime: shell\nentrypoint: actions/a.sh\n";
    fill(cwd, { "packs/p/pack.yaml": "ref: p\n", "packs/p/actions/go.yaml": action, secret: "s" });
    symlinkSync(join(cwd, "secret"), join(cwd, "packs/p/actions/a.sh"));
    expect(await submit(cwd, "p.go")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("is not in the folder of the file that names it"),
    });
  });

  it("that is defined twice is refused", async () => {
    const cwd = newDir();
    const action = "name: go\nruntime: shell\nentrypoint: actions/a.sh\n";
    const files = { "packs/p/pack.yaml": "ref: p\n", "packs/p/actions/a.sh": "", "packs/p/actions/one.yaml": action };
    fill(cwd, { ...files, "packs/p/actions/two.yaml": action });
    expect((await submit(cwd, "p.go")).stderr).toContain(
      'two.yaml:1:1: the action "p.go" is in packs/p/actions/one.yaml',
    );
    fill(cwd, { "packs/q/pack.yaml": "ref: p\n" });
    expect((await submit(cwd, "p.go")).stderr).toContain('the pack "p" is in packs/p too');
  });

  it("is an ordinary kind if there are no packs, and is refused if no pack has that name", async () => {
    const cwd = newDir();
    expect(await submit(cwd, "mypak.x")).toMatchObject({ code: 0 });
    writeFileSync(join(cwd, "packs"), "a file");
    expect(await submit(cwd, "mypak.x")).toMatchObject({ code: 0 });
    rmSync(join(cwd, "packs"));
    fill(cwd);
    const near = await submit(cwd, "mypak.external_api_call");
    expect(near).toMatchObject({ code: 2, stdout: "" });
    expect(near.stderr).toBe(
      'perdure submit: pack "mypak" does not exist in ./packs. Did you mean "mypack.external_api_call"? ' +
        "To submit a job of kind mypak.external_api_call, use a job file with " +
        "`kind: mypak.external_api_call`\n",
    );
    expect((await submit(cwd, "mypak.x")).stderr).toContain('Did you mean "mypack"?');
    writeFileSync(join(cwd, "job.yaml"), "kind: mypak.x\n");
    expect(await perdure(["submit", "-f", "job.yaml"], { cwd })).toMatchObject({ code: 0 });
    const named = await submit(cwd, "mypak.x", { PERDURE_ATTUNE_PACKS: "packs" });
    expect(named).toMatchObject({ code: 2, stdout: "" });
    expect(named.stderr).toMatch(
      /pack "mypak" does not exist in packs \(PERDURE_ATTUNE_PACKS\)\. Did you mean "mypack"\?/,
    );
    const gone = await submit(cwd, "mypack.x", { PERDURE_ATTUNE_PACKS: "gone" });
    expect(gone).toMatchObject({ code: 2, stderr: expect.stringContaining('attune.packs: "gone" cannot be read') });
  });

  it("is refused with -p if there are no packs, since an ordinary kind takes no parameters", async () => {
    const { ask, library } = await openWhere("data");
    const { code, stdout, stderr } = await ask("submit", "mypack.action", "-p", "key=value");
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toBe(
      'perdure submit: "mypack.action" would be an action, but ./packs (attune.packs) has no packs: a pack is a ' +
        "folder with a pack.yaml. To submit a job of kind mypack.action, use --input instead of -p\n",
    );
    expect((await library.jobs()).jobs).toEqual([]);
  });

  it.each(KINDS)("read as an ordinary kind on %s prints a note if no worker takes it", async (kind) => {
    const { ask, library } = await openWhere(kind);
    const alone = await ask("submit", "mypack.action");
    expect(alone.code).toBe(0);
    expect(alone.stderr).toBe(
      "note: no packs were found, so mypack.action is an ordinary kind; no worker takes jobs of kind " +
        `mypack.action; start one with \`perdure ${kind === "data" ? "up" : "worker"}\`\n`,
    );
    await library.work([task("mypack.action", () => null)]);
    expect(await ask("submit", "mypack.action")).toMatchObject({ code: 0, stderr: "" });
  });

  it("of a folder without pack.yaml is refused, with the line to write", async () => {
    const { "packs/mypack/pack.yaml": _, "packs/other/pack.yaml": __, ...bare } = FILES;
    const cwd = newDir();
    fill(cwd, bare);
    const message =
      "packs/mypack has actions but no pack.yaml; create packs/mypack/pack.yaml with the line `ref: mypack`";
    for (const env of [{}, { PERDURE_ATTUNE_PACKS: "packs" }, { PERDURE_ATTUNE_PACKS: "packs/mypack" }]) {
      const { code, stdout, stderr } = await submit(cwd, "mypack.external_api_call", env);
      expect({ code, stdout, stderr }).toEqual({ code: 2, stdout: "", stderr: `perdure submit: ${message}\n` });
    }
    // A similar name is suggested for it as well.
    expect((await submit(cwd, "mypak.x")).stderr).toContain(
      'pack "mypak" does not exist in ./packs. Did you mean "mypack"?',
    );
    fill(cwd, { "packs/mypack/pack.yaml": "ref: mypack\n" });
    expect((await submit(cwd, "mypack.gone")).stderr).toContain('action "mypack.gone" does not exist');
  });

  it("with an open schema names a parameter similar to the missing one", async () => {
    const cwd = newDir();
    const schema =
      "parameters:\n  type: object\n  additionalProperties: true\n  required: [url]\n  properties: { url: { type: string } }\n";
    fill(cwd, {
      "packs/p/pack.yaml": "ref: p\n",
      "packs/p/actions/go.yaml": `name: go\nruntime: shell\nentrypoint: actions/a.sh\n${schema}`,
      "packs/p/actions/a.sh": "",
    });
    const { code, stderr } = await perdure(["submit", "p.go", "-p", "ulr=x"], { cwd });
    expect(code).toBe(2);
    expect(stderr).toContain('the parameter "url" is required, but "ulr" was given;');
  });

  it("suggests packs that cannot be read as well", async () => {
    const cwd = newDir();
    fill(cwd, { "packs/other/pack.yaml": "ref: [\n" });
    const { code, stderr } = await submit(cwd, "othr.x");
    expect(code).toBe(2);
    expect(stderr).toContain('pack "othr" does not exist in ./packs. Did you mean "other"?');
  });

  it("takes the settings where it and its pack set nothing, and notes unsupported fields", async () => {
    const cwd = newDir();
    const action = "name: go\nruntime: shell\nentrypoint: actions/a.sh\nmax_retries: 1\noutput_format: json\n";
    fill(cwd, {
      "elsewhere/p/pack.yaml": "ref: p\n",
      "elsewhere/p/actions/go.yaml": action,
      "elsewhere/p/actions/a.sh": "",
    });
    const settings = "attune:\n  ttl: 90s\n  packs: [elsewhere]\n  retry:\n    base_backoff_secs: 7\n";
    writeFileSync(join(cwd, "perdure.yaml"), settings);
    const { code, stdout, stderr } = await submit(cwd, "p.go");
    expect(code).toBe(0);
    expect(stderr).toContain("note: elsewhere/p/actions/go.yaml:5:1: output_format: ");
    const { id } = JSON.parse(stdout) as { id: string };
    const shown = JSON.parse((await perdure(["get", id, "--json"], { cwd })).stdout) as Record<string, never>;
    expect(shown).toMatchObject({ timeoutMs: 90_000, expireInMs: 90_000, policy: { backoff: { initialMs: 7_000 } } });
  });
});

describe("perdure apply of an action file", () => {
  it("submits the same job as its name does, and the view shows it", async () => {
    const { askJson, library, dir } = await openWhere("data");
    fill(dir);
    const named = await askJson<{ id: string }>("submit", "mypack.external_api_call", "-p", "url=u");
    const file = "packs/mypack/actions/api-call.yaml";
    const [applied] = await askJson<[{ id: string }]>("apply", "-f", file, "-p", "url=u");
    const jobs = await Promise.all([named.id, applied.id].map(async (id) => (await library.job(id)).get()));
    const [one, two] = jobs.map(({ kind, payload, policy, labels, annotations, timeoutMs, expireInMs }) => {
      return { kind, payload, policy, labels, annotations, timeoutMs, expireInMs };
    });
    expect(one).toEqual(two);
    expect(await askJson("get", applied.id, "-o", "attune")).toMatchObject({
      ...{ id: applied.id, action_ref: "mypack.external_api_call", status: "requested", max_retries: 3 },
      ...{ config: { url: "u", tries: 2 }, chain: [{ retry_count: 0 }] },
    });
  });

  it("of a pack whose pack.yaml is empty is refused for that file", async () => {
    const { ask, dir } = await openWhere("data");
    const action = "name: go\nruntime: shell\nentrypoint: actions/go.sh\n";
    fill(dir, {
      "packs/p/pack.yaml": "# later\n",
      "packs/p/actions/go.yaml": action,
      "packs/p/actions/go.sh": "true\n",
    });
    const refused = {
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("packs/p/pack.yaml:1:1: name: is missing"),
    };
    expect(await ask("submit", "p.go")).toMatchObject(refused);
    expect(await ask("apply", "-f", "packs/p/actions/go.yaml")).toMatchObject(refused);
  });

  it("takes one outside any pack, with its entrypoint beside it", async () => {
    const { askJson, library, dir } = await openWhere("data");
    fill(dir, { "go.yaml": "name: go\nruntime: shell\nentrypoint: go.sh\n", "go.sh": "true\n" });
    const [{ id }] = await askJson<[{ id: string }]>("apply", "-f", "go.yaml");
    const { annotations, payload } = await (await library.job(id)).get();
    expect(annotations).toEqual({ "attune/action": "go" });
    expect(payload).toMatchObject({ argv: ["sh", "inputs/go.sh"] });
  });
});

describe("examples/attune", () => {
  const cwd = fileURLToPath(new URL("../../examples/attune", import.meta.url));

  it("runs on a worker that has node and shell, with one retry", async () => {
    const { library, ask } = await openWhere("data", { cwd });
    await library.work([exec], { runtimes: ["node", "shell"], stopGrace: 0 });
    const called = await ask("submit", "mypack.external_api_call", "-p", "url=https://api.example.org/price", "-w");
    expect(called).toMatchObject({ code: 0, stdout: expect.stringContaining("succeeded  after 2 attempts") });
    const [id = ""] = called.stdout.split("\n");
    const job = await (await library.job(id)).get();
    expect(job.result).toMatchObject({ output: { url: "https://api.example.org/price", price: 42 } });
    const [first] = await (await library.job(id)).attempts();
    expect(first?.failure?.message).toBe("exit code 1: connect to api.example.org: connection refused");

    const greeted = await ask("submit", "mypack.greet", "-p", "name=Ada", "--wait");
    expect(greeted.code).toBe(0);
    const logs = await ask("logs", greeted.stdout.split("\n")[0] ?? "");
    expect(logs.stdout).toBe('hello: {"name":"Ada"}\n');
  });
});
