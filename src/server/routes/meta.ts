/** The server about itself: its version, its health, who asks; and pruning by hand. */
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
        throw new PerdureError("forbidden", "settings are of all namespaces, and this token is for one");
      }
      return { host: hostname(), pid: process.pid, startedAt, settings };
    },
    async getStatus({ who }) {
      const asked = clock.monotonic();
      const fault = store.fault?.() ?? null;
      // Its words may name files and hosts: they are for whoever runs the server.
      const isOperator = who.scopes.includes("admin") && who.namespace === null;
      const storeFault = fault === null || isOperator ? (fault?.cause ?? null) : FAULTS[fault.kind];
      const secretFault = keys.fault === null || isOperator ? keys.fault : SECRET_FAULT;
      const reading = store.settings.get("status"); // any short question will do
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
        storeMs: isRead ? Math.round((now - asked) * 10) / 10 : null,
      };
    },
    async prune({ who }) {
      if (who.namespace !== null) {
        throw new PerdureError("forbidden", "pruning is for all namespaces, and this token is for one");
      }
      return { jobs: await engine.prune(operator(who)) };
    },
  };
}

/** Calls that the store refused, as they are also logged: counted, until it takes all again. */
function troubleShown(trouble: StoreState["trouble"], now: number, isOperator: boolean) {
  if (trouble === null) return null;
  const { kind, cause, since, counts } = trouble;
  const { requests = 0, rounds = 0 } = counts;
  return { kind, forMs: Math.round(now - since), requests, rounds, ...(isOperator ? { cause } : {}) };
}

const SECRET_FAULT = "the file of the signing secrets cannot be read";
const FAULTS = { disk: "the disk or the file of the database failed", damaged: "the database is damaged" } as const;
