/** The lists of phrases that rules of presets name. Stored policies contain only the name, so a released list never changes; a
 *  changed one gets a new name. */

import type { Policy } from "../policy/policy.ts";
import { type LinePhrases, type PhraseIndex, phraseIndex } from "./line-phrases.ts";

// Phrases by which programs report that a key, a token or a password was refused, so that a retry does not help; and phrases
// of lines about something else. Collected from clients of model APIs, gRPC, AWS, Google, GitHub, git, npm, curl, kubectl,
// docker, databases and ssh; test/dialects has their texts. A number or the word "authentication" alone is not enough.

/** The forms of an HTTP status; a number alone may be a count of files or milliseconds. */
function statusForms(status: number): string[] {
  const before = [
    ...["http", "http error", "http status", "http 1 0", "http 1 1", "http 2", "http 2 0", "http 3"],
    ...[
      "status",
      "status code",
      "statuscode",
      "code",
      "response",
      "status of",
      "googleapi error",
      "api error",
      "returned error",
    ],
    ...["request failed with", "call failed with", "responded with", "server returned", "api returned"],
  ];
  const around = [`got ${status} from`, `received ${status} from`, `${status} response`];
  return [...before.map((form) => `${form} ${status}`), ...around, `${status} client error`, `${status} server error`];
}

const REFUSED = [
  ...statusForms(401),
  ...statusForms(403),
  ...["401 unauthorized", "unauthorized", "unauthenticated", "401 status code", "403 status code"],
  ...["fetch failed 401", "fetch failed 403", "request failed 401", "request failed 403"],
  ...["403 forbidden", "http forbidden", "forbidden error", "error from server forbidden"],
  ...["code e401", "code e403", "eneedauth"],

  ...["authentication failed", "authentication failure", "authentication failures", "authentication required"],
  ...["authentication error", "failed to authenticate", "unable to authenticate", "could not authenticate"],
  ...["cannot authenticate", "not authenticated", "invalid authentication", "missing authentication header"],
  ...["auth failed", "auth failure", "reauthentication failed", "reauthentication is needed", "login failed"],
  ...["authentication credentials invalid", "invalid authentication credentials", "authentication token invalid"],
  ...["could not resolve authentication method", "must be logged in", "not logged in", "please run login"],

  ...["incorrect api key", "invalid api key", "invalid x api key", "api key not valid", "api key is invalid"],
  ...["api key invalid", "api key expired", "api key has expired", "invalid subscription key", "no api key provided"],
  ...["t provide an api key", "api key client option must be set", "missing api key", "api key is missing"],
  ...[
    "no api key found",
    "api key revoked",
    "api key has been revoked",
    "api key not found",
    "pass a valid api key",
    "api key not set",
  ],
  ...[
    "api key is not set",
    "api key environment variable is missing",
    "api key environment variable is not set",
    "api key environment variable not found",
  ],

  ...["token expired", "token has expired", "token is expired", "tokens have expired", "expired token", "jwt expired"],
  ...["token included in the request is expired", "token included in the request is invalid", "invalid grant"],
  ...[
    "token is invalid",
    "token is not valid",
    "token revoked",
    "token was revoked",
    "token has been revoked",
    "token has been invalidated",
  ],
  ...["invalid api token", "not pass a valid authentication token"],
  ...["invalid access token", "invalid auth token", "invalid authentication token", "invalid bearer token"],
  ...["invalid client token id", "unrecognized client exception", "signature does not match", "session token invalid"],

  ...[
    "invalid credentials",
    "bad credentials",
    "credentials invalid",
    "credentials are invalid",
    "credentials expired",
  ],
  ...["credentials have expired", "credentials not correct", "unable to locate credentials"],
  ...["default credentials were not found", "could not read username", "could not read password"],
  ...["incorrect username or password", "invalid username or password", "invalid username or token"],
  ...["bad username or password", "incorrect or missing password", "wrongpass", "access denied for user"],

  ...["type permission error", "permission denied error", "code permission denied", "status permission denied"],
  ...[
    "access denied exception",
    "an error occurred access denied",
    "access denied access denied",
    "code access denied",
    "permission denied publickey",
  ],
];

