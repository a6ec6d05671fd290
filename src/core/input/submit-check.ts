/** Checks of a submit's input and of a redrive that need no policy. A client makes them before it asks a server, without
 *  loading the parser. The options of a submit are in `task/submit-options.ts`. */
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
    const message = `payload: not JSON: ${(cause instanceof Error ? cause.message : show(cause)).split("\n")[0]}`;
    throw new PerdureError("invalid_payload", message, { path: "payload", cause });
  }
  if (text === undefined) {
    throw new PerdureError("invalid_payload", `payload: a ${typeof input} is not JSON`, { path: "payload" });
  }
  return text;
}

/** Checks an input by the schema of its task, as it will be when it was stored. Null without a schema: nothing to wait for. */
export function checkInput(task: AnyTask | string, input: unknown): Promise<void> | null {
  const schema = typeof task === "string" ? undefined : task?.options?.schema;
  return schema === undefined ? null : refuseInvalid((task as AnyTask).kind, schema, input);
}

async function refuseInvalid(kind: string, schema: StandardSchema, input: unknown): Promise<void> {
  const payload = toPayload(input);
  const found = await validated(schema, payload === NO_INPUT ? undefined : JSON.parse(payload));
  if (!("problem" in found)) return;
  throw new PerdureError("invalid_payload", `payload: not an input of "${kind}": ${found.problem}`, {
    path: "payload",
  });
}

/** The same for many: the errors of those that are refused, by their place. */
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

// What can be checked of a redrive's changes without a policy: a client checks as much before it asks a server, and
// loads no parser for it.

export const REDRIVE_KEYS = ["retry", "timeout", "priority", "expireIn", "deadline", "budget"];

/** At least one of tokens and money, and more than nothing. */
export function asGrant(value: unknown, path: string): Partial<Amount> {
  const { tokens, costUsd } = asObject(value, path, ["tokens", "costUsd"]);
  if (tokens === undefined && costUsd === undefined) {
    throw new ConfigError({ path, given: value, allowed: "tokens, costUsd, or both" });
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
