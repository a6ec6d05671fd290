/** The conformance suite on SQLite: a file, and in the full test run also a database in memory. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { policiesIn } from "../../../test/kit.ts";
import { IS_FULL } from "../../../test/tier.ts";
import { conformance } from "../conformance/conformance.ts";
import { openDatabase } from "./driver.ts";
import { openSqlite } from "./open.ts";

const directory = mkdtempSync(join(tmpdir(), "perdure-conformance-"));
afterAll(() => rmSync(directory, { recursive: true }));
let made = 0;
const newSecret = () => `secret-${made}-of-a-store-in-tests`.padStart(40, `${made % 10}`);
const open = (path: string) => openSqlite({ path, random: Math.random, newSecret });

conformance("sqlite file", async () => {
  made += 1;
  const path = join(directory, `${made}.db`);
  const dropSession = async (id: string) => {
    const db = await openDatabase(path);
    db.prepare("delete from session where id = ?").run(id);
    db.close();
  };
  const again = () => open(path);
  const policyCount = () => policiesIn(path);
  return { store: await open(path), reopen: again, second: again, dropSession, policyCount };
});

if (IS_FULL) {
  conformance("sqlite in memory", async () => {
    made += 1;
    return { store: await open(":memory:") };
  });
}
