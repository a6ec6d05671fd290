/** The server's address, and the keep-alive connections to it. */

import { readFileSync } from "node:fs";
import { Agent as HttpAgent, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import * as tls from "node:tls";
import { ConfigError } from "../../core/errors.ts";
import { withoutEnd } from "../../core/format.ts";

export interface ServerAddress {
  /** For messages. */
  readonly shown: string;
  readonly hostname: string;
  readonly port: string;
  /** Put before every path. */
  readonly prefix: string;
  readonly agent: HttpAgent;
  readonly request: typeof httpRequest;
}

/** `ca` is a PEM file of certificates to trust in addition to Node's defaults. */
export function serverAddress(given: string, ca?: string): ServerAddress {
  const allowed = "a URL such as http://localhost:4400 or https://perdure.example.org";
  const url = typeof given === "string" && URL.canParse(given) ? new URL(given) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw new ConfigError({ path: "url", given, allowed });
  // Other parts of a URL would be ignored, or would appear in logs.
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    const problem = "contains credentials, a query or a fragment; pass the token as `token`";
    throw new ConfigError({ path: "url", given: url.host, allowed, problem });
  }
  const isTls = url.protocol === "https:";
  const prefix = withoutEnd(url.pathname, "/");
  return {
    shown: url.origin + prefix,
    hostname: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: url.port,
    prefix,
    agent: isTls ? new HttpsAgent({ keepAlive: true, ...trusted(ca) }) : new HttpAgent({ keepAlive: true }),
    request: isTls ? httpsRequest : httpRequest,
  };
}

function trusted(ca: string | undefined): { ca?: string[] } {
  if (ca === undefined) return {};
  let own: string;
  try {
    own = readFileSync(ca, "utf8");
  } catch (error) {
    const problem = `cannot be read: ${(error as Error).message}`;
    throw new ConfigError({ path: "ca", given: ca, allowed: "a file of certificates in PEM form", problem });
  }
  // Newer versions of Node can trust the system's certificates, which are then among the default ones.
  const { getCACertificates } = tls as { getCACertificates?: (type: "default") => string[] };
  return { ca: [...(getCACertificates?.("default") ?? tls.rootCertificates), own] };
}
