/** Which adapter serves an address. */
import { resolve } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { openSqlite } from "./sqlite/open.ts";
import type { Store } from "./store.ts";

export interface OpenStore {
  readonly url: string | undefined;
  readonly random: () => number;
  readonly tell?: (message: string) => void;
  readonly newSecret: () => string;
}

const DEFAULT_FILE = ".perdure/perdure.db";
const ALLOWED = 'a file such as "./jobs.db", "sqlite:./jobs.db", or ":memory:"';

export function openStore({ url = DEFAULT_FILE, ...rest }: OpenStore): Promise<Store> {
  return openSqlite({ path: sqlitePath(url), ...rest });
}

function sqlitePath(url: string): string {
  if (typeof url !== "string" || url === "" || url.includes("\0")) {
    throw new ConfigError({ path: "open.url", given: url, allowed: ALLOWED });
  }
  if (/^postgres(ql)?:/i.test(url)) {
    const problem = "PostgreSQL is not supported by this version";
    throw new ConfigError({ path: "open.url", given: "postgres:…", allowed: ALLOWED, problem });
  }
  const path = url.replace(/^sqlite:(\/\/)?/, "");
  // A scheme that we do not know, or a special name of SQLite's, would quietly become the name of a file.
  if (/^[a-z][a-z0-9+.-]+:/i.test(path) || (/^:.*:$/.test(path) && path !== ":memory:")) {
    throw new ConfigError({ path: "open.url", given: url, allowed: ALLOWED });
  }
  return path === ":memory:" ? path : resolve(path);
}
