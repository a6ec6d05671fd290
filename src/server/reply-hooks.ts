/** Applies the reply budget to every reply: reserved before the handler runs, corrected when the reply is made, released when it has
 *  been sent. A large reply is sent in pieces, which shows whether the client is reading. */
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { RouteName } from "../contract/routes.ts";
import type { Principal } from "./context.ts";
import type { ReplyBudget, ReplyGrant, ReplyHolder } from "./reply-budget.ts";

declare module "fastify" {
  interface FastifyRequest {
    replyGrant: ReplyGrant | null;
  }
}

/** The piece size of a reply, and what is counted for a stream, which has no more than a piece or two in memory. */
const PIECE = 65_536;

/** The expected share of a reply in the budget: an eighth for lists, little for others. */
const LISTS: ReadonlySet<string> = new Set<RouteName>([
  ...(["listJobs", "listEvents", "listJobEvents", "explainJob"] as const),
  ...(["listAttempts", "listOutputs", "listWorkers", "listQueues"] as const),
]);
const LIST_PART = 1 / 8;
const OTHER_PART = 1 / 64;

export function addReplyBudget(app: FastifyInstance, budget: ReplyBudget): void {
  app.decorateRequest("replyGrant", null);
  app.addHook("preHandler", async (request, reply) => {
    const { served } = request.routeOptions.config;
    // Replies of open routes are tiny.
    if (served === undefined || request.who === null) return;
    const isRead = request.method === "GET";
    const share = served.share(request);
    const kind = `${share} ${isRead ? "read" : "write"}`;
    const granted = budget.enter(kind, holderOf(request, share), guessOf(request, share, budget.maxBytes));
    const grant = granted instanceof Promise ? await granted : granted;
    request.replyGrant = grant;
    if (reply.raw.closed) grant.release();
    else reply.raw.once("close", grant.release);
  });
  app.addHook("onSend", (request, reply, payload, done) => {
    const grant = request.replyGrant;
    if (typeof payload !== "string" || payload.length <= PIECE) {
      grant?.made(typeof payload === "string" ? payload.length : payload instanceof Readable ? PIECE : 0);
      done(null, payload);
      return;
    }
    // A buffer is outside of the heap, and is not copied to be sent.
    const bytes = Buffer.from(payload);
    grant?.made(bytes.length);
    reply.header("content-length", bytes.length);
    done(null, inPieces(bytes));
  });
}

function holderOf({ who, params }: FastifyRequest, share: string): ReplyHolder {
  const { id } = who as Principal;
  const { session } = (params ?? {}) as { readonly session?: string };
  return share === "waiting" && session !== undefined ? { who: id, session } : { who: id };
}

/** A request that waits is counted when it has its reply, which may take long. So is the reply to a write, which is about as large as
 *  its body. */
function guessOf({ method, routeOptions }: FastifyRequest, share: string, maxBytes: number): number {
  if (method !== "GET" || share === "held" || share === "waiting") return 0;
  return Math.floor(maxBytes * (LISTS.has(routeOptions.config.served?.name ?? "") ? LIST_PART : OTHER_PART));
}

function inPieces(bytes: Buffer): Readable {
  let at = 0;
  return new Readable({
    highWaterMark: PIECE,
    read() {
      this.push(at < bytes.length ? bytes.subarray(at, at + PIECE) : null);
      at += PIECE;
    },
  });
}
