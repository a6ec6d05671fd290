/** What the routes of the server share: the server's parts and limits, who calls, and the form of a route handler, a
 *  function from a call to its reply. */

import type { FastifyReply, FastifyRequest } from "fastify";
import type { RouteName } from "../contract/routes.ts";
import { LIMIT } from "../contract/wire.ts";
import type { Scope } from "../core/access.ts";
import type { SettingFact } from "../core/job/views.ts";
import { MAX_NAME } from "../core/names.ts";
import type { DialectSettings } from "../dialects/settings.ts";
import type { Engine } from "../engine/engine.ts";
import { storable } from "../lib/text.ts";
import type { Blobs } from "../store/blobs.ts";
import type { KeyRing } from "./key-ring.ts";
import type { ServerLog } from "./log.ts";
import type { TokenBook } from "./tokens.ts";

// How much of the server one token may take for itself, and how much one reply holds. Options, so that an operator
// may choose them and tests need no thousands.

export interface ServerLimits {
  /** Different retry policies of the jobs of one request. */
  readonly policiesPerRequest: number;
  /** Lanes (queue, kind and labels together) that one token may have made in a namespace, its jobs included. */
  readonly lanesPerToken: number;
  /** Lanes of a namespace in all. Claims look through those that hold jobs, and every process knows all of them. */
  readonly lanesPerNamespace: number;
  /** Live sessions of one token: each is looked at every second, and holds claims open. */
  readonly sessionsPerToken: number;
  /** Characters of a page of events, or of files that attempts left; what goes beyond is the last of the page. */
  readonly pageChars: number;
}

export const SERVER_LIMITS: ServerLimits = {
  policiesPerRequest: LIMIT.policies,
  // Half: whatever one token does, others can still name queues of their own.
  lanesPerToken: 5_000,
  lanesPerNamespace: 10_000,
  // One token for a fleet is usual.
  sessionsPerToken: 2_000,
  // A page of small things is far below it; of large ones, a reader holds little more than the largest of them.
  pageChars: 4_194_304,
};

// What the routes of the server share, and how a route is written: a function from a call to its reply.

export interface ServerParts {
  readonly engine: Engine;
  readonly blobs: Blobs;
  readonly tokens: TokenBook;
  /** With which it signs session keys and job tokens; the same for all servers of a store. */
  readonly keys: KeyRing;
  readonly log: ServerLog;
  readonly version: string;
  readonly storeKind: "sqlite" | "postgres";
  /** In force in this process, for `perdure config`; without secrets. */
  readonly settings: readonly SettingFact[];
  /** What holds for files of other systems where they say nothing. */
  readonly dialects: DialectSettings;
  /** Bytes that all files of one attempt may have together. */
  readonly outputLimit: number;
  readonly limits: ServerLimits;
  /** Aborted when the server is to stop: held requests are answered at once. */
  readonly stopping: AbortSignal;
}

/** Who calls, as far as the token says. */
export interface Principal {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Null: all. */
  readonly namespace: string | null;
  /** The attempt whose own token it is: it may do little, and sees only its kin. */
  readonly job?: { readonly id: string; readonly attempt: number };
  /** It showed no token, and so none of its own can end. */
  readonly isAnonymous?: true;
}

export interface RouteCall {
  readonly who: Principal;
  /** The one that this call is about: the token's own, or the one that the header names. */
  readonly namespace: string;
  readonly params: Readonly<Record<string, string>>;
  // Checked by the route's schema before the handler is called.
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  /** The body as it came, where it is JSON: inputs of jobs are kept byte for byte. */
  readonly text: string;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Aborted when the caller has gone, its token is revoked or over, or the server is to stop. */
  readonly signal: AbortSignal;
  /** Whether the caller's token has ended since the signal was asked for. What was begun for it is to be undone where it can
   *  be, and the server answers 401 in place of what the handler returns. */
  readonly isTokenOver: boolean;
}

/** A value is sent as JSON; a `JsonText` as it is; undefined with 204; a handler that has hijacked the reply returns HIJACKED. */
export type RouteHandler = (call: RouteCall) => Promise<unknown>;
export type RouteHandlers = Partial<Readonly<Record<RouteName, RouteHandler>>>;

/** JSON that is already text: so payloads go out byte for byte as they came in. */
export class JsonText {
  readonly text: string;
  /** Instead of the route's own status. */
  readonly status: number | undefined;

  constructor(text: string, status?: number) {
    this.text = text;
    this.status = status;
  }
}

/** Bytes to be downloaded. Never shown by a browser: whoever made them is a stranger. */
export class Download {
  readonly source: AsyncIterable<Uint8Array>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(source: AsyncIterable<Uint8Array>, headers: Readonly<Record<string, string>> = {}) {
    this.source = source;
    this.headers = headers;
  }
}

export const HIJACKED = Symbol("the handler answers by itself");

// Who gives an order, for its event: the name of the token and its id, by which it can be revoked. Never the token.

export function operator({ name, id, job }: Pick<Principal, "name" | "id" | "job">): string {
  // A job's own token is named as the job is where the engine acts for it.
  return storable(job === undefined ? `token:${name} (${id})` : `job:${id}`, MAX_NAME);
}