/** Only at the end of a clause, unlike "Error: 401 files left" and "invalid token at position 3". */
const REFUSED_AT_THE_END = [
  ...[401, 403].flatMap((status) =>
    ["error", "exception", "httpexception", "httperror", "returned", "got", "received"].map(
      (form) => `${form} ${status}`,
    ),
  ),
  "invalid token",
];

const OTHERWISE = [
  // A retry may help, even if the line contains a refusal, as in "403 rate limit exceeded".
  ...[429, 500, 502, 503, 504, 529].flatMap(statusForms),
  ...[
    "timed out",
    "etimedout",
    "esockettimedout",
    "timeout error",
    "error timeout",
    "failed timeout",
    "timeout exceeded",
  ],
  ...[
    "request timeout",
    "timeout authentication",
    "connection timeout",
    "connect timeout",
    "read timeout",
    "gateway timeout",
    "i o timeout",
  ],
  ...["operation timeout", "timeout while", "timeout during", "timeout after", "timeout waiting", "deadline exceeded"],
  ...["upstream connect error", "reset before headers"],
  ...["connection refused", "connection reset", "connection aborted", "connection closed", "connection error"],
  ...["connection lost", "econnrefused", "econnreset", "econnaborted", "epipe", "broken pipe", "socket hang up"],
  ...["eai again", "enotfound", "could not resolve host", "name or service not known", "temporary failure"],
  ...["network is unreachable", "no route to host", "enetunreach", "ehostunreach", "network error", "fetch failed"],
  ...[
    "eof",
    "getaddrinfo",
    "no such host",
    "tls handshake",
    "ssl handshake",
    "unavailable",
    "bad gateway",
    "internal server error",
  ],
  ...["rate limit", "rate limited", "ratelimit", "too many requests", "quota exceeded"],
  ...["resource exhausted", "throttled", "throttling", "overloaded", "overloaded error", "try again later"],
  // The refusal is over.
  ...["token refreshed", "tokens refreshed", "refreshed token", "refreshed tokens", "refreshed the token"],
  ...["token was refreshed", "token has been refreshed", "refreshed access token", "refreshed the access token"],
  ...["refreshed credentials", "credentials refreshed", "refreshing token and retrying", "refreshing token retrying"],
  ...["authentication succeeded", "authentication successful", "authentication ok", "authenticated as"],
  ...["authenticated successfully", "successfully authenticated", "login succeeded", "login successful"],
  ...["logged in as", "reauthenticated", "re authenticated"],
  ...["expired refreshing", "expired fetching", "expired renewing", "expired requesting", "expired getting"],
  ...["expired attempting", "expired trying to refresh", "expired will refresh", "expired retrying with"],
];

const NO_REFUSAL = [
  // Flags and settings of clients, headers of replies.
  ...["clarify timeout error", "timeout error message", "x ratelimit", "x rate limit", "anthropic ratelimit"],
  ...["limit", "remaining", "reset", "used", "policy", "resource"].flatMap((of) => [
    `ratelimit ${of}`,
    `rate limit ${of}`,
  ]),
  ...["unauthenticated requests", "allow unauthenticated", "token expired in", "token is expired in"],
  ...["exit code", "exit status", "exited with code", "exited with status", "exited code", "exited with exit code"],
  ...["syntax error invalid token", "parse error invalid token"],
];

export const AUTHENTICATION_FAILED: LinePhrases = {
  has: REFUSED,
  hasLast: REFUSED_AT_THE_END,
  unless: OTHERWISE,
  ignored: NO_REFUSAL,
};

const LISTS: ReadonlyMap<string, PhraseIndex> = new Map([
  ["authentication-failed-1", phraseIndex(AUTHENTICATION_FAILED)],
]);

export function lineList(name: string): PhraseIndex | null {
  return LISTS.get(name) ?? null;
}

/** The lists that a policy of a newer version names and this version does not have; they match nothing. */
export function unknownLists({ rules, fallback }: Policy): readonly string[] {
  const names = [...rules, ...fallback].flatMap(({ if: { lines } }) => (lines === undefined ? [] : [lines]));
  return names.filter((name) => lineList(name) === null).map((name) => name.slice(0, 100));
}
