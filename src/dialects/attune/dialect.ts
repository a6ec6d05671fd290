/** Turns an Attune action into a command with a snapshot of its entrypoint, so that a retry runs what was submitted,
 *  even if the pack has changed. Only that one file is stored with the job: an action that loads other files of its
 *  pack does not find them. */
import { isPlain } from "../../core/check.ts";
import { ConfigError, show } from "../../core/errors.ts";
import { checkExecInput, type ExecInput } from "../../core/input/exec-input.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { Dialect, ReadContext, Reading } from "../dialect.ts";
import { noteCap } from "../shared.ts";
import { ACTION, type AttuneAction, PACK_FILE, type Runtime, readAction, readPack } from "./action.ts";
import { bindParameters } from "./parameters.ts";
import { reasonOf, retryInForce, retryPolicy, retrySources } from "./retry.ts";
import { attuneView } from "./view.ts";

const PROGRAMS: Readonly<Record<Runtime, string>> = { python: "python3", shell: "sh", node: "node" };
/** As base64 it must leave space for parameters in a payload of 1 MiB. */
const MAX_ENTRY_BYTES = 700_000;

export const attune: Dialect = {
  name: "attune",
  called: "an Attune action",

  recognises(document) {
    if (!isPlain(document)) return false;
    const has = (...keys: string[]) => keys.some((key) => Object.hasOwn(document, key));
    return has("runtime", "runner_type") && has("entrypoint", "entry_point");
  },

  signs: {
    text: "runtime and entrypoint, or runner_type and entry_point",
    fields: ["runtime", "runner_type", "entry_point"],
    common: ["name", "ref", "parameters", "description"],
  },
  packFile: "pack.yaml",
  read: readAttune,
  isSource: ({ annotations }) => annotations?.[ACTION] !== undefined,
  view: attuneView,
  retryReason: reasonOf,
};

const FROM_SETTINGS = { timeout: "settings", expireIn: "settings" } as const;
const FROM_ACTION = { timeout: "action", expireIn: "action" } as const;

function readAttune(document: unknown, context: ReadContext): Reading {
  const manifest = context.yaml(PACK_FILE);
  const pack = manifest === null ? null : readPack(manifest, PACK_FILE);
  const action = readAction(document, pack);
  const { file, base64 } = snapshot(action, pack !== null, context);
  const input: ExecInput = {
    argv: [PROGRAMS[action.runtime], `inputs/${file}`],
    files: { [file]: base64 },
    input: bindParameters(action.parameters, context.parameters),
  };
  checkExecInput(input, "");
  const { settings } = context;
  const retry = retryInForce(action.retry, pack?.retry ?? {}, settings.attune.retry);
  const policy = retryPolicy(retry);
  resolvePolicy(policy, "retry");
  const spanMs = Math.round((action.timeoutSecs ?? settings.attune.ttlSecs) * 1_000);
  const options = {
    retry: policy,
    // One number limits both the wait for a worker and the run.
    ...{ timeout: spanMs, expireIn: spanMs },
    sources: {
      ...retrySources(retry, action.retry, pack?.retry ?? {}),
      ...(action.timeoutSecs === null ? FROM_SETTINGS : FROM_ACTION),
    },
    labels: { ...pack?.labels, ...action.labels, [`runtime/${action.runtime}`]: "yes" },
    ...(action.tags.length === 0 ? {} : { tags: action.tags }),
    annotations: {
      [ACTION]: action.ref,
      ...(pack === null ? {} : { "attune/pack": pack.ref }),
    },
  };
  const notes = [...(pack?.notes ?? []), ...action.notes];
  const { baseBackoffSecs, maxBackoffSecs } = retry;
  const delays = { initialMs: baseBackoffSecs * 1_000, capMs: maxBackoffSecs * 1_000 };
  const attempts = retry.enabled ? retry.maxRetries + 1 : 1;
  noteCap({ path: "retry", field: `base_backoff_secs is ${baseBackoffSecs}`, ...delays, attempts }, notes);
  return { jobs: [{ task: "exec", input, options }], notes };
}

/** The entrypoint's bytes. In Attune's document its path starts at the pack's folder, in newer files at the actions'
 *  folder: that one is tried first, then the other. */
function snapshot({ entry }: AttuneAction, inPack: boolean, context: ReadContext): { file: string; base64: string } {
  const { text, key } = entry;
  const refuse = (problem: string, allowed: string) => {
    return new ConfigError({ path: key, given: text, problem, allowed });
  };
  const inside = inPack ? "a file of the pack" : "a file beside the action, or below it";
  const bases = !inPack ? [[]] : key === "entrypoint" ? [[], [HERE]] : [[HERE], []];
  const [first = null, ...rest] = bases.map((base) => placeOf(text, base));
  if (first === null) throw refuse(`${show(text)} is outside the folder`, `${inside}, with a relative path`);
  const places = [first, ...rest].filter((place) => place !== null);
  for (const place of places) {
    const bytes = context.bytes(pathOf(place, inPack));
    if (bytes === null) continue;
    if (bytes.length > MAX_ENTRY_BYTES) {
      throw refuse(
        `${show(text)} has ${bytes.length} bytes`,
        `at most ${MAX_ENTRY_BYTES}, since it is stored with the job`,
      );
    }
    return { file: place.at(-1) as string, base64: Buffer.from(bytes).toString("base64") };
  }
  const packless = "; a path from the pack's folder requires a pack.yaml there, with a line such as ref: mypack";
  throw refuse(`${show(text)} does not exist`, inPack ? inside : inside + packless);
}

/** Means the action's folder, whose name is not known here; no path component can have this name. */
const HERE = ".";

/** The path components from the root, or null if they leave it. */
function placeOf(text: string, base: readonly string[]): string[] | null {
  if (/^[/\\]|\\|^[A-Za-z]:/.test(text)) return null;
  const steps = [...base];
  for (const step of text.split("/")) {
    if (step === "" || step === ".") continue;
    if (step !== "..") steps.push(step);
    else if (steps.pop() === undefined) return null;
  }
  return steps.length === 0 || steps.at(-1) === HERE ? null : steps;
}

/** Relative to the action's folder. */
function pathOf(place: readonly string[], inPack: boolean): string {
  if (place[0] === HERE) return place.slice(1).join("/");
  return `${inPack ? "../" : ""}${place.join("/")}`;
}
