/** What the routes of the server share, and how a route is written: a function from a call to its reply. */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { RouteName } from "../contract/routes.ts";
import type { Scope } from "../core/access.ts";
import type { DialectSettings } from "../core/dialect-settings.ts";
import type { SettingFact } from "../core/views.ts";
import type { Engine } from "../engine/engine.ts";
import type { Blobs } from "../store/blobs.ts";
import type { KeyRing } from "./key-ring.ts";
import type { ServerLimits } from "./limits.ts";
import type { TokenBook } from "./tokens.ts";

export type LogLevel = "error" | "warn" | "info" | "debug";
/** Fields are data, never part of the message: one record is one line, whatever they hold. */
export type ServerLog = (level: LogLevel, message: string, fields?: LogFields) => void;
export type LogFields = Readonly<Record<string | symbol, unknown>>;

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

export interface Call {
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
export type Handler = (call: Call) => Promise<unknown>;
export type Handlers = Partial<Readonly<Record<RouteName, Handler>>>;

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
