/** `perdure apply --dry-run`: the jobs of files as they would be stored, and whether they already exist. Nothing is stored
 *  or created; without data no job exists. */
import { showMs, toMs } from "../../core/duration.ts";
import { counted } from "../../core/format.ts";
import { jobName } from "../../core/job/job-name.ts";
import { type Playbook, RUN_KIND } from "../../core/playbook/playbook.ts";
import type { Policy } from "../../core/policy/policy.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { graphText } from "../../core/run/graph-text.ts";
import type { Difference } from "../../dialects/dialect.ts";
import type { CommandContext } from "../command.ts";
import { EXIT } from "../exit.ts";
import { nullIfForbidden } from "../jobs/job-reference.ts";
import { attemptsText, backoffText, policyBudgetText } from "../output/policy-text.ts";
import type { PlaybookWithFiles } from "../playbooks/playbook-files.ts";
import { type Target, withPerdure } from "../target/target.ts";
import { type ExistingJob, existingOf, impliedParent, namedBy } from "./named-jobs.ts";
import type { ReadJob } from "./read-jobs.ts";

export async function showDry(
  context: CommandContext,
  target: Target,
  jobs: readonly ReadJob[],
  playbooks: readonly PlaybookWithFiles[] = [],
): Promise<number> {
  const { given, out } = context;
  const existing = await storedOf(context, target, jobs);
  const earlier = jobs.map((job, i) => (existing[i] == null ? earlierOf(jobs.slice(0, i), job) : null));
  if (given.flag("json")) {
    const shown = jobs.map((job, i) => ({
      ...shownJob(job, existing[i] ?? null),
      ...shownEarlier(earlier[i] ?? null),
    }));
    out.json([...shown, ...playbooks.flatMap(playbooksIn).map(shownPlaybook)]);
  } else {
    for (const [i, { entry, where, dialect }] of jobs.entries()) {
      out.line(`${where}: ${entry.task} (${dialect ?? "perdure"})`);
      out.facts([...factsOf(entry), ["  Exists", existing[i]?.text ?? earlier[i]?.text ?? null]]);
    }
    for (const { file, playbook } of playbooks.flatMap(playbooksIn)) {
      out.line(`${file}: playbook ${playbook.name}, ${counted(playbook.steps.length, "step")}`);
      out.block(graphText(playbook, "ascii").trimEnd());
    }
  }
  // The same exit code as without --dry-run.
  return [...existing, ...earlier].some((found) => (found?.differences ?? []).length > 0) ? EXIT.failed : EXIT.done;
}

interface DryPlaybook {
  readonly file: string;
  readonly playbook: Playbook;
}

function playbooksIn({ readings }: PlaybookWithFiles): DryPlaybook[] {
  return readings.flatMap(({ file, playbook }) => (playbook === null ? [] : [{ file, playbook }]));
}

function shownPlaybook({ file, playbook }: DryPlaybook): object {
  return { kind: RUN_KIND, where: file, playbook: JSON.parse(graphText(playbook, "json")) as object };
}

/** An earlier document with the same name in these files, whose job would be stored first. */
interface EarlierDocument {
  readonly where: string;
  readonly differences: readonly Difference[];
  readonly text: string;
}

function earlierOf(before: readonly ReadJob[], job: ReadJob): EarlierDocument | null {
  const named = namedBy(job);
  const { key, parent } = job.entry.options ?? {};
  const isSame = ({ entry: { options }, dialect }: ReadJob) =>
    dialect === job.dialect && options?.key === key && options?.parent === parent;
  const first = named === null ? undefined : before.find(isSame);
  if (named === null || first === undefined) return null;
  const { where } = first;
  const differences = named.differences(first.entry, job.entry);
  const called = `${named.called(job.entry)} is in these files already, at ${where}`;
  if (differences.length === 0) return { where, differences, text: `${called}, unchanged` };
  const what = differences.map(({ text }) => text).join("; ");
  const instead = named.instead(null, job.entry, differences);
  return { where, differences, text: `${called}, and differs: ${what}. It is not stored: ${instead}` };
}

function shownEarlier(earlier: EarlierDocument | null): object {
  return earlier === null ? {} : { sameNameAs: { where: earlier.where, differences: earlier.differences } };
}

/** In the same order; null if the job does not exist or its document has no name. */
async function storedOf(
  context: CommandContext,
  target: Target,
  jobs: readonly ReadJob[],
): Promise<(ExistingJob | null)[]> {
  if (jobs.every((job) => namedBy(job) === null)) return [];
  if (target.kind === "store" && !(await (await import("../target/open-store.ts")).storeExists(target))) return [];
  return withPerdure(context, async (perdure) => {
    const found = await nullIfForbidden(existingOf(perdure, jobs, impliedParent(context.io, target)));
    if (found === null) context.out.note("note: this token has no scope read, so existing jobs are not shown");
    return found ?? [];
  });
}

function nameOf({ task, input, options }: ReadJob["entry"]): string {
  const { name = null, annotations = {} } = options ?? {};
  return jobName({ name, kind: task, annotations, payload: input });
}

/** Null if it is not known before the job is stored: then the defaults that workers publish for its kind apply. */
function policyOf({ task, options }: ReadJob["entry"]): Policy | null {
  const isOurs = task === "exec" || task === "http";
  return options?.retry === undefined && !isOurs ? null : resolvePolicy(options?.retry);
}

function factsOf(entry: ReadJob["entry"]): [string, string | null][] {
  const policy = policyOf(entry);
  const timeout = entry.options?.timeout;
  const shared: [string, string | null][] = [
    ["  Name", nameOf(entry)],
    ["  Timeout", timeout === undefined ? "none" : showMs(toMs(timeout, "timeout"))],
  ];
  if (policy === null) return [...shared, ["  Attempts", "as its workers publish for the kind, else 1"]];
  return [
    ...shared,
    ["  Attempts", attemptsText(policy)],
    ["  Backoff", backoffText(policy) ?? "none"],
    ["  Budget", policyBudgetText(policy) ?? "none"],
  ];
}

function shownJob({ entry, where, dialect }: ReadJob, existing: ExistingJob | null): object {
  const { task, input, options } = entry;
  return {
    ...{ kind: task, name: nameOf(entry), input, options, policy: policyOf(entry), where, dialect },
    ...(existing === null ? {} : { existing: shownExisting(existing) }),
  };
}

function shownExisting({ job: { id, state }, differences }: ExistingJob): object {
  return { id, state, differences };
}
