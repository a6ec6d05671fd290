/** Submits of OPAL's clients, also without a token where that is allowed. */

import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import { ConfigError, PerdureError } from "../../../core/errors.ts";
import { exec } from "../../../core/input/builtin.ts";
import { resolvePolicy } from "../../../core/policy/resolve-policy.ts";
import { checkBuiltinKind } from "../../../engine/check-builtin.ts";
import { LIMITS } from "../../../engine/limits.ts";
import type { SubmitAnswer, SubmitItem } from "../../../engine/submit-item.ts";
import { isOver } from "../../../lib/text.ts";
import {
  JsonText,
  type Principal,
  type RouteCall,
  type RouteHandler,
  type ServerParts,
} from "../../../server/context.ts";
import { isLoopback } from "../../../server/request-guard.ts";
import { principal } from "../../../server/routes/submit.ts";
import { opalExec } from "../exec.ts";
import { OPAL_TAG, opalId, opalKey, opalStatus } from "../format.ts";
import { opalJobPolicy, opalRetry } from "../retry.ts";
import { type OpalSettings, opalPolicy } from "../settings.ts";
import { type OpalForm, readForm, tooLarge } from "./submit-body.ts";

// Settings of OPAL's routes.

export interface OpalOptions {
  /** The command that runs prompts; null if none is configured: jobs can then be read but not submitted. */
  readonly engine: readonly string[] | null;
  /** Callers on this machine need no token. */
  readonly anonymous: boolean;
  readonly settings: OpalSettings;
}

// `opal.anonymous`: OPAL's clients send no token, and on the same machine they need none. It applies only to these
// routes, only to callers on loopback, and only if the server listens on loopback alone. The checks of Host and Origin
// come first, so that no page in a browser can use it. Users of one machine are not told apart.

const ANONYMOUS: Principal = Object.freeze({
  ...{ id: "anonymous", name: "anonymous", namespace: "default", isAnonymous: true },
  scopes: Object.freeze(["read", "submit"] as const),
});

/** Call before the server listens. */
export function checkAnonymous(anonymous: boolean, host: string): void {
  if (!anonymous || isLoopback(host)) return;
  throw new ConfigError({
    path: "opal.anonymous",
    given: true,
    fix: "it requires a loopback address, such as 127.0.0.1",
    problem: `the server listens on ${host}, where any caller could run the engine without a token`,
  });
}

/** The caller without a token, if it is on this machine. */
export function anonymousCaller({ socket, headers }: Pick<FastifyRequest, "socket" | "headers">): Principal | null {
  const { remoteAddress, localAddress } = socket;
  const isHere = isLoopback(remoteAddress ?? "") && isLoopback(localAddress ?? "");
  return isHere && !isForwarded(headers) ? ANONYMOUS : null;
}

/** A proxy on this machine forwards for callers anywhere. One that does not identify itself looks like a local client. */
function isForwarded(headers: IncomingHttpHeaders): boolean {
  return ["forwarded", "via", "x-real-ip"].some((name) => name in headers) || namesWith(headers, "x-forwarded-");
}

function namesWith(headers: IncomingHttpHeaders, start: string): boolean {
  return Object.keys(headers).some((name) => name.startsWith(start));
}

// A prompt becomes a job of kind `exec`: the configured engine, with the policy of OPAL's variables. The client's id is
// in the submit key, so one id is one job however often it is sent, and a repeat gets the first answer. With another
// engine in the settings the same submit has another body, and is refused.

/** A random id of 12 hex digits may exist already, though rarely. */
const DRAWS = 3;

export function opalSubmit(parts: ServerParts, options: OpalOptions): RouteHandler {
  const ofServer = resolvePolicy(opalPolicy(options.settings), "opal");

  function toItem(call: RouteCall, form: OpalForm, id: string): SubmitItem {
    const { prompt, metadata, inputFile } = form;
    const file = inputFile === null ? {} : { inputFile };
    const retry = opalRetry(form.retry, "retry");
    const input = opalExec({ engine: engineOf(options), prompt, metadata, retry, opalId: id, ...file });
    checkBuiltinKind(exec.kind, input);
    const payload = JSON.stringify(input);
    if (isOver(payload, LIMITS.payloadBytes)) throw tooLarge();
    const policy = retry === null ? ofServer : resolvePolicy(opalJobPolicy(options.settings, retry), "retry");
    return {
      ...{ kind: exec.kind, payload, policy, namespace: call.namespace, key: opalKey(id), tags: [OPAL_TAG] },
      ...(call.who === ANONYMOUS ? { by: "opal:anonymous" } : { by: principal(call), token: call.who.id }),
    };
  }

  async function submit(call: RouteCall, form: OpalForm, id: string): Promise<SubmitAnswer> {
    const [answer] = await parts.engine.submit([toItem(call, form, id)]);
    return answer as SubmitAnswer;
  }

  return async (call) => {
    engineOf(options); // refuse before the body is read
    const form = await readForm(call);
    const isOurs = form.jobId === undefined || form.jobId === null;
    for (let draw = 1; ; draw++) {
      const id = opalId(form.jobId, randomBytes);
      const answer = await submit(call, form, id);
      if (answer.status === "ok" && (answer.created || !isOurs)) {
        return new JsonText(JSON.stringify({ id, status: opalStatus(answer.state) }), 201);
      }
      const isTaken = answer.status === "ok" || answer.error.code === "key_conflict";
      if (isTaken && isOurs && draw < DRAWS) continue;
      throw answer.status === "ok" ? conflict(id) : answer.error.code === "key_conflict" ? conflict(id) : answer.error;
    }
  };
}

function engineOf({ engine }: OpalOptions): readonly string[] {
  if (engine !== null) return engine;
  const message = "no opal.engine is configured to run prompts; set it and restart the server";
  throw new PerdureError("wrong_state", message, { path: "opal.engine" });
}

function conflict(id: string): PerdureError {
  const message = `job_id: ${id} belongs to a job with another prompt, metadata, file, retry or engine; use another id`;
  return new PerdureError("key_conflict", message, { path: "job_id" });
}
