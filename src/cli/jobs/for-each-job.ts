/** Runs one command for several jobs: each has its own result, and an error of one does not stop the others. */

import type { Perdure } from "../../core/api.ts";
import { PerdureError } from "../../core/errors.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { isId } from "../../lib/id.ts";
import { limiter } from "../../lib/limiter.ts";
import type { Arguments, CliCommand, CommandContext } from "../command.ts";
import { EXIT, missingArgument } from "../exit.ts";
import { stateText } from "../output/job-text.ts";
import { withPerdure } from "../target/target.ts";
import { asReference, fullId } from "./job-reference.ts";

/** The ids, all checked before anything is done. They may be short. */
export function givenIds(given: Arguments, { usage }: Pick<CliCommand, "usage">): string[] {
  const ids = [...new Set(given.positionals)];
  if (ids.length === 0) throw missingArgument("ID", usage);
  return ids.map(asReference);
}

interface JobCommandAnswer {
  readonly id: string;
  readonly ok: boolean;
  readonly state?: string;
  readonly reason?: string | null;
  readonly error?: { readonly code: string; readonly message: string };
}

export function forEach(
  context: CommandContext,
  ids: readonly string[],
  act: (perdure: Perdure, id: string) => Promise<JobInfo>,
  /** Gets the jobs for which `act` succeeded. */
  after: (perdure: Perdure, done: readonly JobInfo[]) => Promise<void> = async () => {},
): Promise<number> {
  const { given, out } = context;
  const isJson = given.flag("json");
  return withPerdure(context, async (perdure) => {
    const answers: JobCommandAnswer[] = [];
    const done: JobInfo[] = [];
    try {
      for (const { id, error } of await resolved(perdure, ids)) {
        try {
          if (error !== null) throw error;
          const job = await acted(perdure, id, act);
          done.push(job);
          answers.push({ id: job.id, ok: true, state: job.state, reason: job.reason });
          if (!isJson) out.line(job.id, "  ", stateText(job, Date.now(), new Map()));
        } catch (error) {
          if (!isOfTheJob(error)) throw error;
          const { code, message } = error;
          answers.push({ id, ok: false, error: { code, message } });
          if (!isJson) out.note(`${given.program}: ${message.includes(id) ? message : `${id}: ${message}`}`);
        }
      }
    } finally {
      // Includes what was done before the server became unreachable.
      if (isJson) out.json(answers);
    }
    await after(perdure, done);
    return answers.every(({ ok }) => ok) ? EXIT.done : EXIT.failed;
  });
}

/** Concurrent searches. */
const TOGETHER = 16;

/** Resolves all ids before anything is done; an ambiguous one ends the command. A full id is not searched, so a token that
 *  may submit and not read is enough. */
async function resolved(perdure: Perdure, texts: readonly string[]) {
  const few = limiter(TOGETHER);
  const found = await Promise.all(texts.map((text) => few(() => resolvedOne(perdure, text))));
  return [...new Map(found.map((each) => [each.id, each])).values()];
}

async function resolvedOne(perdure: Perdure, text: string) {
  if (isId(text, "job")) return { id: text, error: null };
  try {
    return { id: await fullId(perdure, text), error: null };
  } catch (error) {
    if (!isOfTheJob(error)) throw error;
    return { id: text, error };
  }
}

/** A client of another system may use ids in the format of ours; such an id is used if no job has it as its own. */
async function acted(perdure: Perdure, id: string, act: (perdure: Perdure, id: string) => Promise<JobInfo>) {
  try {
    return await act(perdure, id);
  } catch (error) {
    if (!(error instanceof PerdureError) || error.code !== "job_not_found") throw error;
    const other = isId(id, "job") ? await fullId(perdure, id) : id;
    if (other === id) throw error;
    return act(perdure, other);
  }
}

const OF_THE_JOB: ReadonlySet<string> = new Set(["job_not_found", "wrong_state", "budget_spent"]);

function isOfTheJob(error: unknown): error is PerdureError {
  return error instanceof PerdureError && OF_THE_JOB.has(error.code);
}
