/** A payload is text to a store: any JSON is returned byte for byte, and so is a result (I18). A hundred thousand texts
 *  on each store, from all of Unicode, numbers that no parser preserves, white space and nesting. Generated from a
 *  seed: PERDURE_SEED=… repeats them. `npm test` uses fewer. */
import { describe, expect, test } from "vitest";
import type { ClaimedJob } from "../src/core/worker-protocol.ts";
import { systemClock } from "../src/lib/system-clock.ts";
import { decideAt, jobId, newJob, newSession, reportOf, T0 } from "../src/store/conformance/kit.ts";
import { openPostgres } from "../src/store/postgres/open.ts";
import { openSqlite } from "../src/store/sqlite/open.ts";
import type { NewJob, Store } from "../src/store/store.ts";
import { Dice } from "./dice.ts";
import { newSchema } from "./postgres/kit.ts";
import { IS_FULL, seedsFor } from "./tier.ts";

const [SEED = 1] = seedsFor("payloads", 1);
const PAYLOADS = IS_FULL ? 100_000 : 3_000;
const TOGETHER = IS_FULL ? 2_000 : 600;
/** How many payloads of each store are also claimed, and how many of those are returned as results. */
const CLAIMED = PAYLOADS / 5;
const MEBIBYTE = 2 ** 20;
const LONG_ONES = 4;

const NUMBERS = [
  ...["0", "-0", "1e400", "-1E-400", "1e2", "0.10", "123456789012345678901234567890", "9007199254740993", "-1.5e+05"],
  ...["true", "false", "null", "{}", "[]", '""', "[ ]", "{\n}"],
] as const satisfies readonly string[];
const SPACES = ["", "", "", " ", "\n", "\r\n", "\t", "  \t\n "] as const;
const ESCAPES = [
  "\\u0000",
  "\\n",
  "\\/",
  '\\"',
  "\\\\",
  "\\ud800",
  "\\uDFFF",
  "\\u00e9",
  "\\b\\f\\r\\t",
  "\\u2028",
] as const;
type Stretch = readonly [first: number, last: number];
/** First and last of ranges of Unicode; surrogates are left out, because no text can hold half a pair, and below the
 *  space only what JSON allows. */
const STRETCHES: readonly [Stretch, ...Stretch[]] = [
  [0x20, 0x7e],
  [0x7f, 0x2ff],
  [0x300, 0x36f],
  [0x5d0, 0x6ff],
  [0x1100, 0x11ff],
  [0x2000, 0x206f],
  [0x3040, 0x9fff],
  [0xe000, 0xf8ff],
  [0xfdd0, 0xffff],
  [0x1_0000, 0x1_ffff],
  [0x2_0000, 0x10_ffff],
];

function drawCharacter(dice: Dice): string {
  if (dice.chance(0.1)) return dice.pick(ESCAPES);
  const [first, last] = dice.pick(STRETCHES);
  const character = String.fromCodePoint(first + dice.below(last - first + 1));
  return character === '"' || character === "\\" ? `\\${character}` : character;
}

function drawString(dice: Dice, longest: number): string {
  let text = "";
  for (let left = dice.below(longest + 1); left > 0; left--) text += drawCharacter(dice);
  return `"${text}"`;
}

function drawJson(dice: Dice, depth: number): string {
  const space = () => dice.pick(SPACES);
  const kind = dice.below(depth === 0 ? 2 : 4);
  if (kind === 0) return dice.pick(NUMBERS);
  if (kind === 1) return drawString(dice, 12);
  const parts = dice.times(dice.below(4), () => {
    const value = `${space()}${drawJson(dice, depth - 1)}${space()}`;
    return kind === 2 ? value : `${space()}${drawString(dice, 4)}${space()}:${value}`;
  });
  const inside = parts.length === 0 ? space() : parts.join(",");
  return kind === 2 ? `[${inside}]` : `{${inside}}`;
}

function drawPayload(dice: Dice): string {
  const share = dice.next();
  if (share < 0.02) return drawString(dice, 3_000);
  if (share < 0.03) return `${"[".repeat(500)}${drawJson(dice, 1)}${"]".repeat(500)}`;
  return `${dice.pick(SPACES)}${drawJson(dice, 3)}${dice.pick(SPACES)}`;
}

