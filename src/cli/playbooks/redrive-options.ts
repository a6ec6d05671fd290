/** What `perdure redrive` changes of a run, from its options. */
import type { PlaybookInput } from "../../core/api/playbooks.ts";
import type { RunRedriveOptions } from "../../core/api/runs.ts";
import type { Arguments, CommandContext, CommandOption } from "../command.ts";
import { conflictError, requirementError, usageError, valueError } from "../exit.ts";
import { jsonOf } from "../submit/entry-from-options.ts";
import type { Target } from "../target/target.ts";
import { givenPlaybook } from "./given-playbooks.ts";

const many = (name: string, value: string, help: string): CommandOption => ({
  ...{ name, type: "string", value, multiple: true },
  help: `Of a run: ${help}`,
});

export const RUN_REDRIVE_OPTIONS: readonly CommandOption[] = [
  many("from", "STEP", "repeat this step and everything that it can reach."),
  many("skip", "STEP", "take this step as done, with the output of the --output after it."),
  many("output", "JSON", "the output of the step of --skip, in the same order. Default: null."),
  many("set", "[STEP:]PATH=VALUE", "a value in the input of a repeated step: data.url=…, or data.n:=JSON."),
  many("workload", "KEY=VALUE", "a value that is merged over the workload; KEY:=JSON for any value but text."),
  { name: "latest", type: "boolean", help: "Of a run: continue with the latest version of its path in the catalog." },
  { name: "definition", type: "string", value: "FILE", help: "Of a run: continue with the playbook of this file." },
];

/** Null if none is given. Everything is checked before anything is opened. */
export async function runRedriveOf(context: CommandContext, target: () => Target): Promise<RunRedriveOptions | null> {
  const { given } = context;
  if (!RUN_REDRIVE_OPTIONS.some(({ name }) => given.flag(name))) return null;
  const from = given.texts("from");
  const skip = skipped(given);
  const set = given.texts("set").map((text) => edited(text, from));
  const workload = Object.fromEntries(given.texts("workload").map((text) => pairIn("workload", text)));
  const file = given.text("definition");
  if (given.flag("latest") && file !== undefined) throw conflictError("--latest", "--definition");
  const playbook: PlaybookInput | undefined =
    file === undefined ? undefined : (await givenPlaybook(context, target(), file)).given;
  return {
    ...(from.length === 0 ? {} : { from }),
    ...(skip === null ? {} : { skip }),
    ...(set.length === 0 ? {} : { set }),
    ...(given.flag("workload") ? { workload } : {}),
    ...(given.flag("latest") ? { latest: true } : {}),
    ...(playbook === undefined ? {} : { playbook }),
  };
}

function skipped(given: Arguments): Record<string, unknown> | null {
  const [steps, outputs] = [given.texts("skip"), given.texts("output")];
  if (outputs.length > 0 && steps.length === 0) throw requirementError("--output", "--skip STEP");
  if (outputs.length > 0 && outputs.length !== steps.length) {
    throw usageError(
      `--output: pass one for each --skip, in the same order; got ${outputs.length} for ${steps.length}`,
    );
  }
  if (steps.length === 0) return null;
  return Object.fromEntries(
    steps.map((step, i) => {
      const output = outputs[i];
      return [step, output === undefined ? null : jsonOf(output, "--output")];
    }),
  );
}

/** Without a step, that of the only `--from`. */
function edited(text: string, from: readonly string[]): NonNullable<RunRedriveOptions["set"]>[number] {
  const [, named, rest = ""] = /^(?:([A-Za-z_][\w.-]*):)?([^:=].*)$/s.exec(text) ?? [];
  const [path, value] = pairIn("set", rest === "" ? text : rest);
  const step = named ?? (from.length === 1 ? from[0] : undefined);
  if (step === undefined) throw usageError(`--set: write STEP:${text}, or pass one --from STEP with it`);
  return { step, path, value };
}

function pairIn(option: "set" | "workload", text: string): [string, unknown] {
  const [, name = "", sign = "", value = ""] = /^([^=:]+)(:?=)(.*)$/s.exec(text) ?? [];
  if (name === "") throw valueError(`--${option}`, text, option === "set" ? "[STEP:]PATH=VALUE" : "KEY=VALUE");
  return [name, sign === ":=" ? jsonOf(value, `--${option} ${name}`) : value];
}
