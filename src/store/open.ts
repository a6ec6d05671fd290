/** Which adapter serves an address. */
import { resolve } from "node:path";
import { ConfigError } from "../core/errors.ts";
import { openSqlite } from "./sqlite/open.ts";
import type { Store } from "./store.ts";

export interface OpenStore {
  readonly url: string | undefined;
  readonly random: () => number;
  readonly newSecret: () => string;
}

const DEFAULT_FILE = ".perdure/perdure.db";
const ALLOWED = 'a file such as "./jobs.db", "sqlite:./jobs.db", or ":memory:"';

export function openStore({ url = DEFAULT_FILE, random, newSecret }: OpenStore): Promise<Store> {
  return openSqlite({ path: sqlitePath(url), random, newSecret });
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
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(path)) throw new ConfigError({ path: "open.url", given: url, allowed: ALLOWED });
  return path === ":memory:" ? path : resolve(path);
}