/** 1 MiB of a text and its repetitions. */
function drawLong(dice: Dice): string {
  const part = drawString(dice, 500).slice(1, -1) || "x";
  return `"${part.repeat(Math.ceil(MEBIBYTE / Buffer.byteLength(part)))}"`;
}

/** Those that changed, with their positions. */
function changed(jobs: readonly NewJob[], got: ReadonlyMap<string, string | null>, which: string): string[] {
  return jobs
    .filter((job) => got.get(job.id) !== job.payload)
    .map((job) => `${which}: ${JSON.stringify(job.payload.slice(0, 500))} became ${JSON.stringify(got.get(job.id))}`);
}

/** The same for both stores, because generating them takes longer than storing them. */
let made: readonly string[] | null = null;

function payloadsOfSeed(): readonly string[] {
  if (made !== null) return made;
  const dice = new Dice(SEED);
  const texts = dice.times(PAYLOADS, () => drawPayload(dice));
  for (let i = 0; i < LONG_ONES; i++) texts[i * TOGETHER] = drawLong(dice);
  made = texts;
  return texts;
}

async function roundTrip(store: Store): Promise<{ payloads: number; results: number }> {
  const texts = payloadsOfSeed();
  const session = newSession({ kinds: ["echo"], slots: TOGETHER });
  await store.sessions.open(session, T0);
  let payloads = 0;
  let results = 0;
  while (payloads < PAYLOADS) {
    const kind = payloads < CLAIMED ? "echo" : "kept";
    const like = newJob({ kind });
    const jobs = texts.slice(payloads, payloads + TOGETHER).map((payload) => ({ ...like, id: jobId(), payload }));
    const answers = await store.insert(jobs, T0);
    const ids = jobs.map((job) => job.id);
    expect(answers.filter(({ status }) => status !== "inserted")).toEqual([]);
    const wrong: string[] = [];
    if (kind === "echo") {
      const claimed: ClaimedJob[] = [];
      // A store may return fewer than the limit.
      for (let before = -1; claimed.length > before && claimed.length < jobs.length; ) {
        before = claimed.length;
        const [claim] = await store.claim([{ session: session.id, limit: TOGETHER, claimId: null }], T0);
        claimed.push(...(claim?.jobs ?? []));
      }
      wrong.push(...changed(jobs, new Map(claimed.map((job) => [job.id, job.payload])), "claimed"));
      const reports = claimed.map((job) => reportOf(job, { kind: "completed", result: job.payload }));
      await store.settle(reports, T0, decideAt(T0));
      results += reports.length;
    }
    const rows = await store.jobs(ids);
    wrong.push(...changed(jobs, new Map(rows.map((row) => [row?.id ?? "", row?.payload ?? null])), "read"));
    if (kind === "echo") {
      wrong.push(...changed(jobs, new Map(rows.map((row) => [row?.id ?? "", row?.result ?? null])), "result"));
    }
    expect(wrong.slice(0, 3), `seed ${SEED}, payloads ${payloads} and on`).toEqual([]);
    payloads += jobs.length;
  }
  return { payloads, results };
}

describe(`${PAYLOADS} payloads are returned byte for byte, seed ${SEED}`, { timeout: 120_000 }, () => {
  const newSecret = () => "a secret of the payload tests, long enough";
  const random = Math.random;
  const all = { payloads: PAYLOADS, results: CLAIMED };

  test("from SQLite", async () => {
    const store = await openSqlite({ path: ":memory:", random, newSecret });
    expect(await roundTrip(store)).toEqual(all);
    await store.close();
  });

  test("from PostgreSQL", async () => {
    const store = await openPostgres({ url: newSchema("payloads").url, random, clock: systemClock, newSecret });
    expect(await roundTrip(store)).toEqual(all);
    await store.close();
  });

  test("and are JSON, of many kinds", () => {
    const texts = payloadsOfSeed();
    for (const text of texts) JSON.parse(text);
    expect(new Set(texts).size).toBeGreaterThan(PAYLOADS / 2);
    expect(texts.some((text) => /\p{Surrogate}/u.test(text))).toBe(false);
    expect(texts.some((text) => text.includes("\\u0000"))).toBe(true);
    expect(Buffer.byteLength(texts[0] as string)).toBeGreaterThan(MEBIBYTE);
  });
});
