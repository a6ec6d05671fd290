/** The races on SQLite: connections and processes on one file. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { advanceRaceTests } from "../conformance/advance-races.ts";
import { childRaceTests } from "../conformance/child-races.ts";
import { type Arena, raceTests } from "../conformance/races.ts";
import { openSqlite } from "./open.ts";

const directory = mkdtempSync(join(tmpdir(), "perdure-races-"));
afterAll(() => rmSync(directory, { recursive: true }));

let files = 0;
const arena = async (): Promise<Arena> => {
  files += 1;
  const path = join(directory, `${files}.db`);
  const open = () => openSqlite({ path, random: Math.random, newSecret: () => "a secret of the race tests" });
  return { stores: [await open(), await open()], url: path };
};

raceTests("races on sqlite", arena);
childRaceTests("races of children on sqlite", arena);
advanceRaceTests("races of runs on sqlite", arena);
