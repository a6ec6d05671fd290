/** Connections of workers: where their addresses come from, and that no process, output or file shows a password. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { postgresUrl } from "../postgres/kit.ts";
import { newPlace, perdureIn, start } from "./program.ts";

const address = () => postgresUrl();

/** Command lines and environments of a process and its descendants. */
function shownBy(pid: number): string {
  const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, "latin1");
  const tasks = readdirSync(`/proc/${pid}/task`);
  const children = tasks.flatMap((task) => readFileSync(`/proc/${pid}/task/${task}/children`, "latin1").split(" "));
  return [read("cmdline"), read("environ"), ...children.filter(Boolean).map((each) => shownBy(Number(each)))].join(
    "\n",
  );
}

const JOBS = `jobs:
  - { kind: postgres, name: first, input: { connection: shop, statements: [{ text: "select 1 as v" }] }, retry: 1 }
  - { kind: postgres, name: second, input: { connection: By-Env, statements: [{ text: "select 2/0" }] }, retry: 1 }
`;

describe.skipIf(process.platform !== "linux")("the connections of `perdure up`", () => {
  it("reach its workers, which run SQL by default, and appear in no argument, environment, log or file", async () => {
    const place = newPlace();
    const env = { PERDURE_CONNECTION_BY_ENV: address() };
    const up = start(place, ["up", "--port", "0", "--connection", `shop=${address()}`], env);
    await up.untilPrinted(/working/);
    const shown = shownBy(up.pid);
    expect(shown).toContain("--kind=postgres");
    writeFileSync(join(place.cwd, "jobs.yaml"), JOBS);
    const said = [
      await perdureIn(place, ["apply", "-f", "jobs.yaml", "--wait"]),
      await perdureIn(place, ["ps", "--json"]),
      await perdureIn(place, ["workers", "--json"]),
      await perdureIn(place, ["config", "--json"]),
    ];
    const [, jobs, workers, settings] = said.map(({ stdout }) => stdout);
    const found = (JSON.parse(jobs as string) as { name: string; state: string }[]).map(({ name, state }) => [
      name,
      state,
    ]);
    expect(new Map(found as [string, string][])).toEqual(
      new Map([
        ["first", "succeeded"],
        ["second", "failed"],
      ]),
    );
    expect(workers).toContain("connection/by_env");
    expect(settings).toContain("shop=set (hidden)");
    up.kill("SIGTERM");
    const { stdout, stderr } = await up.ended;
    const data = readdirSync(place.data, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const files = data.map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"));
    const all = [shown, stdout, stderr, ...said.flatMap((each) => [each.stdout, each.stderr]), ...files].join("\n");
    const { password } = new URL(address());
    expect(password.length).toBeGreaterThan(10);
    expect(all).not.toContain(password);
  });
});
