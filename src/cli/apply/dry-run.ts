/** `perdure apply --dry-run`: the jobs of files as they would be stored, and whether they exist already. Nothing is stored, and no
 *  data is created: where none is, no job exists. */
import { showMs, toMs } from "../../core/duration.ts";
import { jobName } from "../../core/job-name.ts";
import type { Policy } from "../../core/policy.ts";
import { resolvePolicy } from "../../core/resolve-policy.ts";
import type { Context } from "../command.ts";
import { EXIT } from "../exit.ts";
import { attemptsText, backoffText, policyBudgetText } from "../policy-text.ts";
import { type Target, withPerdure } from "../target.ts";
import { type Existing, existingFor, impliedParent, namedBy } from "./named.ts";
import type { AnyJob } from "./read-any.ts";

export async function showDry(context: Context, target: Target, jobs: readonly AnyJob[]): Promise<number> {
  const { given, out } = context;
  const existing = await existingOf(context, target, jobs);
  if (given.flag("json")) out.json(jobs.map((job, i) => shownJob(job, existing[i] ?? null)));
  else {
    for (const [i, { entry, where, dialect }] of jobs.entries()) {
      out.line(`${where}: ${entry.task} (${dialect ?? "perdure"})`);
      out.facts([...factsOf(entry), ["  Exists", existing[i]?.text ?? null]]);
    }
  }
  // As an apply would end.
  return existing.some((found) => found !== null && found.differences.length > 0) ? EXIT.failed : EXIT.done;
}

/** In their order; null for one that does not exist, or whose document has no name. */
async function existingOf(context: Context, target: Target, jobs: readonly AnyJob[]): Promise<(Existing | null)[]> {
  if (jobs.every((job) => namedBy(job) === null)) return [];
  if (target.kind === "store" && !(await (await import("../direct.ts")).storeExists(target))) return [];
  return withPerdure(context, async (perdure) => {
    const found: (Existing | null)[] = [];
    for (const job of jobs) found.push(await existingFor(perdure, job, impliedParent(context.io, target)));
    return found;
  });
}

function nameOf({ task, input, options }: AnyJob["entry"]): string {
  const { name = null, annotations = {} } = options ?? {};
  return jobName({ name, kind: task, annotations, payload: input });
}

/** Null where it is known only when the job is stored: what workers publish for its kind holds then. */
function policyOf({ task, options }: AnyJob["entry"]): Policy | null {
  const isOurs = task === "exec" || task === "http";
  return options?.retry === undefined && !isOurs ? null : resolvePolicy(options?.retry);
}

function factsOf(entry: AnyJob["entry"]): [string, string | null][] {
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

function shownJob({ entry, where, dialect }: AnyJob, existing: Existing | null): object {
  const { task, input, options } = entry;
  return {
    ...{ kind: task, name: nameOf(entry), input, options, policy: policyOf(entry), where, dialect },
    ...(existing === null ? {} : { existing: shownExisting(existing) }),
  };
}

function shownExisting({ job: { id, state }, differences }: Existing): object {
  return { id, state, differences };
}
