/** Policies that came lately, by their JSON text: each request is parsed anew, and resolving a policy costs more than all
 *  else that is done to a job here. Those that came longest ago go first. */
import type { Policy, PolicyInput } from "../core/policy.ts";
import { resolvePolicy } from "../core/resolve-policy.ts";

const MAX_POLICIES = 500;
/** Longer ones are resolved each time: strangers choose them, and they are kept. */
const MAX_TEXT = 4_096;

export class PolicyCache {
  readonly #byText = new Map<string, Policy>();

  of(retry: unknown): Policy {
    const text = JSON.stringify(retry);
    // 1e400 is Infinity once parsed, and null as text again.
    if (text.length > MAX_TEXT || text.includes("null")) return resolvePolicy(retry as PolicyInput, "retry");
    let policy = this.#byText.get(text);
    if (policy === undefined) {
      policy = resolvePolicy(retry as PolicyInput, "retry");
      const [oldest] = this.#byText.keys();
      if (this.#byText.size >= MAX_POLICIES && oldest !== undefined) this.#byText.delete(oldest);
    } else this.#byText.delete(text);
    this.#byText.set(text, policy);
    return policy;
  }
}
