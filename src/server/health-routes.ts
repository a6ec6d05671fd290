/** Liveness and readiness probes. They return only yes or no, so they require no token. */
import { sleep } from "../lib/clock.ts";
import { JsonText, type ServerParts } from "./context.ts";
import type { ServedRoute } from "./served-route.ts";

const STORE_WAIT_MS = 2_000;

export function healthRoutes({ engine, keys, stopping }: ServerParts): ServedRoute[] {
  const open: Omit<ServedRoute, "name" | "path" | "handle"> = {
    ...{ method: "GET", access: { scope: null, open: true }, accepts: [], schema: {}, status: 200 },
    share: () => "operator",
  };

  let checking: Promise<boolean> | null = null;

  /** Concurrent probes share one query to the store, since anyone may send them. */
  function isReady(): Promise<boolean> {
    // Without the secret in use it does not accept session keys of other servers.
    if (stopping.aborted || keys.missing !== null) return Promise.resolve(false);
    checking ??= checkStore().finally(() => {
      checking = null;
    });
    return checking;
  }

  async function checkStore(): Promise<boolean> {
    // A faulty store may still answer reads, but not accept writes.
    if ((engine.store.fault?.() ?? null) !== null) return false;
    const answers = engine.store.settings.get("ready").then(
      () => true,
      () => false,
    );
    const late = sleep(engine.clock, STORE_WAIT_MS, { background: true }).then(() => false);
    return Promise.race([answers, late]);
  }

  return [
    { ...open, name: "health", path: "/healthz", handle: async () => ({ ok: true }) },
    {
      ...{ ...open, name: "readiness", path: "/readyz" },
      async handle() {
        const ok = await isReady();
        return new JsonText(JSON.stringify({ ok }), ok ? 200 : 503);
      },
    },
  ];
}
