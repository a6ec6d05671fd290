// biome-ignore-all lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
/** Jobs that fail permanently become dead letters, until an operator redrives or discards them.
 *  The rules of the policy decide which failures are retried. Run: npx tsx examples/dead-letter.ts */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Perdure, task } from "perdure";

class CardDeclined extends Error {
  override readonly name = "CardDeclined";
}
let bankIsUp = false;

const charge = task(
  "charge-card",
  {
    retry: {
      maxAttempts: 5,
      rules: [
        { if: { error: "CardDeclined" }, then: "fail" },
        {
          if: { message: "bank is offline" },
          then: "retry",
          maxRetries: 1,
          backoff: { type: "fixed", delay: "100ms" },
        },
      ],
    },
  },
  async (input: { invoice: string; card: string }) => {
    if (input.card === "expired") throw new CardDeclined("the card has expired");
    if (!bankIsUp) throw new Error("the bank is offline");
    return { receipt: `receipt for ${input.invoice}` };
  },
);

const dir = mkdtempSync(join(tmpdir(), "perdure-example-"));
const perdure = await Perdure.open(join(dir, "jobs.db"));
await perdure.work([charge]);

const good = await perdure.submit(charge, { invoice: "A-1", card: "valid" });
const bad = await perdure.submit(charge, { invoice: "A-2", card: "expired" });
await Promise.allSettled([good.result(), bad.result()]);

const { jobs: letters } = await perdure.jobs({ deadLetter: true, order: "oldest" });
for (const { id, payload, reason, attempt } of letters) {
  const { invoice } = payload as { invoice: string };
  console.log(`dead letter: invoice ${invoice}, ${reason} after ${attempt} ${attempt === 1 ? "attempt" : "attempts"}`);
  console.log(`${(await perdure.explain(id)).text}\n`);
}

// The bank is online again: the first job is redriven, with its full number of attempts. The second cannot succeed.
bankIsUp = true;
await perdure.redrive(good.id);
const again = await perdure.job<{ receipt: string }>(good.id); // good.result() stays with the outcome before the redrive
console.log(`redriven: ${(await again.result()).receipt}`);

await perdure.discard(bad.id);
const left = await perdure.jobs({ deadLetter: true });
console.log(`discarded: invoice A-2; dead letters left: ${left.jobs.length}`);

await perdure.close();
rmSync(dir, { recursive: true });
