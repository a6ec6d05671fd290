/** Outputs in PostgreSQL: the conformance suite, and what only this adapter has. */
import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { ask } from "../../../test/postgres/client.ts";
import { newSchema } from "../../../test/postgres/kit.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { blobConformance } from "../conformance/blobs.ts";
import { jobId } from "../conformance/kit.ts";
import type { Store } from "../store.ts";
import { openPostgres } from "./open.ts";

const open = (url: string) =>
  openPostgres({ url, random: Math.random, clock: systemClock, newSecret: () => "x".repeat(40), connections: 4 });
const blobsOf = (store: Store) => (store.blobs as NonNullable<Store["blobs"]>)();

blobConformance("PostgreSQL", async () => {
  const store = await open(newSchema("blobs").url);
  return { blobs: blobsOf(store), close: () => store.close() };
});

describe("outputs in the database", () => {
  it("are the same for every process, and leave no chunk behind when they are deleted or replaced", async () => {
    const { url, schema } = newSchema("blobs");
    const [one, two] = [await open(url), await open(url)];
    const [a, b] = [blobsOf(one), blobsOf(two)];
    const job = jobId();
    const bytes = randomBytes(1_000_000);
    const source = async function* () {
      yield bytes;
    };
    await a.write(job, 1, "artifacts/x", 0, source());
    const found: Buffer[] = [];
    for await (const piece of (await b.get(job, 1, "artifacts/x")) ?? []) {
      expect(piece.length).toBeLessThanOrEqual(262_144);
      found.push(piece);
    }
    expect(Buffer.concat(found).equals(bytes)).toBe(true);
    const chunks = async () =>
      (await ask<{ n: number }>(url, `select count(*)::int as n from ${schema}.blob_chunk`))[0]?.n;
    expect(await chunks()).toBe(4);
    await b.write(job, 1, "artifacts/x", 300_000, (async function* () {})());
    expect(await chunks()).toBe(2);
    await b.delete([job]);
    expect(await chunks()).toBe(0);
    await one.close();
    await two.close();
  });

  it("can be neither read nor written once the store is closed", async () => {
    const store = await open(newSchema("blobs").url);
    const blobs = blobsOf(store);
    await store.close();
    await expect(blobs.attempts(jobId())).rejects.toMatchObject({ code: "closed" });
    await expect(blobs.write(jobId(), 1, "stdout.log", 0, (async function* () {})())).rejects.toMatchObject({
      code: "closed",
    });
  });
});
