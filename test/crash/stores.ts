/** The stores of the crash tests: guarantees about killed processes hold on every store. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pass } from "node:timers/promises";
import { openDatabase } from "../../src/store/sqlite/driver.ts";
import { whenTestIsOver } from "../file-is-over.ts";
import { ask } from "../postgres/client.ts";
import { newSchema } from "../postgres/kit.ts";
import { inFull } from "../tier.ts";

export interface Place {
  /** A new, empty store. */
  readonly url: string;
  /** For files of the test; deleted after it. */
  readonly directory: string;
}

export interface StoreKind {
  readonly name: string;
  /** Where starting a process costs more, long tests do a fraction of their rounds. */
  readonly share: number;
  newPlace(): Place;
}

const directories = new Set<string>();

whenTestIsOver(() => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
  directories.clear();
});

function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "perdure-crash-"));
  directories.add(directory);
  return directory;
}

/** A path for a database in a temporary directory, deleted after the test. */
export function newFile(): string {
  return SQLITE.newPlace().url;
}

export const SQLITE: StoreKind = {
  name: "SQLite",
  share: 1,
  newPlace() {
    const directory = newDirectory();
    return { directory, url: join(directory, "jobs.db") };
  },
};

export const POSTGRES: StoreKind = {
  name: "PostgreSQL",
  share: 0.15,
  newPlace: () => ({ directory: newDirectory(), url: newSchema("crash").url }),
};

/** If the engine code is the same for both, the second store is tested in the second tier. */
export const STORES: readonly StoreKind[] = inFull([SQLITE, POSTGRES]);

export function isPostgres(url: string): boolean {
  return url.startsWith("postgres");
}

/** Ends the lease of a session now. */
export async function endLeaseOf(session: string, url: string): Promise<void> {
  if (isPostgres(url)) {
    const schema = new URL(url).searchParams.get("schema");
    await ask(url, `UPDATE ${schema}.session SET lease_ends_at = 0 WHERE id = $1`, [session]);
    return;
  }
  const db = await openDatabase(url);
  try {
    db.exec("pragma busy_timeout = 60000");
    db.prepare("update session set lease_ends_at = 0 where id = ?").run(session);
  } finally {
    db.close();
  }
}

const LOOKS = 10;
const LOOK_MS = 20;

/** Whether a stopped process has nothing open. Its connections are identified by the name in its URL; the server still
 *  executes what it sent before it was stopped. */
export async function hasNoTransaction(url: string): Promise<boolean> {
  const name = new URL(url).searchParams.get("application_name");
  const busy = `SELECT FROM pg_stat_activity
    WHERE application_name = $1 AND state <> 'idle' AND pid <> pg_backend_pid()`;
  for (let look = 0; look < LOOKS; look++) {
    if ((await ask(url, busy, [name])).length === 0) return true;
    await pass(LOOK_MS);
  }
  return false;
}
