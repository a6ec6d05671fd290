/** A cancel of a run whose steps are commands: their processes end, `finally` runs once, and only then the run is cancelled; also if
 *  the process that does all this is killed in the middle. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { alive, allDead, needle } from "../exec/kit.ts";
import { auditRuns, stepsOf, withStore } from "../runs/audit.ts";
import { playbook } from "../runs/points.ts";
import { IS_FULL } from "../tier.ts";
import { type Child, open, STORES, start, TEST_MS, until } from "./kit.ts";

const COMMANDS = IS_FULL ? 200 : 20;
/** To start hundreds of processes takes a busy machine seconds, in which the worker must not count as lost. */
const LEASE = IS_FULL ? "15s" : "2s";
/** For machines that are busy with other tests; the figure is printed. */
const SLACK_MS = 20_000;

const DEATHS = ["", "amend 1", "settle 3", "advance 3", "advance 4"];

describe.each(STORES)("on $name", (store) => {
  describe.each(IS_FULL ? DEATHS : DEATHS.slice(0, 3))(
    "a cancel of a run with running commands (killed after: %s)",
    (killAfter) => {
      it(
        "ends all of them, runs finally once, and then the run is cancelled",
        async () => {
          const { url, directory } = store.newPlace();
          const mark = needle();
          const cleaned = join(directory, "cleaned");
          writeFileSync(cleaned, "");
          const perdure = await open(url);
          const loop = { in: Array.from({ length: COMMANDS }, (_, i) => i), iterator: "n", concurrency: COMMANDS };
          const run = await perdure.run(
            playbook(
              [
                { step: "sleep", type: "exec", argv: ["sleep", "1000"], env: { MARK: mark }, loop, next: "never" },
                { step: "never", type: "noop" },
                { step: "clean", type: "shell", command: `echo cleaned >> ${cleaned}` },
              ],
              {
                finally: "clean",
                parallel: COMMANDS,
                defaults: { retry: { maxAttempts: 3, backoff: { type: "none" } } },
              },
            ),
          );
          // The first one is killed only once it works on the cancel.
          let child: Child = worker(url, "");
          await until("all commands run", () => {
            if (child.isOver) throw new Error(child.errors);
            return alive(mark).length >= COMMANDS || undefined;
          });
          const since = performance.now();
          await run.cancel();
          if (killAfter !== "") {
            await until("commands begin to end", () => alive(mark).length < COMMANDS || undefined);
            await child.kill();
            await perdure.close({ grace: 0 });
            const dying = worker(url, killAfter);
            // It may have ended the run before it came to this write.
            await until(
              "it dies, or has done all",
              async () => dying.isOver || (await phaseOf(url, run.id)) === "ended" || undefined,
            );
            if (!dying.isOver) await dying.kill();
            child = worker(url, "");
          }
          const ms = await allDead(mark);
          console.log(`${COMMANDS} commands ended ${Math.round(performance.now() - since)} ms after the cancel`);
          expect(ms).toBeLessThan(SLACK_MS);
          await until("the run has ended", async () => (await phaseOf(url, run.id)) === "ended" || undefined);

          await withStore(url, async (opened) => {
            const [job] = await opened.jobs([run.id]);
            expect(job?.state).toBe("cancelled");
            const steps = await stepsOf(opened, run.id);
            const states = steps.map(({ node, item, state }) => `${node}${item < 0 ? "" : "[]"} ${state}`);
            expect(states.filter((state) => state === "sleep[] cancelled")).toHaveLength(COMMANDS);
            expect(states.filter((state) => !state.startsWith("sleep[]"))).toEqual([
              "sleep cancelled",
              "clean succeeded",
            ]);
            const clean = steps.find(({ node }) => node === "clean");
            expect(clean?.at).toBeGreaterThanOrEqual(
              Math.max(...steps.flatMap(({ node, endedAt }) => (node === "sleep" ? [endedAt ?? 0] : []))),
            );
            expect(job?.finishedAt).toBeGreaterThanOrEqual(clean?.endedAt as number);
            const attempts = await opened.attempts(clean?.job as string);
            expect(attempts.filter(({ outcome }) => outcome === "completed")).toHaveLength(1);
            expect(readFileSync(cleaned, "utf8").trim().split("\n").length).toBeLessThanOrEqual(attempts.length);
            await auditRuns(opened);
          });
          expect(child.errors).toBe("");
        },
        TEST_MS,
      );
    },
  );
});

function worker(url: string, killAfter: string): Child {
  return start("runs", {
    url,
    lease: LEASE,
    commands: true,
    concurrency: COMMANDS + 1,
    killAfter: killAfter === "" ? 0 : killAfter,
  });
}

async function phaseOf(url: string, run: string) {
  return withStore(url, async (store) => (await store.runs.row(run))?.phase);
}
