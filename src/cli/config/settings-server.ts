/** Settings of servers, and the format of signing secrets. */
import { DEFAULTS, LIMITS } from "../../engine/limits.ts";
import { SERVER_LIMITS } from "../../server/context.ts";
import type { Setting } from "./setting.ts";

/** 32 characters: 24 random bytes in base64, as earlier versions made. Shorter secrets can be guessed. */
const TEXT = /^[!-+\--~]{32,200}$/;

export const SECRET_ALLOWED = "32 to 200 characters without spaces and commas, such as `openssl rand -hex 32` prints";

export function isSecretText(text: string): boolean {
  return TEXT.test(text);
}

const { retention } = DEFAULTS;

export const SERVER_SETTINGS = [
  {
    key: "server.host",
    flag: "host",
    env: "PERDURE_HOST",
    type: "text",
    default: "127.0.0.1",
    value: "ADDRESS",
    help: "The address to listen on.",
  },
  {
    key: "server.port",
    flag: "port",
    env: "PERDURE_PORT",
    type: "integer",
    min: 0,
    max: 65_535,
    default: 4400,
    help: "The port to listen on; 0 for a free one.",
  },
  {
    key: "server.tls.cert",
    flag: "tls-cert",
    env: "PERDURE_TLS_CERT",
    type: "text",
    value: "FILE",
    help: "The certificate for HTTPS, as PEM.",
  },
  {
    key: "server.tls.key",
    flag: "tls-key",
    env: "PERDURE_TLS_KEY",
    type: "text",
    value: "FILE",
    help: "The private key of the certificate, as PEM.",
  },
  {
    key: "server.insecure",
    flag: "insecure",
    env: "PERDURE_INSECURE",
    type: "boolean",
    default: false,
    help: "Listen to other machines without HTTPS: tokens travel in the clear.",
  },
  {
    key: "server.allowHosts",
    flag: "allow-host",
    env: "PERDURE_ALLOW_HOSTS",
    type: "list",
    value: "HOST",
    help: "Host names that clients may use for the server, besides its own address.",
  },
  {
    key: "server.bodyLimit",
    flag: "body-limit",
    env: "PERDURE_BODY_LIMIT",
    type: "size",
    default: 10_000_000,
    min: 1_000,
    max: 1_000_000_000,
    help: "The largest request that is accepted.",
  },
  {
    key: "server.maxConnections",
    flag: "max-connections",
    env: "PERDURE_MAX_CONNECTIONS",
    type: "integer",
    min: 1,
    max: 1_000_000,
    default: 2_000,
    help: "Connections at a time. A quarter is reserved for clients with a valid token.",
  },
  {
    key: "server.maxConnectionsPerAddress",
    flag: "max-connections-per-address",
    env: "PERDURE_MAX_CONNECTIONS_PER_ADDRESS",
    type: "integer",
    min: 1,
    max: 1_000_000,
    default: 256,
    help: "Connections of one address without a valid token; above this, the oldest are closed.",
  },
  {
    key: "server.laneQuota",
    env: "PERDURE_LANE_QUOTA",
    type: "integer",
    min: 1,
    max: 1_000_000,
    default: SERVER_LIMITS.lanesPerToken,
    help: "Different combinations of queue, kind and labels that a token and its jobs may make.",
  },
  {
    key: "server.sessionQuota",
    env: "PERDURE_SESSION_QUOTA",
    type: "integer",
    min: 1,
    max: 1_000_000,
    default: SERVER_LIMITS.sessionsPerToken,
    help: "Workers that one token may have connected at a time.",
  },
  {
    key: "server.outputs",
    flag: "outputs",
    env: "PERDURE_OUTPUTS",
    type: "text",
    value: "WHERE",
    help: "Where files of attempts are kept: database, or a directory.",
  },
  {
    key: "server.outputLimit",
    flag: "output-limit",
    env: "PERDURE_OUTPUT_LIMIT",
    type: "size",
    min: 0,
    max: 1_000_000_000_000,
    default: 1_000_000_000,
    help: "The limit for the files of one attempt.",
  },
  // No option: all users of the machine can see arguments.
  {
    key: "server.secret",
    env: "PERDURE_SECRET",
    type: "text",
    secret: "all",
    fits: {
      test: (text: string) => text.split(/[\s,]+/).every((each) => each === "" || isSecretText(each)),
      allowed: `${SECRET_ALLOWED} (several with commas between them, the one that signs first)`,
    },
    help: "The signing secret of the server; the same for all servers of a database.",
  },
  {
    key: "server.secretFile",
    flag: "secret-file",
    env: "PERDURE_SECRET_FILE",
    type: "text",
    value: "FILE",
    help: "The file of the signing secrets. Default: secret, in the data directory.",
  },
  {
    key: "server.lease",
    flag: "lease",
    env: "PERDURE_LEASE",
    type: "duration",
    default: DEFAULTS.lease,
    min: LIMITS.lease.from,
    max: LIMITS.lease.to,
    help: "How long a worker may be silent before its attempts count as lost.",
  },
  {
    key: "server.retention.succeeded",
    env: "PERDURE_RETENTION_SUCCEEDED",
    type: "duration",
    forever: true,
    default: retention.succeeded,
    help: "How long jobs that succeeded are kept.",
  },
  {
    key: "server.retention.failed",
    env: "PERDURE_RETENTION_FAILED",
    type: "duration",
    forever: true,
    default: retention.failed,
    help: "How long jobs that failed are kept.",
  },
  {
    key: "server.retention.cancelled",
    env: "PERDURE_RETENTION_CANCELLED",
    type: "duration",
    forever: true,
    default: retention.cancelled,
    help: "How long cancelled jobs are kept.",
  },
  {
    key: "server.logLevel",
    flag: "log-level",
    env: "PERDURE_LOG_LEVEL",
    type: "text",
    value: "LEVEL",
    oneOf: ["error", "warn", "info", "debug"],
    default: "info",
    help: "The lowest level that is logged: error, warn, info or debug.",
  },
  {
    key: "server.logFormat",
    flag: "log-format",
    env: "PERDURE_LOG_FORMAT",
    type: "text",
    value: "FORMAT",
    oneOf: ["json", "text"],
    default: ({ isTTY }: { isTTY: boolean }) => (isTTY ? "text" : "json"),
    help: "json or text. Default: text on a terminal, else json.",
  },
] as const satisfies readonly Setting[];
