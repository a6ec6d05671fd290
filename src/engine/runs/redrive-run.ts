/** Redrives a run: checks what is to be repeated against its definition, pins another one if asked to, and gives the command. What
 *  follows is decided by the run's own advance. */
import type { RunRedriveOptions } from "../../core/api/runs.ts";
import { asList, asObject, asText, checkOptions, isPlain, nearest } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import { toPayload } from "../../core/input/submit-check.ts";
import type { Playbook } from "../../core/playbook/playbook.ts";
import { incompatiblePlaybook } from "../../core/playbook/playbook-errors.ts";
import { redriveTrouble } from "../../core/run/redrive-trouble.ts";
import type { RunRedrive, RunRow } from "../../core/run/run.ts";
import type { Store } from "../../store/store.ts";
import type { Definition, Playbooks } from "../playbooks/playbooks.ts";
import { checkedPayload } from "../submit.ts";

const NAMES = ["from", "skip", "set", "workload", "latest", "playbook"] as const;

/** Steps that are named in one redrive. */
const MAX_LISTED = 1_000;

/** The content of the command. */
export async function redriveOf(
  store: Pick<Store, "runs">,
  playbooks: Playbooks,
  run: RunRow,
  options: RunRedriveOptions,
): Promise<RunRedrive> {
  checkOptions(options, NAMES, "redrive");
  const { from, skip, workload } = options;
  const current = await playbooks.load(run.playbook);
  const other = await otherDefinition(playbooks, run, current, options);
  const playbook = other?.playbook ?? current;
  const known = (name: unknown, path: string) => knownStep(playbook, name, path);
  const given = typeof from === "string" ? [from] : from;
  const steps = given === undefined ? undefined : asList(given, "redrive.from", known, MAX_LISTED);
  if (skip !== undefined) for (const name of Object.keys(asObject(skip, "redrive.skip"))) known(name, "redrive.skip");
  const set =
    options.set === undefined
      ? undefined
      : asList(
          options.set,
          "redrive.set",
          (each, at) => {
            const { step, path, value = null } = asObject(each, at, ["step", "path", "value"]);
            return { step: known(step, `${at}.step`), path: asText(path, `${at}.path`, 500), value };
          },
          MAX_LISTED,
        );
  if (workload !== undefined && !isPlain(workload)) {
    throw new ConfigError({ path: "redrive.workload", given: workload, allowed: "an object" });
  }
  const redrive: RunRedrive = {
    ...(steps === undefined ? {} : { from: steps }),
    ...(skip === undefined ? {} : { skip: Object.entries(skip).map(([step, output]) => ({ step, output })) }),
    ...(set === undefined ? {} : { set }),
    ...(workload === undefined ? {} : { workload }),
    ...(other === null ? {} : { playbook: other.hash, pins: other.pins }),
  };
  const before = other === null ? null : current;
  const ended = [...run.state.broken, ...run.state.unrouted];
  const rows = (await store.runs.outputs(run.id, ended)).map(({ step }) => step);
  const trouble = redriveTrouble({ run, rows, playbook, before, redrive });
  if (trouble !== null) {
    if (before !== null) throw incompatiblePlaybook(trouble);
    throw new ConfigError({ path: "redrive", given: options, problem: trouble });
  }
  // As it is stored: JSON, within the limit of a payload.
  return JSON.parse(checkedPayload(toPayload(redrive))) as RunRedrive;
}

function knownStep({ steps }: Playbook, name: unknown, path: string): string {
  const names = steps.map((step) => step.name);
  if (typeof name === "string" && names.includes(name)) return name;
  const near = typeof name === "string" ? nearest(name, names) : null;
  throw new ConfigError({ path, given: name, allowed: "the name of a step of the playbook", nearest: near });
}

/** Null where it stays the same. */
async function otherDefinition(
  playbooks: Playbooks,
  run: RunRow,
  current: Playbook,
  { latest = false, playbook }: RunRedriveOptions,
): Promise<Definition | null> {
  if (latest && playbook !== undefined) {
    const problem = "cannot be used together with playbook";
    throw new ConfigError({ path: "redrive.latest", given: true, problem, fix: "remove one of them" });
  }
  const given = latest ? current.path : (playbook ?? null);
  if (latest && given === null) throw incompatiblePlaybook("its playbook has no path in the catalog");
  if (given === null) return null;
  const other = await playbooks.definition(run.namespace, given);
  if (other.hash === run.playbook) return null;
  return other;
}
