/** A cache of resolved policies by their JSON text: resolving a policy costs more than all other work on a submit. Bounded by bytes,
 *  since callers choose the policies. */
import { ConfigError, PerdureError } from "../core/errors.ts";
import type { Policy, PolicyInput } from "../core/policy/policy.ts";
import { MAX_POLICY_BYTES, resolvePolicy } from "../core/policy/resolve-policy.ts";
import { ByteCache } from "../lib/byte-cache.ts";

/** Memory of all cached policies. */
const CACHE_BYTES = 8 * 1024 * 1024;
/** Objects take about four times the bytes of their JSON. */
const OBJECT_FACTOR = 4;
/** A policy in full may be shorter than its input, but not by more than this factor. Longer inputs are refused unread. */
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

/** The policies of one request, with a limit on the number of different ones. */
export class RequestPolicies {
  readonly #cache: PolicyCache;
  readonly #limit: number;
  /** Null: counted, but the text does not identify it. */
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
      const message = `a request may have at most ${this.#limit} different retry policies; send this job in another request`;
      throw new PerdureError("too_many_requests", message, { path: "retry" });
    }
    const policy = this.#cache.ofText(text, retry);
    this.#byText.set(text, isExact(text, retry) ? policy : null);
    return policy;
  }
}

/** Whether the text identifies this policy. Not if it has a number like 1e400, which is Infinity when parsed and null as text. */
function isExact(text: string, retry: unknown): boolean {
  if (!text.includes("null")) return true;
  let isKept = true;
  JSON.stringify(retry, (_, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value)) isKept = false;
    return value;
  });
  return isKept;
}
