/** `perdure apply`, `playbook`, `start`, `runs`, `steps`, `get`, `graph`, `events` and `redrive` for runs of playbooks, on a server and
 *  on a database. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { task } from "../../src/core/task/task.ts";
import { KINDS, openWhere } from "./targets.ts";

const HEAD = "apiVersion: perdure/v1\nkind: Playbook\n";
const ORDERS = `${HEAD}metadata: { name: orders, path: shop/orders }
inputs: { city: { type: string, required: true }, days: { type: integer, default: 1 } }
workflow:
  - { step: load, type: task, task: load, data: { city: "{{ inputs.city }}" }, next: pack }
  - { step: pack, type: task, task: pack, loop: { in: "{{ load.items }}", iterator: i }, data: { i: "{{ i }}" }, next: ship }
  - { step: ship, type: task, task: ship, data: { days: "{{ inputs.days }}" } }
result: { shipped: "{{ ship }}" }
`;

describe.each(KINDS)("playbooks on a %s", (kind) => {
  async function open() {
    const where = await openWhere(kind);
    let isBroken = true;
    const load = task("load", ({ city }: { city: string }) => ({ items: [city, "b"] }));
    const pack = task("pack", ({ i }: { i: string }) => `packed ${i}`);
    const ship = task("ship", (input: { days: number; to?: string }) => {
      if (isBroken) throw new Error("no ship today");
      return input;
    });
    await where.library.work([load, pack, ship]);
    const file = (name: string, text: string) => {
      writeFileSync(join(where.dir, name), text);
      return name;
    };
    const fix = () => {
      isBroken = false;
    };
    return { ...where, file, fix };
  }

  it("pushes versions, lists, shows and deletes them", async () => {
    const { ask, askJson, file, dir } = await open();
    file("orders.yaml", ORDERS);
    expect(await ask("playbook", "push", join(dir, "orders.yaml"))).toMatchObject({
      code: 0,
      stdout: "shop/orders@1\n",
    });
    expect((await ask("playbook", "push", join(dir, "orders.yaml"))).stdout).toBe("shop/orders@1\n");
    file("orders.yaml", ORDERS.replace("default: 1", "default: 2"));
    expect((await ask("playbook", "push", join(dir, "orders.yaml"))).stdout).toBe("shop/orders@2\n");
    expect((await ask("playbook", "push", join(dir, "orders.yaml"), "--path", "other/x")).stdout).toBe("other/x@1\n");
    expect(await askJson("playbook", "list")).toMatchObject([
      { path: "other/x", version: 1 },
      { path: "shop/orders", version: 2 },
    ]);
    const shown = await ask("playbook", "show", "shop/orders@1");
    expect(shown.stdout).toMatch(/Versions +2, 1\n/);
    expect(shown.stdout).toMatch(/city +string +required/);
    expect((await ask("playbook", "show", "shop/orders@1", "--source")).stdout).toBe(ORDERS);
    expect((await ask("graph", "shop/orders")).stdout).toContain("task load");
    expect(await ask("playbook", "delete", "shop/orders@1")).toMatchObject({
      stdout: "shop/orders@1: deleted 1 version\n",
    });
    expect(await ask("playbook", "show", "shop/orders@1")).toMatchObject({ code: 1, stdout: "" });
    file("bad.yaml", `${HEAD}metadata: { name: b, path: b }\nworkflow:\n  - { step: a, next: c }\n`);
    const bad = await ask("playbook", "push", join(dir, "bad.yaml"), join(dir, "orders.yaml"));
    expect(bad).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining('bad.yaml:5:16: error: unknown step "c"'),
    });
    for (const argv of [["push"], ["shw"], ["show"], ["show", "a b"], ["list", "x"], ["list", "--path", "x"]]) {
      expect((await ask("playbook", ...argv)).code, argv.join(" ")).toBe(2);
    }
  });

  it("starts a run of the catalog, shows it in every way, and redrives its failed step", async () => {
    const { ask, askJson, file, fix, dir, library, server } = await open();
    file("orders.yaml", ORDERS);
    await ask("playbook", "push", join(dir, "orders.yaml"));
    const started = await askJson<{ id: string; created: boolean }>(
      ...(["start", "shop/orders", "-p", "city=Oslo", "-p", "days=4", "--key", "k", "--tag", "t"] as const),
    );
    expect(started.created).toBe(true);
    const { id } = started;
    expect((await ask("start", "shop/orders", "-p", "city=Oslo", "-p", "days=4", "--key", "k")).stderr).toContain(
      `${id} already exists for key k`,
    );
    const waited = await ask("wait", id);
    expect(waited).toMatchObject({ code: 1, stdout: expect.stringMatching(/failed \(step\).*no ship today/) });

    expect((await ask("runs", "--state", "failed", "--playbook", "shop/*", "--tag", "t")).stdout).toMatch(
      new RegExp(`${id} +orders +shop/orders@1 +failed \\(step\\) +5 .*no ship today`),
    );
    expect(await askJson("runs", "--state", "succeeded")).toEqual([]);
    const listed = await ask("steps", id);
    expect(listed.stdout).toMatch(/1 +load +task +succeeded +1\/1 /);
    expect(listed.stdout).toMatch(/ship +task +failed \(exhausted\) .*no ship today/);
    expect(listed.stdout).not.toContain("pack[0]");
    expect(await askJson("steps", id, "--step", "pack", "--outputs")).toMatchObject([
      { step: "pack", item: null, output: ["packed Oslo", "packed b"] },
      { item: 0, output: "packed Oslo" },
      { item: 1, output: "packed b" },
    ]);
    expect(await askJson("steps", id, "--failed")).toMatchObject([{ step: "ship" }]);
    const got = await ask("get", id);
    expect(got.stdout).toMatch(/State +failed \(step\)\n/);
    expect(got.stdout).toMatch(/Failed step +ship\n/);
    expect((await ask("graph", id)).stdout).toMatch(/✗ ship/);
    expect((await ask("tree", id)).stdout).toContain("orders / load");
    expect((await ask("events", id, "--view", "noetl", "--step", "load")).code).toBe(0);
    expect((await ask("explain", id)).stdout).toMatch(/✗ ship +task ship, /);
    expect((await ask("describe", id)).stdout).toMatch(/Playbook +shop\/orders@1\n[\s\S]*run\.ended/);
    if (server !== null) {
      const headers = { authorization: `Bearer ${server.admin}` };
      const page = await fetch(`${server.url}/v1/jobs/${id}/events?view=noetl&step=load`, { headers });
      const { events } = (await page.json()) as { events: { event_type: string }[] };
      expect(events[0]?.event_type).toBe("action_started");
    }

    const ship = (await library.steps(id)).find(({ step }) => step === "ship")?.job as string;
    expect(await ask("redrive", ship)).toMatchObject({ code: 1, stderr: expect.stringContaining(id) });
    for (const [argv, words] of [
      [["--from", "shp"], "shp"],
      [["--output", "1"], "--output requires --skip"],
      [["--set", "data.to=x"], "--from"],
      [["--from", "ship", "--timeout", "1s"], "cannot be used together"],
    ] as const) {
      const said = await ask("redrive", id, ...argv);
      expect([said.code === 0, said.stderr], argv.join(" ")).toEqual([false, expect.stringContaining(words)]);
    }
    file(
      "less.yaml",
      `${HEAD}metadata: { name: less }\nworkflow:\n  - { step: ship, type: wait, for: 1s, next: shp }\n`,
    );
    const bad = await ask("redrive", id, "--definition", join(dir, "less.yaml"));
    expect(bad).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining('unknown step "shp"') });
    file("less.yaml", ORDERS.replace("next: ship", "next: none").replace("  - { step: ship", "  - { step: none"));
    const misfit = await ask("redrive", id, "--definition", join(dir, "less.yaml"));
    expect([misfit.code === 0, misfit.stderr]).toEqual([false, expect.stringMatching(/ship/)]);
    expect(await askJson("get", id)).toMatchObject({ state: "failed", chapter: 1 });
    fix();
    const redriven = await ask("redrive", id, "--from", "ship", "--set", "data.to=Bergen");
    expect(redriven).toMatchObject({ code: 0, stdout: expect.stringContaining(id) });
    expect(redriven.stderr.includes("no server is running on this data")).toBe(server === null);
    expect(await ask("wait", id)).toMatchObject({ code: 0 });
    expect(await askJson("get", id)).toMatchObject({
      ...{ state: "succeeded", chapter: 2, result: { shipped: { days: 4, to: "Bergen" } } },
      steps: [{ step: "load", try: 1 }, { step: "pack", try: 1 }, { step: "ship" }, { step: "ship", try: 2 }],
    });
    expect(await ask("start", "shop/orders", "-p", "days=x", "-p", "city=a")).toMatchObject({
      ...{ code: 2, stdout: "", stderr: 'perdure start: --param: days: must be a whole number; got "x"\n' },
    });
    expect(await ask("start", "shop/none")).toMatchObject({
      ...{ code: 1, stdout: "", stderr: "perdure start: playbook shop/none does not exist in the catalog\n" },
    });
    expect(await ask("redrive", id)).toMatchObject({ code: 1 });
  });

  it("applies a file with jobs and playbooks, and follows a run of the catalog", async () => {
    const { ask, askJson, file, fix, dir } = await open();
    fix();
    const mixed = join(dir, file("mixed.yaml", `kind: pack\ninput: { i: z }\n---\n${ORDERS}`));
    const dry = await ask("apply", "-f", mixed, "-p", "city=Oslo", "--dry-run");
    expect(dry).toMatchObject({ code: 0, stdout: expect.stringContaining("playbook orders, 3 steps") });
    expect(await askJson("runs")).toEqual([]);
    const done = await askJson<{ id: string }[]>("apply", "-f", mixed, "-p", "city=Oslo", "--wait");
    expect(done).toMatchObject([
      { state: "succeeded", result: "packed z" },
      { state: "succeeded", result: { shipped: { days: 1 } } },
    ]);
    const refused = await ask("apply", "-f", mixed, "-p", "town=Oslo");
    expect(refused).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining('unknown input "town"') });
    expect(await askJson("ps", "--all")).toHaveLength(2);
    if (kind === "data") return;
    await ask("playbook", "push", join(dir, file("orders.yaml", ORDERS)));
    const followed = await ask("start", "shop/orders", "-p", "city=Oslo", "--follow");
    expect(followed).toMatchObject({ code: 0, stderr: expect.stringContaining("✓ ship: succeeded") });
    expect(JSON.parse(followed.stdout)).toEqual({ shipped: { days: 1 } });
  });
});
