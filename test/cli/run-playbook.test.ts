/** `perdure run -f`: a playbook here, with retries, a loop and a failure branch; its result, its lines and its exit codes. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { localAdvice } from "../../src/cli/playbooks/follow-run.ts";
import { perdureAt } from "./kit.ts";
import { newPlace, start } from "./program.ts";
import { newDir } from "./targets.ts";

const HEAD = "apiVersion: perdure/v1\nkind: Playbook\n";

function written(cwd: string, name: string, text: string): void {
  writeFileSync(join(cwd, name), HEAD + text);
}

const run = (cwd: string, ...argv: string[]) => perdureAt({ cwd }, ["run", ...argv], { PATH: process.env.PATH });

const ORDERS = (flag: string) => `metadata: { name: orders }
inputs: { factor: { type: integer, default: 3 } }
workflow:
  - step: fetch
    type: shell
    command: "test -e ${flag} || { touch ${flag}; echo not yet >&2; exit 75; }; echo '[1,2,3,4]'"
    retry: { maxAttempts: 3, backoff: { initial: 20ms, jitter: 0 } }
    next: each
  - step: each
    type: shell
    loop: { in: "{{ fetch }}", iterator: n, concurrency: 2, onItemFailure: continue, maxFailures: 1 }
    command: "test {{ n }} != 3 && echo {{ n * inputs.factor }}"
    next: bad
  - step: bad
    type: shell
    command: "exit 7"
    next: { step: rescue, when: "{{ exit_code == 7 }}" }
  - { step: rescue, type: playbook, path: ./sum.yaml, data: { list: "{{ each.results }}" } }
`;
const SUM = `metadata: { name: sum }
workflow:
  - { step: print, type: shell, command: "echo '{{ workload.list | length }}'" }
result: { count: "{{ print }}" }
`;

it("runs a playbook here: retries, a loop with a failed item, a failure branch and a file beside it", async () => {
  const cwd = newDir();
  written(cwd, "orders.yaml", ORDERS(join(cwd, "flag")));
  written(cwd, "sum.yaml", SUM);
  const said = await run(cwd, "-f", "orders.yaml", "-p", "factor=2", "--key", "k");
  expect(said.code).toBe(0);
  expect(JSON.parse(said.stdout)).toEqual({ count: 4 });
  const lines = said.stderr
    .replaceAll(/[\d.]+ m?s\b/g, "T")
    .replaceAll(/job_\w+/g, "ID")
    .split("\n");
  expect(lines).toEqual([
    "ID: started",
    "▸ fetch: shell",
    "  fetch: attempt 1/3 failed: exit code 75 (not yet); retrying in T",
    "✓ fetch: succeeded after 2 attempts, T",
    "▸ each: 4 items",
    "✓ each: succeeded, T, 3/4 ✓ 1 ✗",
    "▸ bad: shell",
    "! bad: failed, T: exit code 7; handled",
    "▸ rescue: playbook",
    "✓ rescue: succeeded, T",
    "ID: succeeded after 8 steps, T",
    "",
  ]);
  // The same command again is the same run.
  const again = await run(cwd, "-f", "orders.yaml", "-p", "factor=2", "--key", "k", "--json");
  expect(again.code).toBe(0);
  expect(JSON.parse(again.stdout)).toMatchObject({
    ...{ state: "succeeded", exitCode: 0, result: { count: 4 } },
    steps: [{ step: "fetch", attempt: 2 }, { step: "each" }, { step: "bad", state: "handled" }, { step: "rescue" }],
  });
  expect((await run(cwd, "-f", "orders.yaml", "-p", "factor=5", "--key", "k")).stderr).toMatch(
    /^perdure run: --key: "k" belongs to job_\w+, which has another playbook or input/,
  );
});

it("exits with 1 after a failure, and --again redrives what failed only", async () => {
  const cwd = newDir();
  const [count, flag] = [join(cwd, "count"), join(cwd, "flag")];
  written(
    cwd,
    "two.yaml",
    `metadata: { name: two }
workflow:
  - { step: one, type: shell, command: "echo x >> ${count}", next: two }
  - { step: two, type: shell, command: "cat ${flag}" }
`,
  );
  const failed = await run(cwd, "-f", "two.yaml", "--key", "k");
  expect(failed).toMatchObject({ code: 1, stdout: "" });
  expect(failed.stderr).toMatch(/✗ two: failed.*No such file/);
  expect(failed.stderr).toMatch(/job_\w+: failed \(step\) after 2 steps, .*: step "two": .*No such file/);
  writeFileSync(flag, '{"ok":true}');
  const again = await run(cwd, "-f", "two.yaml", "--key", "k", "--again");
  expect([again.code, again.stdout && JSON.parse(again.stdout)]).toEqual([0, { ok: true }]);
  expect(again.stderr).toContain("✓ two (redrive 1): succeeded");
  expect(again.stderr).not.toContain("one");
  expect((await run(cwd, "-f", "two.yaml", "--key", "k", "--again")).code).toBe(2);
});

it("is resumed after kill -9 by the same command, and repeats no step that has ended", async () => {
  const place = newPlace();
  const at = (name: string) => join(place.cwd, name);
  const text = `metadata: { name: long }
workflow:
  - { step: one, type: shell, command: "echo x >> ${at("count")}", next: two }
  - { step: two, type: shell, command: "touch ${at("begun")}; until test -e ${at("go")}; do sleep 0.02; done; echo 2", next: three }
  - { step: three, type: shell, command: "echo $(wc -l < ${at("count")})" }
`;
  written(place.cwd, "long.yaml", text);
  const first = start(place, ["run", "-f", "long.yaml", "--key", "k"]);
  await first.untilPrinted("two: shell");
  await expect.poll(() => existsSync(at("begun")), { timeout: 20_000, interval: 20 }).toBe(true);
  first.kill("SIGKILL");
  await first.ended;
  writeFileSync(at("go"), "");
  const second = await start(place, ["run", "-f", "long.yaml", "--key", "k"]).ended;
  expect([second.code, second.stdout]).toEqual([0, "1\n"]);
  expect(second.stderr).toMatch(/resuming the run with this key \(2 steps so far\)/);
  expect(second.stderr).toContain("✓ three: succeeded");
});

it("advises what the worker of this process lacks", () => {
  expect(localAdvice({ kind: "quote", labels: {} })).toMatch(
    /^set PERDURE_TASKS.* to a module with this task, and run it again$/,
  );
  expect(localAdvice({ kind: "postgres", labels: { "connection/shop": "yes" } })).toBe(
    "set PERDURE_CONNECTION_SHOP, and run it again",
  );
  expect(localAdvice({ kind: "exec", labels: { gpu: "a100" } })).toBe("set PERDURE_LABELS=gpu=a100, and run it again");
});

it("exits with 124 after the timeout of the run", async () => {
  const cwd = newDir();
  written(cwd, "slow.yaml", "metadata: { name: slow }\nworkflow:\n  - { step: s, type: wait, for: 1h }\n");
  const said = await run(cwd, "-f", "slow.yaml", "--timeout", "200ms");
  expect(said).toMatchObject({ code: 124, stdout: "", stderr: expect.stringContaining("failed (timeout)") });
});

it("stores nothing for a bad playbook, a bad input or options that do not go together", async () => {
  const cwd = newDir();
  written(
    cwd,
    "bad.yaml",
    'metadata: { name: bad }\nworkflow:\n  - { step: a, type: http, url: "{{ x }}", next: b }\n',
  );
  written(cwd, "good.yaml", "metadata: { name: g }\ninputs: { n: { type: integer } }\nworkflow:\n  - { step: a }\n");
  const bad = await run(cwd, "-f", "bad.yaml");
  expect(bad).toMatchObject({ code: 2, stdout: "" });
  expect(bad.stderr).toContain('bad.yaml:5:37: error: unknown name "x"');
  expect(bad.stderr).toContain('error: unknown step "b"');
  for (const [argv, words] of [
    [["-f", "good.yaml", "-p", "n=x"], "--param: n: must be a whole number"],
    [["-f", "good.yaml", "-p", "m=1"], 'unknown input "m"'],
    [["-f", "good.yaml", "--input", "[1]"], "must be an object"],
    [["-f", "good.yaml", "--max-attempts", "3"], "--file and --max-attempts cannot be used together"],
    [["-f", "good.yaml", "--", "ls"], "--file and a command cannot be used together"],
    [["-p", "n=1", "--", "ls"], "--param requires --file"],
    [["-f", "none.yaml"], "does not exist"],
  ] as const) {
    expect(await run(cwd, ...argv), argv.join(" ")).toMatchObject({
      ...{ code: 2, stdout: "", stderr: expect.stringContaining(words) },
    });
  }
  expect(existsSync(join(cwd, ".perdure"))).toBe(false);
});
