/** AgentTasks by name, as users of kubectl expect: found by name, applied twice, refused when the manifest differs; and
 *  jobs resubmitted from them with another role. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { JobInfo } from "../../src/core/job/views.ts";
import { resubmit } from "../../src/dialects/index.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { openWhere, type TargetKind, type Where } from "./targets.ts";

const HEAD = "apiVersion: core.hortator.ai/v1alpha1\n";
const role = (name: string, spec: string) =>
  `${HEAD}kind: ClusterAgentRole\nmetadata: { name: ${name} }\nspec: { ${spec} }\n`;
const READER = role(
  "reader",
  "tier: legionary, budget: { maxCostUsd: 2 }, model: small, timeout: 60, description: Reads",
);
const WRITER = role("writer", "tier: centurion, retry: { maxAttempts: 5 }, model: large");
const ROLES = `${READER}---\n${WRITER}`;

interface Parts {
  readonly name?: string;
  readonly more?: string;
  readonly env?: string;
}

const task = (spec = "", { name = "my-task", more = "", env = "{ TOKEN: s3cret, A: '1' }" }: Parts = {}) =>
  `${HEAD}kind: AgentTask\nmetadata: { name: ${name}${more} }\nspec:\n  role: reader\n  prompt: Do it.\n` +
  `  command: [agent]\n  env: ${env}\n${spec}`;

async function applied({ ask, dir }: Where, text: string, ...argv: string[]) {
  writeFileSync(join(dir, "task.yaml"), text);
  const { code, stdout, stderr } = await ask("apply", "-f", "task.yaml", ...argv);
  return { code, ids: stdout.split("\n").filter((line) => /^job_\w{26}$/.test(line)), stderr };
}

const jobsOf = async ({ library }: Where): Promise<readonly JobInfo[]> => (await library.jobs()).jobs;

/** The lines of stderr without notes and without warnings about missing workers. */
const differencesIn = (stderr: string) => /and differs: (.*)\. It is not stored: (.*)\n/.exec(stderr)?.slice(1) ?? [];

