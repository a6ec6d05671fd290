/** The server itself: version, status, settings, the identity of the caller; and pruning on request. */
import { hostname } from "node:os";
import { API_VERSION } from "../../contract/wire.ts";
import { PerdureError } from "../../core/errors.ts";
import type { StoreState } from "../../engine/store-state.ts";
import { operator, type RouteHandlers, type ServerParts } from "../context.ts";

export function metaRoutes({ engine, keys, version, storeKind, dialects, settings }: ServerParts): RouteHandlers {
  const { clock, store } = engine;
  const startedAt = clock.now();
  const started = clock.monotonic();
  return {
    async getVersion() {
      return { name: "perdure", version, api: API_VERSION };
    },
    async getIdentity({ who }) {
      const { id, name, scopes, namespace } = who;
      return { id, name, scopes, namespace };
    },
    getDialects: async () => dialects,
    async getSettings({ who }) {
      if (who.namespace !== null) {
        throw new PerdureError("forbidden", "settings apply to all namespaces, and this token is bound to one");
      }
      return { host: hostname(), pid: process.pid, startedAt, settings };
    },
    async getStatus({ who }) {
      const readFrom = clock.monotonic();
      const fault = store.fault?.() ?? null;
      // The details may contain names of files and hosts: they are for operators only.
      const isOperator = who.scopes.includes("admin") && who.namespace === null;
      const storeFault = fault === null || isOperator ? (fault?.cause ?? null) : FAULTS[fault.kind];
      const secretFault = keys.fault === null || isOperator ? keys.fault : SECRET_FAULT;
      const reading = store.settings.get("status"); // any short query, for its duration
      const isRead = await reading.then(
        () => true,
        (error: unknown) => {
          if (fault === null) throw error;
          return false;
        },
      );
      const now = clock.monotonic();
      return {
        ...{ now: clock.now(), store: storeKind, startedAt, storeFault, secretFault },
        storeTrouble: troubleShown(engine.storeState.trouble, now, isOperator),
        uptimeMs: Math.round(now - started),
        storeMs: isRead ? Math.round((now - readFrom) * 10) / 10 : null,
      };
    },
    async prune({ who }) {
      if (who.namespace !== null) {
        throw new PerdureError("forbidden", "pruning applies to all namespaces, and this token is bound to one");
      }
      return { jobs: await engine.prune(operator(who)) };
    },
  };
}

/** The present outage of the store, as it is also logged, with the calls that failed so far. */
function troubleShown(trouble: StoreState["trouble"], now: number, isOperator: boolean) {
  if (trouble === null) return null;
  const { kind, cause, since, counts } = trouble;
  const { requests = 0, rounds = 0 } = counts;
  return { kind, forMs: Math.round(now - since), requests, rounds, ...(isOperator ? { cause } : {}) };
}

const SECRET_FAULT = "the file of the signing secrets cannot be read";
const FAULTS = { disk: "the disk or the file of the database failed", damaged: "the database is damaged" } as const;
