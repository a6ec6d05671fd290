/** For whatever watches over the server: is it alive, and can it work. They say yes or no and nothing else, so they need
 *  no token. */
import { sleep } from "../lib/clock.ts";
import { JsonText, type ServerParts } from "./context.ts";
import type { ServedRoute } from "./served-route.ts";

const STORE_WAIT_MS = 2_000;

export function healthRoutes({ engine, keys, stopping }: ServerParts): ServedRoute[] {
  const open: Omit<ServedRoute, "name" | "path" | "handle"> = {
    ...{ method: "GET", access: { scope: null, open: true }, accepts: [], schema: {}, status: 200 },
    share: () => "operator",
  };

  let asking: Promise<boolean> | null = null;

  /** Anybody may ask, so all who ask at a time share one question to the store. */
  function isReady(): Promise<boolean> {
    // Without the secret in use it can serve no worker that another server let in.
    if (stopping.aborted || keys.missing !== null) return Promise.resolve(false);
    asking ??= askStore().finally(() => {
      asking = null;
    });
    return asking;
  }

  async function askStore(): Promise<boolean> {
    // It may still answer what it is asked, and take nothing.
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
