/** A worker's link to an engine in its own process. */
import type { Report, SettleAnswer } from "../core/work.ts";
import type { Engine } from "../engine/engine.ts";
import { inNextTick } from "../lib/turn.ts";
import type { EngineLink } from "../worker/engine-link.ts";
import { toItem } from "./to-item.ts";

/** Commands get no access: without a server there is nobody who would hold them to their own children. */
export function localLink(engine: Engine): EngineLink {
  return {
    family: {
      submit: (parent, entry) => engine.submitChild(parent, toItem(entry, parent.namespace)),
      look: (parent, ids) => engine.awaitedChildren(parent, ids),
      list: ({ jobId }) => engine.children(jobId),
    },

    claimsAtOnce: engine.store.claimsAtOnce,
    openSession: async (request) => ({ session: await engine.openSession(request), leaseMs: engine.leaseMs }),
    closeSession: (session) => engine.closeSession(session),
    claim: (session, options) => engine.claim(session, options),
    renew: (session, held, health) => engine.renew(session, held, health),
    report: reportTogether(engine),
    onCancel: (session, call) => engine.onCancel(session, call),
  };
}

interface Waiting {
  readonly report: Report;
  readonly resolve: (answer: SettleAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** Handlers that end in the same turn of the event loop are reported in one call: it costs little more than one. */
function reportTogether(engine: Engine): EngineLink["report"] {
  let waiting: Waiting[] = [];

  async function send(): Promise<void> {
    const calls = waiting;
    waiting = [];
    try {
      const answers = await engine.report(calls.map((call) => call.report));
      for (const [i, call] of calls.entries()) call.resolve(answers[i] as SettleAnswer);
    } catch (error) {
      for (const call of calls) call.reject(error);
    }
  }

  return (report) =>
    new Promise((resolve, reject) => {
      if (waiting.push({ report, resolve, reject }) === 1) inNextTick(() => void send());
    });
}
