/** A step of NoETL that makes a request: `url`, `method`, `headers`, `params` for the address, and a body, which it calls
 *  `data`, `payload` or `body`. Nothing of it is shown in messages: there may be secrets in it. */
import { asList, asObject, fieldPath } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import { checkHttpInput, type HttpInput } from "../../core/http-input.ts";
import { type Given, refuseTemplates, type Step, timeoutMs } from "./step.ts";

export const BODIES = ["data", "payload", "body"] as const;
const MAX_PARAMS = 100;
const MAX_TIMEOUT_MS = 3_600_000; // of any request

export function noetlRequest(step: Step): HttpInput {
  const { fields, path } = step;
  const { url, method, headers } = fields;
  for (const name of ["url", "method", "headers", "params", ...BODIES]) {
    refuseTemplates(fields[name], fieldPath(path, name));
  }
  const timeout = timeoutMs(step, MAX_TIMEOUT_MS);
  const bodies = BODIES.filter((name) => fields[name] !== undefined);
  const [named, second] = bodies;
  if (second !== undefined) {
    const allowed = `one of ${BODIES.join(", ")}`;
    throw new ConfigError({ path: fieldPath(path, second), given: second, allowed, problem: "a second body" });
  }
  if (named !== undefined && /^(get|head)$/i.test(String(method ?? "GET"))) {
    const allowed = "a method such as POST beside it; what belongs into the address is called params";
    throw new ConfigError({ path: fieldPath(path, named), given: named, allowed, problem: "a body with GET" });
  }
  const input = {
    url: fields.params === undefined ? url : withParams(url, fields.params, fieldPath(path, "params")),
    ...(method === undefined ? {} : { method }),
    ...(headers === undefined ? {} : { headers }),
    ...(named === undefined ? {} : { body: fields[named] }),
    ...(timeout === null ? {} : { timeout }),
  } as HttpInput;
  checkHttpInput(input, path);
  return input;
}

function withParams(url: unknown, value: unknown, path: string): unknown {
  const params = asObject(value, path) as Given;
  const pairs = Object.entries(params).flatMap(([name, given]): [string, string][] => {
    const at = fieldPath(path, name);
    if (!Array.isArray(given)) return [[name, paramText(given, at)]];
    return asList(given, at, paramText, MAX_PARAMS).map((text) => [name, text]);
  });
  if (pairs.length > MAX_PARAMS) {
    throw new ConfigError({ path, given: value, allowed: `at most ${MAX_PARAMS}`, problem: `got ${pairs.length}` });
  }
  if (typeof url !== "string" || !URL.canParse(url)) return url; // refused as an address, with better words
  const address = new URL(url);
  const added = new URLSearchParams(pairs).toString();
  address.search = [address.search.slice(1), added].filter((part) => part !== "").join("&");
  return address.href;
}

function paramText(value: unknown, path: string): string {
  if (typeof value === "string" || typeof value === "boolean" || Number.isFinite(value)) return String(value);
  throw new ConfigError({ path, given: value, allowed: "text, a number, true or false, or a list of these" });
}