describe.each<TargetKind>(["data", "server"])("an AgentTask on %s", (kind) => {
  it("`get NAME` works: by its name, and with its namespace", async () => {
    const where = await openWhere(kind);
    const { ids } = await applied(where, task());
    const { ids: others } = await applied(where, task("", { more: ", namespace: research" }));
    const found = async (name: string) => (await where.askJson<{ id: string }>("get", name)).id;
    expect([await found("my-task"), await found("default/my-task")]).toEqual([ids[0], ids[0]]);
    expect(await found("research/my-task")).toBe(others[0]);
    // Jobs resubmitted from it have the same name, but do not hide it.
    const again = await where.askJson<{ id: string }>("resubmit", "my-task");
    expect(again).toMatchObject({ resubmitOf: ids[0] });
    expect(await found("my-task")).toBe(ids[0]);
    expect(await where.ask("cancel", "my-task")).toMatchObject({ code: 0, stdout: `${ids[0]}  cancelled\n` });
  });

  it("`apply` of the same manifest twice finds the same job by name", async () => {
    const where = await openWhere(kind);
    const { ids } = await applied(where, `${ROLES}---\n${task()}`);
    const [id] = ids as [string];
    // Comments, white space and the order of fields do not count as differences.
    const other =
      `# the same\nkind: AgentTask\nspec:\n  env: [{ name: A, value: '1' }, { name: TOKEN, value: s3cret }]\n` +
      `  command: ["agent"]\n  prompt: 'Do it.'\n\n  role: reader\nmetadata:\n  name: my-task\n${HEAD}---\n${ROLES}`;
    for (const text of [`${ROLES}---\n${task()}`, other]) {
      const again = await applied(where, text);
      expect(again).toMatchObject({ code: 0, ids: [id] });
      expect(again.stderr).toContain(`${id} already exists, unchanged: AgentTask my-task is queued\n`);
    }
    // Perdure's own view of it can be applied as well.
    const { stdout } = await where.ask("get", "my-task", "-o", "agent-task");
    expect(await applied(where, stdout, "-f", rolesIn(where))).toMatchObject({ code: 0, ids: [id] });
    // This holds however the job ended, and whatever a redrive has changed since.
    await where.library.cancel(id);
    const ended = await applied(where, `${ROLES}---\n${task()}`);
    expect(ended.stderr).toContain("is cancelled; to start it again use `perdure redrive my-task`");
    await where.library.redrive(id, { retry: 9, timeout: "5m" });
    expect(await applied(where, `${ROLES}---\n${task()}`)).toMatchObject({ code: 0, ids: [id] });
    expect(await jobsOf(where)).toHaveLength(1);
    // --key replaces the name.
    expect((await applied(where, task(), "--key", "mine")).ids).not.toEqual([id]);
    expect((await jobsOf(where)).map(({ key }) => key)).toEqual(["mine", "agent-task:default/my-task"]);
  });

  it("a changed manifest is refused; the message lists the differences", async () => {
    const where = await openWhere(kind);
    const { ids } = await applied(where, `${ROLES}---\n${task()}`);
    const table: readonly (readonly [string, string, string])[] = [
      [task().replace("Do it.", "Do that."), 'spec.prompt: "Do it." -> "Do that."', "my-task --prompt TEXT"],
      [
        task("  retry: { maxAttempts: 5 }\n"),
        "spec.retry.maxAttempts: 3 (setting agent.retry.legionary) -> 5",
        "--max-attempts N",
      ],
      [task("  model: large\n"), 'spec.model.name: "small" (ClusterAgentRole reader) -> "large"', "--model NAME"],
      [task("  budget: { maxTokens: 7 }\n"), "spec.budget.maxTokens: none -> 7", "--retry JSON"],
      [task("  timeout: 90s\n"), "spec.timeout: 1m (ClusterAgentRole reader) -> 1m30s", "--timeout TIME"],
      // Variables may be secrets: neither value is printed.
      [task("", { env: "{ TOKEN: n3w, A: '1' }" }), "spec.env.TOKEN: another value", "--env NAME=VALUE"],
      [
        task("", { env: "{ A: '1', B: b3 }" }),
        "spec.env.TOKEN: set -> none; spec.env.B: none -> set",
        "--env NAME=VALUE",
      ],
      [task().replace("[agent]", "[agent, --key=n3w]"), "spec.command[1]: none -> set", "-- COMMAND"],
      [task("", { more: ", labels: { app: x }" }), 'metadata.labels.app: none -> "x"', "metadata.name"],
      [
        task("  resources: { requests: { cpu: 2 } }\n"),
        'spec.resources.requests.cpu: none -> "2000m"',
        "use another metadata.name or pass --key KEY",
      ],
      [
        task().replace("role: reader", "role: writer"),
        'spec.role: "reader" -> "writer"; spec.tier: "legionary" (ClusterAgentRole reader) -> "centurion" (ClusterAgentRole writer); ',
        "--role NAME",
      ],
    ];
    for (const [text, differences, instead] of table) {
      const said = await applied(where, `${ROLES}---\n${text}`);
      expect([said.code, said.ids]).toEqual([1, []]);
      expect(said.stderr).toContain(`AgentTask my-task already exists as ${ids[0]} (queued) and differs: `);
      const [what, hint] = differencesIn(said.stderr);
      if (differences.endsWith("; ")) expect(what).toContain(differences);
      else expect(what).toBe(differences);
      expect(hint).toContain(instead);
      // An id is random and may contain these letters.
      expect(said.stderr.replaceAll(/job_\w+/g, "job_ID")).not.toMatch(/s3cret|n3w|b3/);
    }
    // A changed value from a role or a setting counts as a difference, and so does what the agent reads of its role.
    const changes = [
      [
        ROLES.replace("maxCostUsd: 2", "maxCostUsd: 3"),
        "spec.budget.maxCostUsd: 2 (ClusterAgentRole reader) -> 3 (Clu",
      ],
      [ROLES.replace("Reads", "Reads on"), 'ClusterAgentRole reader: spec.description: "Reads" -> "Reads on"'],
      [WRITER, "ClusterAgentRole reader: given -> none"],
    ] as const;
    for (const [roles, wanted] of changes) {
      expect(differencesIn((await applied(where, `${roles}---\n${task()}`)).stderr)[0]).toContain(wanted);
    }
    // The user and password of an address are not printed.
    const address = (user: string) => task(`  model: { endpoint: "https://${user}@h/v1" }\n`, { name: "m" });
    await applied(where, address("joe:s3cret"));
    expect(differencesIn((await applied(where, address("joe:n3w"))).stderr)[0]).toBe(
      "spec.model.endpoint: another value",
    );
    const gone = differencesIn((await applied(where, task("", { name: "m" }))).stderr)[0];
    expect(gone).toBe('spec.model.endpoint: "https://***@h/v1" -> none');
    await where.library.cancel((await where.askJson<{ id: string }>("get", "m")).id);
    // The other tasks of the files are stored.
    const both = await applied(where, `${ROLES}---\n${task("  tier: tribune\n")}---\n${task("", { name: "other" })}`);
    expect([both.code, both.ids.length, (await jobsOf(where)).length]).toEqual([1, 1, 3]);
    // A name that occurs twice is one job.
    const twice = await applied(where, `${task("", { name: "t" })}---\n${task("  tier: tribune\n", { name: "t" })}`);
    expect([twice.code, twice.ids.length]).toEqual([1, 1]);
    const sameName = `${task("", { name: "u" })}---\n${task("  tier: tribune\n", { name: "u" })}`;
    const dry = await applied(where, sameName, "--dry-run");
    expect(dry.code).toBe(1);
    expect((await where.ask("apply", "-f", "task.yaml", "--dry-run")).stdout).toMatch(
      /AgentTask u is in these files already, at task\.yaml:1:1, and differs: spec\.tier: none -> "tribune"\. It is not stored: use another metadata\.name/,
    );
  });

  it("concurrent applies create one job; a child's name is unique among the children of its parent", async () => {
    const where = await openWhere(kind);
    writeFileSync(join(where.dir, "task.yaml"), task());
    const all = await Promise.all(Array.from({ length: 6 }, () => where.ask("apply", "-f", "task.yaml")));
    expect(new Set(all.map(({ stdout }) => stdout))).toHaveLength(1);
    expect(all.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0, 0]);
    const [parent] = await jobsOf(where);
    const child = task(`  parentTaskId: ${parent?.id}\n`);
    const first = await applied(where, child);
    expect(first.ids).not.toEqual([parent?.id]);
    expect(await applied(where, child)).toMatchObject({ code: 0, ids: first.ids });
    expect(differencesIn((await applied(where, `${child}  tier: tribune\n`)).stderr)[0]).toContain(
      "spec.tier: none -> ",
    );
    expect(await jobsOf(where)).toHaveLength(2);
  });

  it("`apply --dry-run` shows attempts, backoff and budget, and that the job already exists", async () => {
    const where = await openWhere(kind);
    const retry = "  retry: { maxAttempts: 9, backoffSeconds: 30 }\n";
    const dry = async (text: string, ...argv: string[]) => {
      writeFileSync(join(where.dir, "task.yaml"), text);
      return where.ask("apply", "--dry-run", "-f", "task.yaml", "-f", rolesIn(where), ...argv);
    };
    const said = await dry(task(retry));
    expect(said).toMatchObject({ code: 0 });
    expect(said.stdout).toBe(
      "task.yaml:1:1: exec (agent-task)\n  Name      my-task\n  Timeout   1 min\n  Attempts  9 in all\n" +
        "  Backoff   30 s, 1 min, 2 min, … capped at 5 min, ±25 %\n  Budget    2 USD\n",
    );
    expect(await jobsOf(where)).toEqual([]);
    const { ids } = await applied(where, task(retry), "-f", rolesIn(where));
    expect((await dry(task(retry))).stdout).toContain(`  Exists    ${ids[0]} already exists, unchanged: `);
    const changed = await dry(task());
    expect([changed.code, changed.stdout]).toEqual([1, expect.stringContaining("spec.retry.maxAttempts: 9 -> 3 (se")]);
    const [shown] = JSON.parse((await dry(task(), "--json")).stdout) as [object];
    expect(shown).toMatchObject({
      ...{ kind: "exec", name: "my-task", dialect: "agent-task" },
      policy: { maxAttempts: 3, backoff: { initialMs: 15_000, maxMs: 300_000, jitter: 0.25 }, budget: { costUsd: 2 } },
      existing: { id: ids[0], state: "queued", differences: expect.arrayContaining([expect.objectContaining({})]) },
    });
  });

  it("`resubmit --role`: the new role's defaults replace those of the previous role; values set by the task stay", async () => {
    const where = await openWhere(kind);
    const { ask, askJson, library } = where;
    await applied(where, `${ROLES}---\n${task("  retry: { backoffSeconds: 7 }\n")}`);
    const again = async (...argv: string[]) => {
      const made = await askJson<{ id: string }>("resubmit", ...argv, "-f", rolesIn(where));
      return (await library.job(made.id)).get();
    };
    const before = await (await library.job((await askJson<{ id: string }>("get", "my-task")).id)).get();
    expect(before).toMatchObject({ timeoutMs: 60_000, policy: { maxAttempts: 3, budget: { costUsd: 2 } } });
    const job = await again("my-task", "--role", "writer");
    expect(job).toMatchObject({
      ...{ timeoutMs: null, annotations: { "agent-task/role": "writer", "agent-task/tier": "centurion" } },
      policy: { maxAttempts: 5, backoff: { initialMs: 7_000, maxMs: 300_000 }, budget: { costUsd: null } },
      payload: { argv: ["agent"], env: { AGENT_ROLE: "writer", AGENT_TIER: "centurion", AGENT_MODEL: "large" } },
    });
    const { env, files } = job.payload as { env: object; files: Record<string, string> };
    expect(Object.keys(env)).not.toContain("AGENT_MAX_COST_USD");
    expect(Buffer.from(files["role.json"] ?? "", "base64").toString()).toContain('"maxAttempts":5');
    // A value changed by an option of the same command counts as set by the task: the next role keeps it.
    const third = await again(job.id, "--role", "reader", "--model", "haiku", "--max-attempts", "8");
    expect(third).toMatchObject({ timeoutMs: 60_000, policy: { maxAttempts: 8, budget: { costUsd: 2 } } });
    const fourth = await again(third.id, "--role", "writer");
    expect(fourth).toMatchObject({ policy: { maxAttempts: 8 }, payload: { env: { AGENT_MODEL: "haiku" } } });
    // The text output lists the changes.
    const { stderr } = await ask("resubmit", "my-task", "--role", "writer", "-f", rolesIn(where));
    expect(stderr).toMatch(/^changed: spec\.role: "reader" -> "writer"; spec\.tier: /);
    const count = (await jobsOf(where)).length;
    for (const [argv, line] of [
      [["--role", "wirter", "-f", rolesIn(where)], /ClusterAgentRole "wirter" does not exist.*Did you mean "writer"\?/],
      [
        ["--role", "writer"],
        /ClusterAgentRole "writer" does not exist; must be a role of a file .* or of the setting agent\.roles/,
      ],
      [["-f", rolesIn(where)], /--file requires --role/],
    ] as const) {
      expect(await ask("resubmit", "my-task", ...argv)).toMatchObject({ code: 2, stderr: expect.stringMatching(line) });
    }
    await library.submit("plain", null, { key: "opal:plain-1" });
    expect((await ask("resubmit", "plain-1", "--role", "writer", "-f", rolesIn(where))).stderr).toContain(
      "must be a job of kind exec",
    );
    expect(await jobsOf(where)).toHaveLength(count + 1);
  });

  it("`resubmit --role` of a job without a record of its task's values: all of its values count as set by the task", async () => {
    const where = await openWhere(kind);
    const { ids } = await applied(where, task("  retry: { maxAttempts: 2 }\n  timeout: 1d\n"));
    const { payload, policy, annotations } = await (await where.library.job(ids[0] as string)).get();
    const { "agent-task/values": _values, ...others } = annotations;
    const retry = { preset: "agent", maxAttempts: policy.maxAttempts } as const;
    const { id } = await where.library.submit("exec", payload, { retry, annotations: others, timeout: "1d" });
    const said = await where.ask("resubmit", id, "--role", "writer", "--timeout", "2d", "-f", rolesIn(where));
    expect(said.stderr).toContain(
      "stored by an earlier version: its retry, model and budget count as its own values\n",
    );
    expect(said.stderr).toMatch(/^changed: spec\.role: "reader" -> "writer"; /m);
    expect(said.stderr).toContain("spec.timeout: 1d -> 2d");
    expect(said.stderr).not.toContain("maxAttempts");
    const again = await where.ask("resubmit", ids[0] as string, "--role", "writer", "-f", rolesIn(where));
    expect(again.stderr).not.toContain("stored by an earlier version");
  });

  it("is shown by its name, without Perdure's internal annotations", async () => {
    const where = await openWhere(kind);
    const { ask, askJson, library } = where;
    const parent = (await library.submit("exec", { argv: ["agent"] }, { name: "boss", annotations: { mine: "yes" } }))
      .id;
    await applied(where, task(`  parentTaskId: ${parent}\n`, { name: "kid" }));
    const { id: grand } = await library.submit("exec", { argv: ["x"] }, { parent, name: "grand" });
    await library.submit("exec", { argv: ["x"] }, { parent, key: "page-1" });
    const pages = [
      ["tree", parent],
      ["get", "kid"],
      ["describe", "kid"],
      ["describe", "-o", "agent-task", "kid"],
    ];
    for (const [command = "", ...argv] of pages) {
      const { stdout } = await ask(command, ...argv);
      expect(stdout).toContain("kid");
      expect(stdout).not.toMatch(/agent-task:default|agent-task\/values/);
    }
    expect((await ask("tree", parent)).stdout).toContain("[page-1]");
    expect(await askJson("get", "kid")).toMatchObject({ annotations: { "agent-task/values": expect.any(String) } });
    const { status } = await askJson<{ status: { children: object[] } }>("get", parent, "-o", "agent-task");
    expect(status.children).toEqual(
      expect.arrayContaining(["kid", "grand", "page-1"].map((name) => expect.objectContaining({ name }))),
    );
    expect(await askJson("get", grand, "-o", "agent-task")).toMatchObject({ metadata: { name: "grand" } });
  });

  it("resubmitted jobs name the job they came from, and are found by it", async () => {
    const where = await openWhere(kind);
    const { ask, askJson, library } = where;
    const { ids } = await applied(where, task("", { more: ", labels: { team: red }" }));
    const [id] = ids as [string];
    const { job: second } = await resubmit(library, id, { prompt: "Again." });
    const third = await askJson<{ id: string }>("resubmit", second.id);
    const listed = async (...argv: string[]) => (await askJson<{ id: string }[]>("ps", ...argv)).map((job) => job.id);
    expect(await listed("--resubmit-of", "my-task")).toEqual([second.id]);
    expect(await listed("--resubmit-of", second.id)).toEqual([third.id]);
    expect(await listed("--tag", "team=red")).toHaveLength(3);
    expect((await library.jobs({ tag: `resubmit-of=${id}` })).jobs.map((job) => job.id)).toEqual([second.id]);
    for (const argv of [["get"], ["describe"], ["describe", "-o", "agent-task"]]) {
      const [command = "", ...more] = argv;
      expect((await ask(command, second.id, ...more)).stdout).toMatch(new RegExp(`^Resubmit of +${id}$`, "m"));
    }
    expect((await ask("explain", second.id)).stdout).toContain(`It is a resubmit of ${id}.`);
    expect(await askJson("explain", second.id)).toMatchObject({ resubmitOf: id });
    expect(await askJson("get", second.id)).toMatchObject({ annotations: { "resubmit-of": id } });
    const { stdout } = await ask("get", second.id, "-o", "agent-task");
    expect(JSON.parse(stdout)).toMatchObject({
      metadata: { labels: { team: "red" }, annotations: { "resubmit-of": id } },
    });
    // Applied under another name it is a separate task.
    const renamed = await applied(where, stdout.replace('"my-task"', '"renamed"'));
    expect(renamed).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/annotations\.resubmit-of: .* is ignored/),
    });
    expect((await ask("get", "renamed")).stdout).not.toContain("Resubmit of");
    expect((await ask("explain", id)).stdout).not.toContain("resubmit");
    expect(await ask("ps", "--resubmit-of", id, "--tag", "x")).toMatchObject({ code: 2 });
  });
});

