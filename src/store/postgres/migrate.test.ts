/** A schema that an earlier version made is brought forward, with all that is in it. */
import { describe, expect, it } from "vitest";
import { ask } from "../../../test/postgres/client.ts";
import { newSchema, type Schema } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../engine/clock.ts";
import { Bench } from "../conformance/bench.ts";
import { LEASE, placeOf, SECOND, T0 } from "../conformance/kit.ts";
import { MIGRATIONS } from "./migrations.ts";
import { openPostgres } from "./open.ts";

let secrets = 0;
const open = (url: string) =>
  openPostgres({
    ...{ url, random: Math.random, clock: systemClock, connections: 2 },
    newSecret: () => `secret ${secrets++} `.repeat(9),
  });

/** As version 1 made it, with a session. */
async function versionOne({ url, schema }: Schema): Promise<void> {
  await ask(url, `create schema ${schema}`);
  await ask(url, (MIGRATIONS[0] as string).replaceAll("$s", schema));
  await ask(
    url,
    `insert into ${schema}.meta (name, value) values ('generation', 'first'), ('secret', 'of cursors'), ('version', '1'),
       ('beat_at', ''), ('held_until', '0');
     insert into ${schema}.session (id, namespace, name, host, pid, kinds, labels, slots, lease_ms, started_at, renewed_at,
       lease_ends_at)
     values ('ses_old', 'default', 'w', 'h', 1, '["work"]', '{}', 5, ${LEASE}, ${T0}, ${T0}, ${T0 + LEASE})`,
  );
}

describe("a schema of version 1", () => {
  it("is brought forward and works, with what was in it", async () => {
    const made = newSchema("migrate");
    await versionOne(made);
    const bench = new Bench(async () => ({ store: await open(made.url) }));
    await bench.begin();
    expect(await bench.store.sessions()).toMatchObject([{ id: "ses_old", health: null, drainingAt: null }]);
    const id = await bench.submit({ at: T0 + SECOND });
    const job = await bench.take("ses_old", T0 + SECOND);
    expect(job).toMatchObject({ id, token: "1.first.ses_old.1" });
    expect(await bench.store.drainSession("ses_old", T0 + SECOND)).toBe("draining");
    expect(await bench.renew("ses_old", [placeOf(job)], T0 + 2 * SECOND)).toMatchObject({ drain: true, lost: [] });
    await bench.report(job, undefined, T0 + 2 * SECOND);
    expect(await bench.store.tokens()).toEqual([]);
    expect(await bench.store.blobs?.().attempts(id)).toEqual([]);
    await bench.end();
  });

  it("is brought forward once by many that open it at the same time, and they share one secret", async () => {
    const made = newSchema("migrate");
    await versionOne(made);
    const stores = await Promise.all(Array.from({ length: 5 }, () => open(made.url)));
    expect(new Set(stores.map((store) => store.secret)).size).toBe(1);
    for (const store of stores) await store.close();
    const rows = await ask<{ value: string }>(
      made.url,
      `select value from ${made.schema}.meta where name in ('version', 'secret') order by name`,
    );
    expect(rows.map(({ value }) => value)).toEqual(["of cursors", String(MIGRATIONS.length)]);
  });
});
