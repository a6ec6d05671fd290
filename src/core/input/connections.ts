/** Named connections to databases. A worker has an address for each name and offers a label for it, which jobs for the connection
 *  require. The addresses contain passwords, so they stay in the worker's process, and no message shows one. */
import { asObject, fieldPath } from "../check.ts";
import { ConfigError } from "../errors.ts";

/** The prefix of reserved labels. */
export const CONNECTION_PREFIX = "connection/";

const NAME = /^[a-z][a-z0-9_]{0,62}$/;
/** Of one worker: each is a label of its session. */
const MAX_CONNECTIONS = 100;
export const CONNECTION_NAME = "1 to 63 letters, digits, - and _, the first a letter";
export const CONNECTION_ADDRESS = "an address such as postgres://user:password@host/database";

/** In its normal form: case, and `-` or `_`, make no difference. Null for what is not a name. */
export function normalName(value: unknown): string | null {
  const name = typeof value === "string" ? value.toLowerCase().replaceAll("-", "_") : "";
  return NAME.test(name) ? name : null;
}

export function isConnectionAddress(value: unknown): value is string {
  return typeof value === "string" && /^postgres(ql)?:\/\//i.test(value) && URL.canParse(value);
}

/** The name in its normal form. */
export function connectionName(value: unknown, path: string): string {
  const name = normalName(value);
  if (name !== null) return name;
  // An address in place of a name is a likely mistake.
  const isAddress = typeof value === "string" && value.includes(":");
  const shown = isAddress ? { shown: "an address, which is not shown" } : {};
  const allowed = `the name of a connection: ${CONNECTION_NAME}`;
  throw new ConfigError({ path, given: isAddress ? "an address" : value, allowed, ...shown });
}

/** Addresses by name, from the options of a worker: `{ shop: "postgres://…" }`. */
export function checkConnections(value: unknown, path: string): ReadonlyMap<string, string> {
  const connections = new Map<string, string>();
  const entries = Object.entries(asObject(value, path));
  if (entries.length > MAX_CONNECTIONS) {
    throw new ConfigError({ path, given: entries.length, allowed: `at most ${MAX_CONNECTIONS} connections` });
  }
  for (const [given, address] of entries) {
    const name = connectionName(given, path);
    const at = fieldPath(path, given);
    if (connections.has(name)) {
      throw new ConfigError({
        path: at,
        given,
        problem: `${name} exists already; case, and - or _, make no difference`,
      });
    }
    if (!isConnectionAddress(address)) {
      const shown = "something else, which is not shown";
      throw new ConfigError({ path: at, given: shown, allowed: CONNECTION_ADDRESS, shown });
    }
    connections.set(name, address);
  }
  return connections;
}

/** The label that a job for this connection requires, and that a worker with it offers. */
export function connectionLabels(name: string): Record<string, string> {
  return { [`${CONNECTION_PREFIX}${name}`]: "yes" };
}
