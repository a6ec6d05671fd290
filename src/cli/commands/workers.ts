/** `perdure workers`: lists workers and their health. */
import { showMs } from "../../core/duration.ts";
import type { SessionRow } from "../../core/job/views.ts";
import { storable } from "../../lib/text.ts";
import { type CliCommand, READING } from "../command.ts";
import { EXIT } from "../exit.ts";
import { labelsText, WORKER_COLOURS, workerState } from "../output/job-text.ts";
import { showSince } from "../output/print.ts";
import { painted, type TextPiece } from "../output/terminal-text.ts";
import { eachWorker } from "../target/pages.ts";
import { serverNow } from "../target/server-time.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const workers: CliCommand = {
  name: "workers",
  summary: "List workers and their health",
  usage: "perdure workers [OPTIONS]",
  about:
    "ATTEMPTS, FAILED, AVERAGE and LOAD are as the worker last reported them: attempts that ended, how many of them failed, " +
    "their average duration, and the load of its machine per processor. A worker is silent when it has not renewed its lease.",
  options: [
    { name: "all", short: "a", type: "boolean", help: "Also workers that ended recently." },
    ...TARGET,
    ...READING,
  ],
  examples: ["perdure workers", "perdure workers --all --json"],

  async run(context) {
    const { given, out } = context;
    given.atMost(0);
    return withPerdure(context, async (perdure) => {
      const now = await serverNow(perdure);
      let ended = 0;
      async function* shown() {
        for await (const worker of eachWorker(perdure)) {
          if (given.flag("all") || worker.endedAt === null) yield worker;
          else ended += 1;
        }
      }
      async function* documents() {
        for await (const worker of shown()) yield { ...worker, state: workerState(worker, now) };
      }
      async function* rows() {
        for await (const worker of shown()) yield row(worker, now);
      }
      if (given.flag("json")) await out.jsonList(documents());
      else if ((await out.tables(COLUMNS, rows())) === 0)
        out.note(`no workers${ended > 0 ? "; --all shows those that have ended" : ""}`);
      return EXIT.done;
    });
  },
};

const right = (head: string) => ({ head, side: "right" }) as const;
const COLUMNS = [
  ...[{ head: "SESSION" }, { head: "NAME", flexible: true }, { head: "HOST", flexible: true }, { head: "STATE" }],
  ...[
    { head: "KINDS", flexible: true },
    { head: "QUEUES", flexible: true },
    { head: "LABELS", flexible: true },
  ],
  ...[right("RUNNING"), right("ATTEMPTS"), right("FAILED"), right("AVERAGE"), right("LOAD"), right("SEEN")],
];

function row(worker: SessionRow, now: number): TextPiece[] {
  const { id, name, host, pid, kinds, queues, labels, slots, running, health, renewedAt } = worker;
  const state = workerState(worker, now);
  const figures =
    health === null
      ? ["", "", "", ""]
      : [String(health.total), failuresText(health), showMs(health.averageMs), health.load.toFixed(2)];
  return [
    ...[id, name, `${host}/${pid}`, painted(WORKER_COLOURS[state], state)],
    ...[cut(kinds.join(",")), queues === null ? "" : cut(queues.join(",")), cut(labelsText(labels))],
    ...[`${running}/${slots}`, ...figures, painted("dim", `${showSince(renewedAt, now)} ago`)],
  ];
}

/** Longer cells are cut; `--json` has all of it. */
const LONG = 500;

function cut(text: string): string {
  return text.length > LONG ? `${storable(text, LONG)}…` : text;
}

/** Consecutive failures matter more than their total. */
function failuresText({ failed, consecutiveFailures }: NonNullable<SessionRow["health"]>): TextPiece {
  return consecutiveFailures > 1 ? painted("yellow", `${failed} (${consecutiveFailures} in a row)`) : String(failed);
}
