/** A worker's link to an engine in its own process. */
import type { SettleAnswer } from "../core/work.ts";
import type { Engine } from "../engine/engine.ts";
import type { EngineLink } from "../worker/engine-link.ts";

export function localLink(engine: Engine): EngineLink {
  return {
    openSession: async (request) => ({ session: await engine.openSession(request), leaseMs: engine.leaseMs }),
    closeSession: (session) => engine.closeSession(session),
    claim: (session, options) => engine.claim(session, options),
    renew: (session, held) => engine.renew(session, held),
    report: async (report) => (await engine.report([report]))[0] as SettleAnswer,
    onCancel: (session, call) => engine.onCancel(session, call),
  };
}
