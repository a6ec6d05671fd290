/** F14, F15: the submitting process is killed at any moment: before, during and after the commit, before and after its
 *  caller knows. Acknowledged jobs exist; repeating with the same keys creates no second job. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { IS_FULL, inFull } from "../tier.ts";
import { audit } from "./audit.ts";
import { Dice, LineFile, open, pass, SOAK, STORES, start, TEST_MS, until } from "./kit.ts";

const ROUNDS = (IS_FULL ? 6 : 2) * SOAK;

describe.each(STORES)("on $name", (store) => {
  describe.each(
    inFull([
      { name: "submitMany", batch: 50, ahead: 1_000 },
      { name: "submit", batch: 1, ahead: 60 },
    ]),
  )("a process killed in $name", ({ name, batch, ahead }) => {
    it(
      "loses nothing acknowledged, and its keys make the rest safe to repeat",
      async () => {
        const dice = new Dice(name);
        const { url, directory } = store.newPlace();
        const acks = new LineFile(join(directory, "acks"));
        const rounds = Math.ceil(ROUNDS * store.share);
        let next = 0;
        let unknown = 0;

        for (let round = 0; round < rounds; round++) {
          const from = next;
          const child = start("submitter", { url, from, to: 1_000_000, acks: acks.path, batch });
          const seen = acks.look().length;
          const stopAt = seen + dice.between(0, Math.ceil(ahead * store.share));
          await until("it acknowledges", () => {
            if (child.isOver) throw new Error(`the submitter ended: ${child.lines.at(-1)}\n${child.errors}`);
            return acks.look().length > stopAt || undefined;
          });
          await pass(dice.next() * 5);
          await child.kill();
          expect(child.errors).toBe("");

          // Start again a little before the end: these keys exist, and the answer must report it.
          const known = new Map(pairs(acks.look()));
          next = Math.max(...known.keys()) + 1;
          const perdure = await open(url);
          const beyond = await countFrom(perdure, next);
          unknown += beyond;
          expect(beyond, "at most what was in progress is stored without acknowledgement").toBeLessThanOrEqual(batch);
          const back = Math.max(0, next - dice.between(0, 20));
          for (let i = back; i < next; i++) {
            const job = await perdure.submit("job", { i, work: "quick" }, { key: `job-${i}` });
            expect([job.id, job.created]).toEqual([known.get(i), false]);
          }
          await perdure.close();
        }
        console.log(`${name}: ${next} acknowledged in ${rounds} lives, ${unknown} stored but never acknowledged`);

        const perdure = await open(url);
        const { jobs } = await audit(perdure);
        const keys = [...jobs.values()].map((job) => job.key);
        expect(new Set(keys).size, "one job for each key").toBe(keys.length);
        for (const [i, id] of pairs(acks.look())) {
          const job = jobs.get(id);
          expect([job?.key, job?.payload]).toEqual([`job-${i}`, { i, work: "quick" }]);
        }

        // The same key with another body is a conflict, and refused.
        await expect(perdure.submit("job", { other: true }, { key: "job-0" })).rejects.toMatchObject({
          code: "key_conflict",
        });
      },
      TEST_MS,
    );
  });
});

function pairs(lines: readonly string[]): [number, string][] {
  return lines.map((line) => {
    const [i = "", id = ""] = line.split(" ");
    return [Number(i), id];
  });
}

/** How many of the keys from this one on are stored. They are submitted in order, so the first missing one ends it. */
async function countFrom(perdure: Awaited<ReturnType<typeof open>>, next: number): Promise<number> {
  for (let count = 0; ; count++) {
    const { jobs } = await perdure.jobs({ key: `job-${next + count}` });
    if (jobs.length === 0) return count;
  }
}
