/** `perdure resubmit`: a copy of a job, with another prompt, model, role or command, or with other limits. */

import type { Perdure } from "../../core/api.ts";
import { show } from "../../core/errors.ts";
import { exec } from "../../core/input/builtin.ts";
import type { ExecInput } from "../../core/input/exec-input.ts";
import { RESUBMIT, withDialectHelp } from "../../dialects/cli/registry.ts";
import { type DialectSettings, dialectSettingsFrom } from "../../dialects/settings.ts";
import { localDialectSettings } from "../apply/dialect-settings.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { EXIT, missingArgument, usageError } from "../exit.ts";
import { asReference, fullId } from "../jobs/job-reference.ts";
import { budgetNotes } from "../output/policy-text.ts";
import { CHANGE_OPTIONS, changeOf } from "../submit/resubmit-changes.ts";
import { TARGET, targetOf, withPerdure } from "../target/target.ts";

export const resubmit: CliCommand = {
  name: "resubmit",
  summary: "Submit a copy of a job, with changes",
  usage: "perdure resubmit ID [OPTIONS] [-- COMMAND [ARGS…]]",
  options: [
    ...RESUBMIT.options,
    {
      name: "key",
      type: "string",
      value: "KEY",
      help: "At most one job has this key; the same command again finds that job.",
    },
    ...CHANGE_OPTIONS,
    ...TARGET,
    ...READING,
  ],
  ...withDialectHelp("resubmit", {
    about:
      "Prints the id of the new job. Except for what is changed, it has the same input, policy, queue, labels, tags, timeout and " +
      "annotations, and the same parent unless that has ended. Its own budget starts from zero; a budget of a parent is shared " +
      "as before. `perdure ps --resubmit-of ID` lists the copies of a job. To run the same job again, use `perdure redrive`.",
    examples: [
      "perdure resubmit job_01m7gekg9zevv9a6xvvwmt1v8g -- ./backup.sh --full",
      "perdure resubmit job_01m7gekg9zevv9a6xvvwmt1v8g --max-attempts 9 --timeout 2h",
    ],
  }),

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
    if (formerParent !== null) out.note(`the parent ${formerParent} has ended: the new job has no parent`);
    if (!job.created) out.note(`${job.id} already exists for key ${key}`);
    return EXIT.done;
  },
};

/** The bytes of piped input are stored under the id of the original job. */
async function refusePiped(perdure: Perdure, id: string): Promise<void> {
  const { kind, payload } = await (await perdure.job(id)).get();
  if (kind !== exec.kind || (payload as Partial<ExecInput> | null)?.stdinFile === undefined) return;
  throw usageError(
    `${id} has piped input, which is stored for that job only: use \`perdure redrive ${id}\` to run it again with the same ` +
      "input, or pipe the input into `perdure run` or `perdure submit --stdin` again",
  );
}

function wantedOf({ given }: CommandContext): { readonly id: string; readonly command: readonly string[] | null } {
  const { positionals, afterDashes } = given;
  if (afterDashes?.length === 0) throw missingArgument("COMMAND after --", resubmit.usage);
  const before = positionals.slice(0, positionals.length - (afterDashes?.length ?? 0));
  const [id, extra] = before;
  if (id === undefined) throw missingArgument("ID", resubmit.usage);
  if (extra !== undefined) throw usageError(`unexpected argument ${show(extra)}. Usage: ${resubmit.usage}`);
  return { id: asReference(id), command: afterDashes };
}
