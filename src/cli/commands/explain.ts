/** `perdure explain`: why a job has its state, from its stored history. For a job with the policy of another system, each
 *  retry has the reason that this system gives it. */
import type { Explanation } from "../../core/explain/explain.ts";
import { retryReason } from "../../dialects/registry.ts";
import { originOf } from "../../dialects/shared.ts";
import { type CliCommand, READING } from "../command.ts";
import { EXIT } from "../exit.ts";
import { fullId } from "../jobs/job-reference.ts";
import { painted } from "../output/terminal-text.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const explain: CliCommand = {
  name: "explain",
  summary: "Show why a job ended, or why it is waiting",
  usage: "perdure explain ID [OPTIONS]",
  about:
    "From the job's stored history: what each attempt did, which rule decided and which part of it matched, and what comes next.",
  options: [...TARGET, ...READING],
  examples: ["perdure explain job_01m7gekg9zevv9a6xvvwmt1v8g"],

  async run(context) {
    const { given, out } = context;
    const short = given.jobId();
    const [explanation, job] = await withPerdure(context, async (perdure) => {
      const id = await fullId(perdure, short);
      return Promise.all([perdure.explain(id), perdure.job(id).then((handle) => handle.get())]);
    });
    const origin = originOf(job);
    const retries = withReasons(explanation);
    if (given.flag("json")) out.json({ ...explanation, retries, ...(origin === null ? {} : { resubmitOf: origin }) });
    else {
      const reasons = new Map(retries.map(({ line, reason }) => [line, reason]));
      out.line(painted("bold", explanation.summary));
      if (origin !== null) out.line(`It is a resubmit of ${origin}.`);
      for (const [i, line] of explanation.lines.entries()) {
        out.block(line);
        const reason = reasons.get(i) ?? null;
        if (reason !== null) out.block(`  Retry reason: ${reason}.`);
      }
    }
    return EXIT.done;
  },
};

/** A server of an earlier version reports no retries. */
function withReasons({ retries = [], preset = null }: Partial<Explanation>) {
  return retries.map((retry) => ({ ...retry, reason: retryReason(preset, retry) }));
}