function rolesIn({ dir }: Where): string {
  const file = join(dir, "roles.yaml");
  writeFileSync(file, ROLES);
  return file;
}

it("an AgentTask whose job was deleted is submitted as a new job", async () => {
  const where = await openWhere("data");
  const { ids } = await applied(where, task());
  await where.library.cancel(ids[0] as string);
  const url = join(where.dir, "perdure.db");
  await using pruning = await Perdure.open({ url, retention: { cancelled: 0 }, keyWindow: 0 });
  expect(await pruning.prune()).toBe(1);
  const again = await applied(where, task("  tier: tribune\n"));
  expect(again).toMatchObject({ code: 0, ids: [expect.any(String)] });
  expect(again.ids).not.toEqual(ids);
});

describe("a manifest without a valid name", () => {
  it.each([
    ["{ generateName: t- }", /task\.yaml:3:\d+: metadata\.generateName: generateName is not supported; .*--key/],
    [
      `{ name: ${"n".repeat(250)}, namespace: ${"s".repeat(250)} }`,
      /metadata\.name: .*at most 480 characters together/,
    ],
    ['{ name: "a\\tb" }', /task\.yaml:3:\d+: metadata\.name: .*without control characters/],
    ['{ name: a, namespace: " b" }', /metadata\.namespace: .*leading and trailing white space/],
  ])("%j is refused with its place", async (metadata, line) => {
    const where = await openWhere("data");
    const said = await applied(where, task().replace(/metadata: .*/, `metadata: ${metadata}`));
    expect(said).toMatchObject({ code: 2, ids: [], stderr: expect.stringMatching(line) });
  });
});
