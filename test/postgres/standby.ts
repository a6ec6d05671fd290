/** A second server that follows a first one and can replace it. pg_basebackup is not among the installed programs, so
 *  this does the same: tells the primary that a backup begins, copies its files while it runs, and lets the standby
 *  fetch the rest of the log. A replication slot keeps that log until the standby has it. */
import { appendFile, chown, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ask, until, withClient } from "./client.ts";
import { copyTree } from "./copy-tree.ts";
import { PostgresServer } from "./server.ts";

/** The standby's name: of its slot, and for the primary. */
const NAME = "s1";

/** Created by the standby itself, or useless for it. */
const HOLLOW = ["pg_wal", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp"];

/** Resolves when the standby answers queries and is connected to the primary. It has the primary's password. */
export async function startStandby(primary: PostgresServer): Promise<PostgresServer> {
  const standby = await PostgresServer.make((made) => copyInto(made, primary), primary.password);
  await follows(primary, "state = 'streaming'");
  return standby;
}

async function copyInto(standby: PostgresServer, primary: PostgresServer): Promise<void> {
  const label = await withClient(primary.url, async (client) => {
    await client.query(
      `SELECT pg_create_physical_replication_slot($1, true)
       WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)`,
      [NAME],
    );
    await client.query("SELECT pg_backup_start('standby', fast => true)"); // ends with this session
    await copyTree(primary.dataDir, standby.dataDir, standby.user, HOLLOW);
    const { rows } = await client.query<{ labelfile: string }>("SELECT labelfile FROM pg_backup_stop(false)");
    return rows[0]?.labelfile ?? "";
  });
  for (const name of ["postmaster.pid", "postmaster.opts"]) await rm(join(standby.dataDir, name), { force: true });
  const source = `host=127.0.0.1 port=${primary.port} user=postgres password=${primary.password}`;
  const settings = [
    `primary_conninfo = '${source} application_name=${NAME}'`,
    `primary_slot_name = '${NAME}'`,
    "wal_retrieve_retry_interval = '200ms'",
    "hot_standby = on",
    "synchronous_standby_names = ''", // once promoted, it has no standby
  ];
  await appendFile(join(standby.dataDir, "postgresql.auto.conf"), `${settings.join("\n")}\n`);
  for (const [name, text] of [
    ["backup_label", label],
    ["standby.signal", ""],
  ] as const) {
    const path = join(standby.dataDir, name);
    await writeFile(path, text, { mode: 0o600 });
    if (standby.user !== undefined) await chown(path, standby.user.uid, standby.user.gid);
  }
}

/** From here on a commit on the primary returns only when the standby has it on disk too. */
export async function makeSynchronous(primary: PostgresServer): Promise<void> {
  await setOnPrimary(primary, `ALTER SYSTEM SET synchronous_standby_names = '${NAME}'`);
  await follows(primary, "sync_state = 'sync'");
}

/** Commits do not wait any more, including those that wait now because the standby is down. */
export async function makeAsynchronous(primary: PostgresServer): Promise<void> {
  await setOnPrimary(primary, "ALTER SYSTEM RESET synchronous_standby_names");
}

/** Promotes the standby; resolves when it accepts writes. The old primary must not get any more. */
export async function promote(standby: PostgresServer): Promise<void> {
  const [row] = await ask<{ promoted: boolean }>(standby.url, "SELECT pg_promote(true, 60) AS promoted");
  if (row?.promoted !== true) throw new Error(`the standby was not promoted\n${standby.log}`);
}

async function setOnPrimary(primary: PostgresServer, statement: string): Promise<void> {
  await ask(primary.url, statement);
  await ask(primary.url, "SELECT pg_reload_conf()");
}

async function follows(primary: PostgresServer, condition: string): Promise<void> {
  const sql = `SELECT 1 FROM pg_stat_replication WHERE application_name = $1 AND ${condition}`;
  await until(`the standby follows: ${condition}`, async () => (await ask(primary.url, sql, [NAME])).length === 1);
}
