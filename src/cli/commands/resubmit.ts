/** `perdure resubmit`: a new job like another, with another prompt, model, role or command, or with other limits. */

import type { Perdure } from "../../core/api.ts";
import { show } from "../../core/errors.ts";
import { exec } from "../../core/input/builtin.ts";
import type { ExecInput } from "../../core/input/exec-input.ts";
import { RESUBMIT } from "../../dialects/cli/registry.ts";
import { type DialectSettings, dialectSettingsFrom } from "../../dialects/settings.ts";
import { localDialectSettings } from "../apply/dialect-settings.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { asReference, fullId } from "../jobs/job-reference.ts";
import { budgetNotes } from "../output/policy-text.ts";
import { CHANGE_OPTIONS, changeOf } from "../submit/resubmit-changes.ts";
import { TARGET, targetOf, withPerdure } from "../target/target.ts";

export const resubmit: CliCommand = {
  name: "resubmit",
  summary: "Submit a job like another, with other words or another command",
  usage: "perdure resubmit ID [OPTIONS] [-- COMMAND [ARGS…]]",
  about:
    "Prints the id of the new job. It has the same input, policy, queue, labels, tags, timeout and annotations but for what " +
    "is changed, and the same parent while that has not ended. A budget of its own starts from zero; one above it goes on. To run the same job again, use `perdure redrive`. " +
    "With --role, retry, budget, model, tier and timeout that came from the role before are replaced by those of the new one; what the " +
    "task itself gave stays. The new job names the one it was made from; `perdure ps --resubmit-of ID` lists such jobs.",
  options: [
    ...RESUBMIT.options,
    {
      name: "key",
      type: "string",
      value: "KEY",
      help: "At most one job per key: the same call again finds the first.",
    },
    ...CHANGE_OPTIONS,
    ...TARGET,
    ...READING,
  ],
  examples: [
    'perdure resubmit job_01m7gekg9zevv9a6xvvwmt1v8g --prompt "In one page"',
    "perdure resubmit job_01m7gekg9zevv9a6xvvwmt1v8g --model small -- ./agent",
    "perdure resubmit write-tests --role reviewer -f roles.yaml",
    "perdure resubmit job_01m7gekg9zevv9a6xvvwmt1v8g --max-attempts 9 --timeout 2h",
  ],

  async run(context) {
    const { given, io, out } = context;
    const { id: short, command } = wantedOf(context);
    const others = changeOf(context);
    const key = given.text("key");
    const copier = await RESUBMIT.open({ given, io, command });
    const target = targetOf(context);
    const { id, job, formerParent, before, after } = await withPerdure(context, async (perdure) => {
      const whole = await fullId(perdure, short);
      await refusePiped(perdure, whole);
      const settings = async (): Promise<DialectSettings> =>
        target.kind === "server" ? dialectSettingsFrom(perdure) : localDialectSettings(context);
      const made = await copier.resubmit(perdure, whole, { key, others, settings });
      return { id: whole, ...made, before: await (await perdure.job(whole)).get(), after: await made.job.get() };
    });
    if (given.flag("json")) {
      out.json({ id: job.id, created: job.created, resubmitOf: id, budgets: after.budgets, before: before.budgets });
    } else out.line(job.id);
    if (job.created) for (const note of copier.notes(before, after)) out.note(note);
    for (const line of budgetNotes(before, after)) out.note(line);
    if (formerParent !== null) out.note(`its parent ${formerParent} has ended: the new job has none`);
    if (!job.created) out.note(`${job.id} already exists; the key ${key} names it`);
    return EXIT.done;
  },
};

/** The bytes of its standard input are stored under the id of the job before. */
async function refusePiped(perdure: Perdure, id: string): Promise<void> {
  const { kind, payload } = await (await perdure.job(id)).get();
  if (kind !== exec.kind || (payload as Partial<ExecInput> | null)?.stdinFile === undefined) return;
  throw usageError(
    `${id} has piped input, which belongs to that job alone; to run it again with the same input use \`perdure redrive ${id}\`, ` +
      "for another command pipe the input into `perdure run` or `perdure submit --stdin` again",
  );
}

function wantedOf({ given }: CommandContext): { readonly id: string; readonly command: readonly string[] | null } {
  const { positionals, afterDashes } = given;
  if (afterDashes?.length === 0) throw usageError(`no command after --; usage: ${resubmit.usage}`);
  const before = positionals.slice(0, positionals.length - (afterDashes?.length ?? 0));
  const [id, extra] = before;
  if (id === undefined) throw usageError(`which job? Usage: ${resubmit.usage}`);
  if (extra !== undefined) throw usageError(`unexpected argument ${show(extra)}. Usage: ${resubmit.usage}`);
  return { id: asReference(id), command: afterDashes };
}
