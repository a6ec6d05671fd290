/** F22: repeated failover, with figures: `npm run test:failover -- --rounds 100 --rate 1000`. Each round kills the
 *  primary under load and promotes its synchronous standby; the next one starts with the new pair. Exits with 1 if
 *  anything acknowledged is missing, anything has two outcomes, or work took longer than 5 s to continue. */
import { parseArgs } from "node:util";
import { startPair } from "./pair.ts";
import { failoverRound, type Round } from "./round.ts";

const GOAL_MS = 5_000;

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    /** Submits per second. */
    rate: { type: "string", default: "1000" },
  },
});
const [rounds, perSecond] = [Number(values.rounds), Number(values.rate)];

const COLUMNS = ["round", "address moved", "submitted", "acked", "refused", "promoted", "submit", "run", "wrong"];
const WIDTHS = [5, 20, 9, 7, 24, 8, 7, 7, 5];

function line(cells: readonly (string | number)[]): string {
  return cells.map((cell, i) => String(cell).padStart(WIDTHS[i] as number)).join("  ");
}

function cells(i: number, round: Round): (string | number)[] {
  const refused = Object.entries(round.refused).map(([code, count]) => `${count} ${code}`);
  return [
    ...[i + 1, round.move, round.submitted, round.acknowledged, refused.join(", ") || "0"],
    ...[round.promotedMs, round.submitMs, round.runMs].map((ms) => `${Math.round(ms)} ms`),
    round.wrong.length === 0 ? "no" : "YES",
  ];
}

function spread(name: string, list: readonly number[]): string {
  const sorted = list.toSorted((a, b) => a - b);
  const at = (share: number) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
  return `${name}: median ${at(0.5)} ms, 95 % ${at(0.95)} ms, longest ${at(1)} ms`;
}

const pair = await startPair();
const done: Round[] = [];
try {
  console.log(`times from the crash, at ${perSecond} submits/s\n${line(COLUMNS)}`);
  for (let i = 0; i < rounds; i++) {
    await pair.renew();
    const move = i % 2 === 0 ? "after the promotion" : "before the promotion";
    const options = { schema: `round_${i}`, move, perSecond, beforeMs: 1_500, afterMs: 1_000 } as const;
    const round = await failoverRound(pair, options);
    done.push(round);
    console.log(line(cells(i, round)));
    for (const problem of round.wrong) console.log(`  ${problem}`);
  }
} finally {
  await pair.stop();
}
const name = (what: string) => `crash to the first ${what}`;
console.log(
  spread(
    name("acknowledged submit"),
    done.map((round) => round.submitMs),
  ),
);
console.log(
  spread(
    name("job run"),
    done.map((round) => round.runMs),
  ),
);
const late = done.filter((round) => Math.max(round.submitMs, round.runMs) > GOAL_MS).length;
const bad = done.filter((round) => round.wrong.length > 0).length;
console.log(`${done.length} rounds: ${bad} with anything wrong, ${late} over ${GOAL_MS} ms`);
process.exitCode = bad + late > 0 ? 1 : 0;
