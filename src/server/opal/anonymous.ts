/** `opal.anonymous`: OPAL's clients send no token, and on the machine itself they need none. It opens this door alone, to
 *  callers on loopback alone, of a server that listens on loopback alone. The guards on Host and Origin stand before it as
 *  before everything, so no page in a browser comes in by it. It does not tell users of one machine from each other. */
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import { ConfigError } from "../../core/errors.ts";
import { isLoopback } from "../guard.ts";
import type { Principal } from "../parts.ts";

export const ANONYMOUS: Principal = Object.freeze({
  ...{ id: "anonymous", name: "anonymous", namespace: "default", isAnonymous: true },
  scopes: Object.freeze(["read", "submit"] as const),
});

/** To be called before the server listens. */
export function checkAnonymous(anonymous: boolean, host: string): void {
  if (!anonymous || isLoopback(host)) return;
  throw new ConfigError({
    path: "opal.anonymous",
    given: true,
    allowed: "only where the server listens on this machine alone, such as on 127.0.0.1",
    problem: `the server listens on ${host}, and whoever reaches that could run the engine without a token`,
  });
}

/** The caller that has no token, if it is on this machine. */
export function anonymousCaller({ socket, headers }: Pick<FastifyRequest, "socket" | "headers">): Principal | null {
  const { remoteAddress, localAddress } = socket;
  const isHere = isLoopback(remoteAddress ?? "") && isLoopback(localAddress ?? "");
  return isHere && !isForwarded(headers) ? ANONYMOUS : null;
}

/** A proxy on this machine speaks for somebody who may be anywhere. One that does not say so cannot be told from a client. */
function isForwarded(headers: IncomingHttpHeaders): boolean {
  return ["forwarded", "via", "x-real-ip"].some((name) => name in headers) || namesWith(headers, "x-forwarded-");
}

function namesWith(headers: IncomingHttpHeaders, start: string): boolean {
  return Object.keys(headers).some((name) => name.startsWith(start));
}
