/** Views over the tables of a store, in a schema of their own. What another program has there is never changed. */
import { PerdureError } from "../../core/errors.ts";
import { type Clock, sleep } from "../../lib/clock.ts";
import { type PgConnection, PgConnections } from "./connections.ts";
import { address, presentVersion } from "./open.ts";

export interface ViewsChange {
  /** The schema of the views. */
  readonly into: string;
  readonly views: readonly string[];
  /** One statement for each view, to create it; null to remove them. */
  readonly statements:
    | ((options: { readonly tables: string; readonly into: string; readonly isInvoker: boolean }) => readonly string[])
    | null;
}

interface ChangeViews extends ViewsChange {
  readonly url: string;
  readonly schema?: string | undefined;
  readonly random: () => number;
  readonly clock: Clock;
}

/** The first version with views that are read with the rights of who reads them. */
const INVOKER_VERSION = 150_000;
/** In the comment of each view, so that they are recognised. */
const MARK = "view by Perdure of the schema ";

const statement = (text: string) => ({ name: "", text, isLong: true });

/** In one transaction. Returns false if there was nothing to remove. */
export async function changePostgresViews({ into, views, statements, ...options }: ChangeViews): Promise<boolean> {
  const { connectionString, schema } = address(options);
  const db = await PgConnections.open({
    config: { connectionString, application_name: "perdure" },
    connections: 1,
    random: options.random,
    sleep: (ms, how) => sleep(options.clock, ms, how),
    monotonic: options.clock.monotonic,
  });
  try {
    return await db.transaction(
      async (connection) => {
        const present = await presentViews(connection, into, views);
        for (const view of present) await connection.ask(statement(`drop view "${into}"."${view}"`), []);
        if (statements === null) {
          if (present.length > 0) await dropEmpty(connection, into);
          return present.length > 0;
        }
        if ((await presentVersion(connection, schema)) === 0) {
          const message = `the schema ${schema} has no tables of Perdure yet: start a server on it, or use perdure migrate`;
          throw new PerdureError("store_not_a_database", message);
        }
        await create(connection, into, schema, { views, statements });
        return true;
      },
      { storesNoJobs: true },
    );
  } finally {
    await db.close();
  }
}

/** Those of the views that exist. Refuses tables, and views that are not ours. */
async function presentViews(connection: PgConnection, into: string, views: readonly string[]): Promise<string[]> {
  const rows = await connection.ask(
    statement(`select c.relname::text, c.relkind = 'v' and coalesce(starts_with(obj_description(c.oid, 'pg_class'), $3), false)
      from pg_class c where c.relnamespace = to_regnamespace($1) and c.relname = any($2::text[])`),
    [`"${into}"`, `{${views.join(",")}}`, MARK],
  );
  const foreign = rows.find(([, isOurs]) => isOurs !== true);
  if (foreign !== undefined) {
    const message = `"${into}"."${foreign[0]}" belongs to another program: it is not changed; use another database`;
    throw new PerdureError("store_not_a_database", message);
  }
  return rows.map(([name]) => name as string);
}

async function create(
  connection: PgConnection,
  into: string,
  schema: string,
  { views, statements }: Pick<ViewsChange, "views" | "statements">,
): Promise<void> {
  const [[version = 0] = []] = await connection.ask(
    statement("select current_setting('server_version_num')::integer"),
    [],
  );
  const isInvoker = (version as number) >= INVOKER_VERSION;
  const [[exists] = []] = await connection.ask(statement("select to_regnamespace($1) is not null"), [`"${into}"`]);
  if (exists !== true) await connection.ask(statement(`create schema if not exists "${into}"`), []);
  for (const text of statements?.({ tables: schema, into, isInvoker }) ?? []) await connection.ask(statement(text), []);
  for (const view of views) {
    await connection.ask(statement(`comment on view "${into}"."${view}" is '${MARK}${schema}'`), []);
  }
}

/** A schema in which something else is left stays. */
async function dropEmpty(connection: PgConnection, into: string): Promise<void> {
  const [[count = 1] = []] = await connection.ask(
    statement(
      "select count(*)::integer from pg_depend where refclassid = 'pg_namespace'::regclass and refobjid = to_regnamespace($1)",
    ),
    [`"${into}"`],
  );
  if (count === 0) await connection.ask(statement(`drop schema "${into}"`), []);
}
