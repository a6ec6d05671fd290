/** Where the values of a job's policy came from, in a sentence. */
import type { Policy } from "./policy.ts";
import { POLICY_SOURCES, type PolicySource, type PolicySources } from "./policy-sources.ts";
import { presets } from "./presets.ts";
import { quoted } from "./show.ts";

const CALLED: Readonly<Record<PolicySource, string>> = {
  submit: "the submit",
  task: "the task",
  action: "the action",
  pack: "its pack",
  settings: "the settings",
};

/** Nothing of a job that an older version stored, unless its policy is a preset's as it is. */
export function tellSources(sources: PolicySources | undefined, policy: Policy | undefined): string[] {
  const preset = policy === undefined ? "the preset" : `preset ${quoted(policy.preset)}`;
  if (sources === undefined) {
    const isPreset = policy !== undefined && JSON.stringify(policy) === JSON.stringify(presets[policy.preset]);
    return isPreset ? [`  Its policy is ${preset}: no other values were given.`] : [];
  }
  const parts = POLICY_SOURCES.flatMap((source) => {
    const names = Object.keys(sources.from).filter((name) => sources.from[name] === source);
    return names.length === 0 ? [] : [`${names.join(", ")} from ${CALLED[source]}${by(source, sources)}`];
  });
  return [`  Its policy: ${[...parts, `all else from ${preset}`].join("; ")}.`];
}

function by(source: PolicySource, { session, worker }: PolicySources): string {
  if (source !== "task" || session === undefined) return "";
  return ` (published by worker ${quoted(worker ?? "")}, session ${session})`;
}
