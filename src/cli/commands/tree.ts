/** `perdure tree`: a job and all its descendants. */

import type { Perdure } from "../../core/api.ts";
import { budgetText } from "../../core/decision/budget.ts";
import { addUsage, type Usage } from "../../core/job/job.ts";
import { jobName } from "../../core/job/job-name.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { shownKey } from "../../dialects/registry.ts";
import { type CliCommand, READING } from "../command.ts";
import { EXIT } from "../exit.ts";
import { fullId } from "../jobs/job-reference.ts";
import { bySession, failureLine, stateText } from "../output/job-text.ts";
import { spentText, usageText, usedBy } from "../output/policy-text.ts";
import { cutToWidth, painted, safeLine, type TextPiece, textOf, textWidth } from "../output/terminal-text.ts";
import { serverNow } from "../target/server-time.ts";
import { TARGET, withPerdure } from "../target/target.ts";

const DEFAULT_LIMIT = 1_000;
const PAGE = 200;

export const tree: CliCommand = {
  name: "tree",
  summary: "Show a job and all its descendants",
  usage: "perdure tree ID [OPTIONS]",
  about:
    "Children are listed below their parent, oldest first. A parent that waits for them is blocked. A line has the key in " +
    "square brackets; in round ones what the job has used, and what is left of a budget for it and its descendants; at its " +
    "end why the job failed or is being retried. If tokens or money were used, the last line has the total of the jobs shown.",
  options: [
    {
      name: "limit",
      short: "n",
      type: "string",
      value: "N",
      help: `At most this many jobs. Default: ${DEFAULT_LIMIT}.`,
    },
    ...TARGET,
    ...READING,
  ],
  examples: ["perdure tree job_01m7gekg9zevv9a6xvvwmt1v8g"],

  async run(context) {
    const { given, out, io } = context;
    const short = given.jobId();
    const limit = given.integer("limit", { min: 1, max: 100_000 }) ?? DEFAULT_LIMIT;
    return withPerdure(context, async (perdure) => {
      const id = await fullId(perdure, short);
      const reader = new TreeReader(perdure, limit);
      const root = await reader.read(await (await perdure.job(id)).get());
      if (given.flag("json")) out.json({ ...root, total: totalOf(root) });
      else {
        const workers = await bySession(perdure);
        const now = await serverNow(perdure);
        for (const { job, lead } of linesOf(root)) {
          const key = shownKey(job);
          const named = key === null ? [] : [painted("dim", `  [${key}]`)];
          const spent = spentText(job);
          const used = spent === "" ? [] : [painted("dim", `  (${spent})`)];
          const state = stateText(job, now, workers);
          const pieces = [painted("dim", lead), job.id, "  ", state, "  ", jobName(job), ...named, ...used];
          out.line(...pieces, ...whyIn(job, pieces, io.columns));
        }
        const total = totalText(root, reader.isCut);
        if (total !== null) out.line(painted("bold", "total"), "  ", total);
      }
      if (reader.isCut) out.note(`more than ${limit} jobs; pass --limit to see more`);
      return EXIT.done;
    });
  },
};

const MIN_WIDTH = 20;

/** Why a job failed or is being retried, cut to the rest of the line. */
function whyIn(job: JobInfo, before: readonly TextPiece[], columns = Number.POSITIVE_INFINITY): TextPiece[] {
  const why = safeLine(failureLine(job));
  if (why === "") return [];
  const space = columns - textWidth(before.map((piece) => safeLine(textOf(piece))).join("")) - 2;
  return ["  ", painted(job.state === "failed" ? "red" : "yellow", cutToWidth(why, Math.max(MIN_WIDTH, space)))];
}

interface JobTreeNode {
  readonly job: JobInfo;
  readonly children: readonly JobTreeNode[];
}

/** What the jobs in a tree have used, as far as reported. */
function totalOf({ job, children }: JobTreeNode): Usage | null {
  return children.reduce((sum, child) => addUsage(sum, totalOf(child)), usedBy(job));
}

/** With the budget of the root, which also counts jobs that are not shown. */
function totalText(root: JobTreeNode, isCut: boolean): string | null {
  const total = totalOf(root);
  const own = root.job.budgets.find(({ jobId }) => jobId === root.job.id);
  if (total === null && own === undefined) return null;
  const used = total === null ? [] : [`${usageText(total)} used${isCut ? " by the jobs shown" : ""}`];
  return [...used, ...(own === undefined ? [] : [`budget: ${budgetText(own)}`])].join("; ");
}

/** Reads depth first, as the tree is printed; a cut tree lacks its last branches. */
class TreeReader {
  isCut = false;
  readonly #perdure: Perdure;
  #left: number;

  constructor(perdure: Perdure, limit: number) {
    this.#perdure = perdure;
    this.#left = limit - 1;
  }

  async read(job: JobInfo): Promise<JobTreeNode> {
    const children: JobTreeNode[] = [];
    let cursor: string | null = null;
    do {
      const page: Awaited<ReturnType<Perdure["jobs"]>> = await this.#perdure.jobs({
        ...{ parent: job.id, order: "oldest", limit: PAGE },
        ...(cursor === null ? {} : { cursor }),
      });
      for (const child of page.jobs) {
        if (this.#left <= 0) {
          this.isCut = true;
          return { job, children };
        }
        this.#left -= 1;
        children.push(await this.read(child));
      }
      cursor = page.next;
    } while (cursor !== null);
    return { job, children };
  }
}

/** Each job with the branch lines before it. */
function* linesOf(
  { job, children }: JobTreeNode,
  lead = "",
  below = "",
): Generator<{ readonly job: JobInfo; readonly lead: string }> {
  yield { job, lead };
  for (const [i, child] of children.entries()) {
    const isLast = i === children.length - 1;
    yield* linesOf(child, `${below}${isLast ? "└─ " : "├─ "}`, `${below}${isLast ? "   " : "│  "}`);
  }
}
