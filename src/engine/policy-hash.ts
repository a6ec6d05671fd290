/** The content hash of a policy, by which stores keep it once. */
import { createHash } from "node:crypto";
import type { Policy } from "../core/policy/policy.ts";

const hashes = new WeakMap<Policy, string>();

export function policyHash(policy: Policy): string {
  let hash = hashes.get(policy);
  if (hash === undefined) {
    hash = createHash("sha256").update(JSON.stringify(policy)).digest("base64url");
    hashes.set(policy, hash);
  }
  return hash;
}
