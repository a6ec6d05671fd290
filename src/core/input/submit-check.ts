/** Checks of the input of a submit and of the changes of a redrive. A client makes them before it calls a server, so this
 *  does not load the parser of policies. The options of a submit are in `task/submit-options.ts`. */
import { asInteger, asNumber, asObject } from "../check.ts";
import { type Amount, MAX_BUDGET } from "../decision/budget.ts";
import { ConfigError, PerdureError, show } from "../errors.ts";
import { type StandardSchema, validated } from "../task/schema.ts";
import type { AnyTask } from "../task/task.ts";
import { NO_INPUT } from "../worker-protocol.ts";

/** An input as the JSON text that is stored. */
export function toPayload(input: unknown): string {
  if (input === undefined) return NO_INPUT;
  let text: string | undefined;
  try {
    text = JSON.stringify(input);
  } catch (cause) {
    const message = `payload: must be JSON: ${(cause instanceof Error ? cause.message : show(cause)).split("\n")[0]}`;
    throw new PerdureError("invalid_payload", message, { path: "payload", cause });
  }
  if (text === undefined) {
    throw new PerdureError("invalid_payload", `payload: must be JSON; got a ${typeof input}`, { path: "payload" });
  }
  return text;
}

/** Checks an input, as it will be read from the store, by the schema of its task. Null without a schema. */
export function checkInput(task: AnyTask | string, input: unknown): Promise<void> | null {
  const schema = typeof task === "string" ? undefined : task?.options?.schema;
  return schema === undefined ? null : refuseInvalid((task as AnyTask).kind, schema, input);
}

async function refuseInvalid(kind: string, schema: StandardSchema, input: unknown): Promise<void> {
  const payload = toPayload(input);
  const found = await validated(schema, payload === NO_INPUT ? undefined : JSON.parse(payload));
  if (!("problem" in found)) return;
  throw new PerdureError("invalid_payload", `payload: is not an input of "${kind}": ${found.problem}`, {
    path: "payload",
  });
}

/** The same for many: the errors of those that are refused, by index. */
export async function checkInputs(
  entries: readonly { readonly task: AnyTask | string; readonly input?: unknown }[],
): Promise<ReadonlyMap<number, PerdureError>> {
  const refused = new Map<number, PerdureError>();
  for (const [i, entry] of entries.entries()) {
    try {
      const checking = checkInput(entry?.task, entry?.input);
      if (checking !== null) await checking;
    } catch (error) {
      if (!(error instanceof PerdureError)) throw error;
      refused.set(i, error);
    }
  }
  return refused;
}

export const REDRIVE_KEYS = ["retry", "timeout", "priority", "expireIn", "deadline", "budget"];

/** Tokens, money or both, above 0. */
export function asGrant(value: unknown, path: string): Partial<Amount> {
  const { tokens, costUsd } = asObject(value, path, ["tokens", "costUsd"]);
  if (tokens === undefined && costUsd === undefined) {
    throw new ConfigError({ path, given: value, allowed: "an object with tokens, costUsd or both" });
  }
  const asCost = (given: unknown, at: string) => {
    const cost = asNumber(given, at, { min: 0, max: MAX_BUDGET.costUsd });
    if (cost > 0) return cost;
    throw new ConfigError({ path: at, given, allowed: "a number above 0" });
  };
  return {
    ...(tokens === undefined
      ? {}
      : { tokens: asInteger(tokens, `${path}.tokens`, { min: 1, max: MAX_BUDGET.tokens }) }),
    ...(costUsd === undefined ? {} : { costUsd: asCost(costUsd, `${path}.costUsd`) }),
  };
}
