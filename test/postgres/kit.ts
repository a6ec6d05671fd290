/** Shared by tests on PostgreSQL: the server of the run, and separate schemas, so that concurrent files never collide.
 *  The schemas of a file are dropped after it. */
import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { whenFileIsOver } from "../file-is-over.ts";
import { ask } from "./client.ts";

/** Whether the server is external: then it may not be stopped, and its settings are not ours. */
export const isForeign = (process.env.PERDURE_TEST_POSTGRES_URL ?? "") !== "";

const made = new Set<string>();

whenFileIsOver(async () => {
  for (const url of made) await dropSchema(url);
});

/** The server of this run, without a schema. */
export function postgresUrl(): string {
  return inject("postgresUrl");
}

export interface Schema {
  readonly schema: string;
  /** The server's URL with `schema` in its query. */
  readonly url: string;
}

/** A unique name. Its first user creates the schema. It is dropped after the file, unless dropped elsewhere. */
export function newSchema(prefix = "test", { isKept = false }: { readonly isKept?: boolean } = {}): Schema {
  if (!/^[a-z][a-z0-9_]{0,39}$/.test(prefix)) throw new Error(`not the start of a plain schema name: ${prefix}`);
  const schema = `${prefix}_${randomBytes(8).toString("hex")}`;
  const url = new URL(postgresUrl());
  url.searchParams.set("schema", schema);
  if (!isKept) made.add(url.href);
  return { schema, url: url.href };
}

/** Drops the schema of such a URL with its contents, if it exists. A lock on one of its tables makes this fail rather
 *  than hang. */
export async function dropSchema(url: string): Promise<void> {
  const schema = new URL(url).searchParams.get("schema");
  if (schema === null || !/^[a-z][a-z0-9_]*$/.test(schema)) throw new Error("the URL does not name a schema of a test");
  await ask(url, `SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS ${schema} CASCADE`);
  made.delete(url);
}
