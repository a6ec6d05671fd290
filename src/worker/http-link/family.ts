/** Children of an attempt over HTTP, in the name of the session that holds it. Calls are repeated until they are answered: a
 *  child always has a key, so that it is submitted once, however often it is sent.
 *
 *  A server that has been given another store, or a session that is over, is an error: then the attempt is lost anyway. */
import { toRequest } from "../../contract/job-request.ts";
import type { RouteName } from "../../contract/routes.ts";
import { HEADER } from "../../contract/wire.ts";
import type { Child, ChildState, Family, HeldParent } from "../../core/child.ts";
import { PerdureError } from "../../core/errors.ts";
import { type LinkParts, untilAnswered } from "./link-parts.ts";
import { mayPass, WireError } from "./wire-error.ts";

type SessionOf = (id: string) => { readonly key: string; readonly isCurrent: boolean } | null;

/** Payloads and results of so many children come in one reply, at most a few megabytes each. */
const LOOKED_AT = 100;

export function httpFamily(parts: LinkParts, sessionOf: SessionOf): Family {
  async function ask<T>(route: RouteName, parent: HeldParent, body: string): Promise<T> {
    const { jobId, session, token } = parent;
    const key = sessionOf(session)?.key;
    if (key === undefined) throw new PerdureError("lease_lost", `session ${session} is over, and its attempts with it`);
    const headers = { [HEADER.sessionKey]: key, [HEADER.lease]: token };
    const params = { session, id: jobId };
    const call = () => parts.calls.json<T>(route, { params, headers, body, signal: parts.closed });
    const reply = await untilAnswered(parts, call, {
      signal: parts.closed,
      isWorthWaiting: (error) => mayPass(error) && !(isForbidden(error) && sessionOf(session)?.isCurrent !== true),
    });
    parts.teller.well();
    return reply.body;
  }

  async function look(parent: HeldParent, ids: readonly string[]): Promise<ChildState[]> {
    try {
      const { children } = await ask<{ children: ChildState[] }>("lookChildren", parent, JSON.stringify({ ids }));
      return children;
    } catch (error) {
      if (!isTooLarge(error) || ids.length < 2) throw error;
      const half = ids.length >> 1;
      return [...(await look(parent, ids.slice(0, half))), ...(await look(parent, ids.slice(half)))];
    }
  }

  return {
    async submit(parent, entry) {
      const { id, created } = await ask<Child<unknown>>("submitChild", parent, toRequest(entry));
      return { id, created };
    },

    async look(parent, ids) {
      const found: ChildState[] = [];
      for (let i = 0; i < ids.length; i += LOOKED_AT) {
        found.push(...(await look(parent, ids.slice(i, i + LOOKED_AT))));
      }
      return found;
    },

    async list(parent) {
      return (await ask<{ children: ChildState[] }>("lookChildren", parent, "{}")).children;
    },
  };
}

function isForbidden(error: unknown): boolean {
  return error instanceof WireError && error.code === "forbidden";
}

/** Of the reply. */
function isTooLarge(error: unknown): boolean {
  return error instanceof WireError && error.code === "body_too_large" && error.status === null;
}
