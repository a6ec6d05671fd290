/** Notifies other processes of writes, and receives their notifications, by NOTIFY on its own connection. Only a hint:
 *  a process that misses one polls within a second. Sent after the commit and at most every few milliseconds: within
 *  the transaction it would serialize all commits of the database. */
import type pg from "pg";
import type { Clock } from "../../lib/clock.ts";
import { sleep } from "../../lib/clock.ts";
import { cutOff } from "./connections.ts";
import { loadPg } from "./driver.ts";

const SEND_EVERY_MS = 5;
const RECONNECT_MS = 500;
const FAREWELL_MS = 1_000;

/** Payload of a hint sent within a transaction: its jobs may have been due long before the commit. */
export const IN_TRANSACTION = "in-transaction";

export interface Watcher {
  wrote(): void;
  add(listener: () => void): () => void;
  stop(): Promise<void>;
}

/** `me` identifies this store, so that it does not wake itself. `onOld`: there may be jobs that were due earlier. */
export function watcher(config: pg.PoolConfig, channel: string, me: string, clock: Clock, onOld: () => void): Watcher {
  const listeners = new Set<() => void>();
  let client: pg.Client | null = null;
  let stopped = false;
  let connecting: Promise<void> | null = null;
  let pending = false;
  let sending: Promise<unknown> = Promise.resolve();
  let isSending = false;
  let cancelPause: (() => void) | null = null;
  let cancelRetry: (() => void) | null = null;

  const wake = () => {
    for (const listener of [...listeners]) listener();
  };

  async function connect(): Promise<void> {
    const { Client } = await loadPg();
    const fresh = new Client({ ...config, keepAlive: true, connectionTimeoutMillis: 5_000, query_timeout: 5_000 });
    const lost = () => {
      if (client === fresh) client = null;
      void fresh.end().catch(() => {});
      if (!stopped && cancelRetry === null) {
        cancelRetry = clock.after(RECONNECT_MS, retry, { background: true });
      }
    };
    fresh.on("error", lost);
    fresh.on("end", lost);
    fresh.on("notification", ({ payload }) => {
      if (payload === IN_TRANSACTION) onOld();
      if (payload !== me) wake();
    });
    try {
      await fresh.connect();
      // Hints may be lost with the server; no commit has to wait for the disk.
      await fresh.query(`set synchronous_commit = off; listen ${channel}`);
      if (stopped) return void (await fresh.end());
      client = fresh;
      onOld();
      wake(); // hints may have been missed
    } catch {
      lost();
    }
  }

  function retry(): void {
    cancelRetry = null;
    connecting = connect();
  }

  function send(): void {
    pending = false;
    isSending = true;
    sending = (client?.query("select pg_notify($1, $2)", [channel, me]) ?? Promise.resolve())
      .catch(() => {})
      .finally(() => {
        isSending = false;
        if (pending && cancelPause === null && !stopped) send();
      });
    cancelPause = clock.after(
      SEND_EVERY_MS,
      () => {
        cancelPause = null;
        if (pending && !isSending) send();
      },
      { background: true },
    );
  }

  return {
    wrote() {
      if (stopped || client === null) return;
      if (cancelPause === null && !isSending) send();
      else pending = true;
    },
    add(listener) {
      listeners.add(listener);
      connecting ??= connect();
      return () => listeners.delete(listener);
    },
    async stop() {
      stopped = true;
      cancelRetry?.();
      await connecting;
      cancelPause?.();
      await sending;
      // The last hint is sent too: a process may write and exit at once.
      if (pending && client !== null) await client.query("select pg_notify($1, $2)", [channel, me]).catch(() => {});
      const last = client;
      client = null;
      if (last === null) return;
      await Promise.race([last.end().catch(() => {}), sleep(clock, FAREWELL_MS, { background: true })]);
      cutOff(last);
    },
  };
}
