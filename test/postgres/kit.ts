/** What tests on PostgreSQL share: the server of the run, and schemas of their own, so that files which run at the
 *  same time never meet. The schemas a file made are dropped when it is over. */
import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { whenFileIsOver } from "../file-is-over.ts";
import { ask } from "./client.ts";

/** Whether the server is somebody else's: then it may not be stopped, and its settings are not ours. */
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

/** A name that nobody else has. The schema itself is made by whoever uses it first. It is dropped when the file is over,
 *  unless somebody else sees to that. */
export function newSchema(prefix = "test", { isKept = false }: { readonly isKept?: boolean } = {}): Schema {
  if (!/^[a-z][a-z0-9_]{0,39}$/.test(prefix)) throw new Error(`not the start of a plain schema name: ${prefix}`);
  const schema = `${prefix}_${randomBytes(8).toString("hex")}`;
  const url = new URL(postgresUrl());
  url.searchParams.set("schema", schema);
  if (!isKept) made.add(url.href);
  return { schema, url: url.href };
}

/** Drops the schema of such a URL with all that is in it, if it exists. Whoever still holds a lock on a table of it
 *  makes this fail rather than hang. */
export async function dropSchema(url: string): Promise<void> {
  const schema = new URL(url).searchParams.get("schema");
  if (schema === null || !/^[a-z][a-z0-9_]*$/.test(schema)) throw new Error("the URL names no schema of a test");
  await ask(url, `SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS ${schema} CASCADE`);
  made.delete(url);
}
