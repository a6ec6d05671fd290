/** Policies that came lately, by their JSON text: each request is parsed anew, and resolving a policy costs more than all
 *  else that is done to a job here. Bounded by bytes: strangers choose them. */
import { ConfigError, PerdureError } from "../core/errors.ts";
import type { Policy, PolicyInput } from "../core/policy/policy.ts";
import { MAX_POLICY_BYTES, resolvePolicy } from "../core/policy/resolve-policy.ts";
import { ByteCache } from "../lib/byte-cache.ts";

/** Of all policies that are kept, as they lie in memory. */
const CACHE_BYTES = 8 * 1024 * 1024;
/** Objects take about four times the bytes of their JSON. */
const OBJECT_FACTOR = 4;
/** What is written in full may be shorter than what was given, but not by more than this. Longer ones are not looked into. */
const MAX_TEXT = 4 * MAX_POLICY_BYTES;

export class PolicyCache {
  readonly #byText: ByteCache<string, Policy>;

  constructor(maxBytes = CACHE_BYTES) {
    this.#byText = new ByteCache(maxBytes);
  }

  of(retry: unknown): Policy {
    return this.ofText(JSON.stringify(retry), retry);
  }

  ofText(text: string, retry: unknown): Policy {
    if (text.length > MAX_TEXT) {
      const shown = `${text.length} characters`;
      const allowed = `a policy of at most ${MAX_POLICY_BYTES} bytes as JSON`;
      throw new ConfigError({ path: "retry", given: null, allowed, shown });
    }
    if (!isExact(text, retry)) return resolvePolicy(retry as PolicyInput, "retry");
    let policy = this.#byText.get(text);
    if (policy === undefined) {
      policy = resolvePolicy(retry as PolicyInput, "retry");
      this.#byText.set(text, policy, 2 * text.length + OBJECT_FACTOR * JSON.stringify(policy).length);
    }
    return policy;
  }
}

/** The policies of one request, of which there may be so many different ones. */
export class RequestPolicies {
  readonly #cache: PolicyCache;
  readonly #limit: number;
  /** Null: it counts, but the text does not name it. */
  readonly #byText = new Map<string, Policy | null>();

  constructor(cache: PolicyCache, limit: number) {
    this.#cache = cache;
    this.#limit = limit;
  }

  of(retry: unknown): Policy {
    const text = JSON.stringify(retry);
    const known = this.#byText.get(text);
    if (known != null && isExact(text, retry)) return known;
    if (known === undefined && this.#byText.size >= this.#limit) {
      const message = `a request may hold ${this.#limit} different retry policies, and this job has one more; send it in another request`;
      throw new PerdureError("too_many_requests", message, { path: "retry" });
    }
    const policy = this.#cache.ofText(text, retry);
    this.#byText.set(text, isExact(text, retry) ? policy : null);
    return policy;
  }
}

/** Whether the text names this policy and no other: 1e400 is Infinity once parsed, and null as text again. */
function isExact(text: string, retry: unknown): boolean {
  if (!text.includes("null")) return true;
  let isKept = true;
  JSON.stringify(retry, (_, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value)) isKept = false;
    return value;
  });
  return isKept;
}
