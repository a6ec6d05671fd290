/** `perdure views noetl`: only in PostgreSQL, and never over what another program has there. */
import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { Perdure } from "../../src/index.ts";
import { ask } from "../postgres/client.ts";
import { newSchema } from "../postgres/kit.ts";
import { perdure } from "./kit.ts";
import { newDir } from "./targets.ts";

it("installs the views, replaces and removes them, and changes no tables of another program", async () => {
  const { url, schema } = newSchema();
  const views = (verb: string, ...more: string[]) => perdure(["views", "noetl", verb, "--db", url, ...more]);
  const early = await views("--install");
  expect(early.code).toBe(2);
  expect(early.stderr).toContain(`the schema ${schema} has no tables of Perdure yet`);
  const opened = await Perdure.open({ url });
  const { id } = await opened.submit("nobody", {});
  await opened.close();
  const done = await views("--install");
  expect(done).toMatchObject({ code: 0, stderr: "" });
  expect(done.stdout).toContain("installed noetl.workload, noetl.queue, noetl.event in postgres://");
  expect(JSON.parse((await views("--install", "--json")).stdout)).toMatchObject({ changed: true });
  expect(await ask(url, "select status, node_name from noetl.queue where execution_id = $1", [id])).toEqual([
    { status: "queued", node_name: "nobody" },
  ]);
  expect((await views("--drop")).stdout).toContain("removed noetl.workload");
  expect((await views("--drop")).stdout).toContain("has no such views");
  expect(await ask(url, "select to_regnamespace('noetl') as found")).toEqual([{ found: null }]);

  await ask(url, "create schema noetl");
  await ask(url, "create table noetl.event (execution_id bigint)");
  try {
    for (const verb of ["--install", "--drop"]) {
      const refused = await views(verb);
      expect(refused.code).toBe(2);
      expect(refused.stderr).toContain('"noetl"."event" belongs to another program');
    }
  } finally {
    await ask(url, "drop schema noetl cascade");
  }
});

it("prints the statements without a database", async () => {
  const schema = `s${randomUUID().slice(0, 8)}`;
  const { stdout, code } = await perdure(["views", "noetl", "--print", "--schema", schema]);
  expect(code).toBe(0);
  expect(stdout).toContain('create schema if not exists "noetl";\n');
  for (const view of ["workload", "queue", "event"]) {
    expect(stdout).toContain(`create view "noetl".${view} with (security_invoker = true) as\n`);
  }
  expect(stdout).toContain(`"${schema}".submission`);
  expect(stdout).not.toContain("$s.");
});

it.each([
  [["views"], "missing SYSTEM"],
  [["views", "notel", "--print"], 'Did you mean "noetl"?'],
  [["views", "noetl"], "pass --install, --print or --drop"],
  [["views", "noetl", "--install", "--drop"], "--install and --drop cannot be used together"],
  [["views", "noetl", "--install"], "pass --db postgres://"],
  [["views", "noetl", "--install", "--db", "jobs.db"], "--db: views are created in a PostgreSQL database only"],
])("refuses %j", async (args, message) => {
  const { code, stderr } = await perdure(args, { cwd: newDir() });
  expect(code).toBe(2);
  expect(stderr).toContain(message);
});
