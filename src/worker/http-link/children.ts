/** Children of an attempt over HTTP, in the name of the session that holds it. Calls are repeated until they are answered; a
 *  child always has a key, so repeating its submit creates it once.
 *
 *  If the session has ended, or the server has another store by now, calls fail: the attempt is lost anyway. */
import { toRequest } from "../../contract/job-request.ts";
import type { RouteName } from "../../contract/routes.ts";
import { HEADER } from "../../contract/wire.ts";
import { PerdureError } from "../../core/errors.ts";
import type { Child, ChildState, Family, HeldParent } from "../../core/task/task.ts";
import { isForbidden, isReplyTooLarge, mayPass } from "../../wire/repeat.ts";
import { type LinkParts, untilAnswered } from "./link-parts.ts";

type ChildSessionLookup = (id: string) => { readonly key: string; readonly isCurrent: boolean } | null;

/** Children requested per call. A reply has fewer if their payloads and results are large. */
const CHILDREN_PER_CALL = 100;

interface ChildrenReply {
  readonly children: ChildState[];
  readonly next?: string | null;
}

export function httpChildren(parts: LinkParts, sessionOf: ChildSessionLookup): Family {
  async function request<T>(route: RouteName, parent: HeldParent, body: string): Promise<T> {
    const { jobId, session, token } = parent;
    const key = sessionOf(session)?.key;
    if (key === undefined) throw new PerdureError("lease_lost", `session ${session} has ended; its attempts are lost`);
    const headers = { [HEADER.sessionKey]: key, [HEADER.lease]: token };
    const params = { session, id: jobId };
    const call = () => parts.calls.json<T>(route, { params, headers, body, signal: parts.closed });
    const reply = await untilAnswered(parts, call, {
      signal: parts.closed,
      shouldRetry: (error) => mayPass(error) && !(isForbidden(error) && sessionOf(session)?.isCurrent !== true),
    });
    parts.outage.answered();
    return reply;
  }

  /** The first children of `ids`, as many as one reply has. */
  async function lookSome(parent: HeldParent, ids: readonly string[]): Promise<ChildState[]> {
    try {
      const { children } = await request<ChildrenReply>("lookChildren", parent, JSON.stringify({ ids }));
      if (children.length > 0) return children;
    } catch (error) {
      if (!isReplyTooLarge(error) || ids.length < 2) throw error;
      return lookSome(parent, ids.slice(0, ids.length >> 1));
    }
    throw new PerdureError("internal", `the server's reply lacks child ${ids[0]}`);
  }

  return {
    async submit(parent, entry) {
      const { id, created } = await request<Child<unknown>>("submitChild", parent, toRequest(entry));
      return { id, created };
    },

    async look(parent, ids) {
      const found: ChildState[] = [];
      while (found.length < ids.length) {
        found.push(...(await lookSome(parent, ids.slice(found.length, found.length + CHILDREN_PER_CALL))));
      }
      return found;
    },

    async list(parent) {
      const found: ChildState[] = [];
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page: ChildrenReply = await request<ChildrenReply>("lookChildren", parent, JSON.stringify({ cursor }));
        found.push(...page.children);
        cursor = page.next ?? null;
      }
      return found;
    },
  };
}
