/** AgentTask, open question 1: "Should we retry on API auth errors? (Probably not — they won't self-heal)". The output of
 *  programs whose key was refused, and of others that only mention authentication. It is classified as by a worker and an
 *  engine, without a store: the line of the error and the last 2 KiB of stderr, then the preset. */
import { describe, expect, it } from "vitest";
import { classify, type FailureOutcome } from "../../src/core/decision/classify.ts";
import { matchLine, matchName } from "../../src/core/decision/match.ts";
import { failed, testJob } from "../../src/core/job/testing-job.ts";
import { resolvePolicy } from "../../src/core/policy/resolve-policy.ts";
import { Capture } from "../../src/worker/exec/capture.ts";
import { endOf } from "../../src/worker/exec/outcome.ts";

const POLICY = resolvePolicy({ preset: "agent", maxAttempts: 3 });

function ended(stderr: string, exitCode = 1): FailureOutcome {
  const capture = new Capture("never opened", 65_536);
  capture.write(Buffer.from(stderr));
  const [line, tail] = [capture.summary(), capture.lastLines()];
  const end = { exitCode, signal: null, exceeded: null, isOutOfMemory: false, wasStopped: false, left: 0 };
  return endOf({ kind: "ended", ...end }, { kind: "none" }, line, tail) as FailureOutcome;
}

const verdictOn = (outcome: FailureOutcome) => {
  const { kind, match } = classify(testJob({ policy: POLICY }), outcome);
  return { kind, matched: matchName(match), line: matchLine(match) };
};

const OPENAI_401 = `Traceback (most recent call last):
  File "/app/agent.py", line 401, in <module>
    client.chat.completions.create(model="gpt-4o", messages=messages)
  File "/usr/lib/python3/site-packages/openai/_base_client.py", line 1061, in _request
    raise self._make_status_error_from_response(err.response) from None
openai.AuthenticationError: Error code: 401 - {'error': {'message': 'Incorrect API key provided: sk-abc***xyz. You can find your API key at https://platform.openai.com/account/api-keys.', 'type': 'invalid_request_error', 'param': None, 'code': 'invalid_api_key'}}
`;

describe("API auth errors", () => {
  it.each<[string, string]>([
    ["OpenAI, Python", OPENAI_401],
    ["OpenAI, Python, and what its caller writes after it", `${OPENAI_401}agent: giving up\nagent: cleaning up\nbye\n`],
    [
      "OpenAI, Node",
      `/app/node_modules/openai/core/error.js:45
            return new AuthenticationError(status, error, message, headers);
                   ^

AuthenticationError: 401 Incorrect API key provided: sk-abc. You can find your API key at https://platform.openai.com/account/api-keys.
    at APIError.generate (/app/node_modules/openai/core/error.js:45:20)
    at async main (/app/agent.js:7:3) {
  status: 401,
  headers: Headers {},
  code: 'invalid_api_key',
  param: null,
  type: 'invalid_request_error'
}

Node.js v20.20.2
`,
    ],
    [
      "OpenAI, no key",
      "openai.OpenAIError: The api_key client option must be set either by passing api_key to the client or by setting the OPENAI_API_KEY environment variable\n",
    ],
    [
      "Anthropic, Python",
      "anthropic.AuthenticationError: Error code: 401 - {'type': 'error', 'error': {'type': 'authentication_error', 'message': 'invalid x-api-key'}}\n",
    ],
    [
      "Anthropic, its command line",
      'API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}} · Please run /login\n',
    ],
    [
      "Anthropic, a key that may not",
      'API Error: 403 {"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}\n',
    ],
    [
      "Anthropic, no key",
      "Error: Could not resolve authentication method. Expected either apiKey or authToken to be set.\n",
    ],
    [
      "Gemini",
      "google.genai.errors.ClientError: 400 INVALID_ARGUMENT. {'error': {'code': 400, 'message': 'API key not valid. Please pass a valid API key.', 'status': 'INVALID_ARGUMENT'}}\n",
    ],
    [
      "Google, JSON over several lines",
      `{
  "error": {
    "code": 401,
    "message": "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.",
    "status": "UNAUTHENTICATED"
  }
}
`,
    ],
    ["Google, Go", "googleapi: Error 403: The caller does not have permission, forbidden\n"],
    [
      "Google, no credentials",
      "google.auth.exceptions.DefaultCredentialsError: Your default credentials were not found. To set up Application Default Credentials, see https://cloud.google.com/docs\n",
    ],
    [
      "Google, refresh",
      "google.auth.exceptions.RefreshError: ('invalid_grant: Token has been expired or revoked.', {'error': 'invalid_grant'})\n",
    ],
    ["gRPC, Go", "rpc error: code = Unauthenticated desc = transport: per-RPC creds failed\n"],
    ["gRPC, Node", "Error: 16 UNAUTHENTICATED: Request is missing required authentication credential.\n"],
    [
      "gRPC, Java",
      'Exception in thread "main" io.grpc.StatusRuntimeException: UNAUTHENTICATED: Invalid token\n\tat io.grpc.stub.ClientCalls.toStatusRuntimeException(ClientCalls.java:271)\n',
    ],
    [
      "gRPC, Python",
      'grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAUTHENTICATED\n\tdetails = "Invalid token"\n\tdebug_error_string = "UNKNOWN:Error received from peer"\n>\n',
    ],
    ["gRPC, denied", "rpc error: code = PermissionDenied desc = caller may not call this\n"],
    [
      "AWS, expired",
      "botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling the GetObject operation: The provided token has expired.\n",
    ],
    [
      "AWS, Node",
      "ExpiredTokenException: The security token included in the request is expired\n    at de_ExpiredTokenExceptionRes (/app/node_modules/client-sts/index.js:1:1)\n",
    ],
    [
      "AWS, wrong key",
      "An error occurred (InvalidClientTokenId) when calling the GetCallerIdentity operation: The security token included in the request is invalid.\n",
    ],
    ["AWS, denied", "An error occurred (AccessDenied) when calling the PutObject operation: Access Denied\n"],
    [
      "AWS, no credentials",
      'Unable to locate credentials. You can configure credentials by running "aws configure".\n',
    ],
    ["GitHub", "gh: Bad credentials (HTTP 401)\n"],
    ["GitHub, scope", "HTTP 403: Resource not accessible by personal access token (https://api.github.com/graphql)\n"],
    ["curl -f", "curl: (22) The requested URL returned error: 401\n"],
    [
      "curl -v",
      "< HTTP/2 401 \n< date: Mon, 02 Mar 2026 10:00:00 GMT\n< www-authenticate: Bearer\n* Connection #0 to host api.example.com left intact\n",
    ],
    ["curl, HTTP/1.1", "< HTTP/1.1 403 Forbidden\n< Server: nginx\n* Closing connection 0\n"],
    ["wget", "HTTP request sent, awaiting response... 401 Unauthorized\n\nUsername/Password Authentication Failed.\n"],
    ["kubectl", "error: You must be logged in to the server (Unauthorized)\n"],
    [
      "kubectl, denied",
      'Error from server (Forbidden): pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default"\n',
    ],
    [
      "git over https",
      "remote: Invalid username or token. Password authentication is not supported for Git operations.\nfatal: Authentication failed for 'https://github.com/o/r.git/'\n",
    ],
    ["git, no terminal", "fatal: could not read Username for 'https://github.com': No such device or address\n"],
    ["git, denied", "fatal: unable to access 'https://github.com/o/r.git/': The requested URL returned error: 403\n"],
    [
      "git over ssh",
      "git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.\n",
    ],
    [
      "npm",
      "npm error code E401\nnpm error Incorrect or missing password.\nnpm error A complete log of this run can be found in: /root/.npm/_logs/2026-03-02T10_00_00_000Z-debug-0.log\n",
    ],
    ["npm, older", "npm ERR! code E403\nnpm ERR! 403 403 Forbidden - PUT https://registry.npmjs.org/x\n"],
    ["pip", "ERROR: HTTP error 403 while getting https://pypi.example.com/simple/x/\n"],
    [
      "docker",
      'Error response from daemon: Get "https://ghcr.io/v2/": denied: denied\nunauthorized: authentication required\n',
    ],
    [
      "psql",
      'psql: error: connection to server at "db" (10.0.0.1), port 5432 failed: FATAL:  password authentication failed for user "app"\n',
    ],
    ["MySQL", "ERROR 1045 (28000): Access denied for user 'app'@'10.0.0.2' (using password: YES)\n"],
    ["Redis", "redis.exceptions.AuthenticationError: invalid username-password pair or user is disabled.\n"],
    [
      "ssh",
      "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\nDisconnected from 10.0.0.1 port 22\n",
    ],
    [
      "requests",
      "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://api.example.com/v1/models\n",
    ],
    ["urllib", "urllib.error.HTTPError: HTTP Error 403: Forbidden\n"],
    [
      "axios, with its config below",
      `/app/node_modules/axios/lib/core/settle.js:19
    reject(new AxiosError(
           ^

AxiosError: Request failed with status code 401
    at settle (/app/node_modules/axios/lib/core/settle.js:19:12)
    at IncomingMessage.handleStreamEnd (/app/node_modules/axios/lib/adapters/http.js:599:11) {
  code: 'ERR_BAD_REQUEST',
  config: {
    timeout: 0,
    maxContentLength: -1
  }
}

Node.js v20.20.2
`,
    ],
    ["fetch", "Error: HTTP error! status: 401\n    at main (/app/agent.js:3:9)\n"],
    [
      "a log of JSON",
      '{"level":"error","ts":1772445600.1,"msg":"request failed","statusCode":401,"path":"/v1/models"}\nexit\n',
    ],
    ["a log of fields", 'level=error msg="call failed" status=403 url=https://api.example.com\nmain: aborting\n'],
    ["a sentence", "agent: got a 401 response from https://api.example.com/v1/models\n"],
    ["a pair", "request failed: statusCode=401\n"],
    ["a JSON Web Token", "JsonWebTokenError: jwt expired\n"],
    [
      "several lines above the last",
      "ERROR token has expired\nsaving state\nclosing files\nremoving the workspace\ndone, exit 1\n",
    ],
    ["in colours", "\u001b[31mError:\u001b[0m \u001b[1m401 Unauthorized\u001b[0m\n\u001b[2mabort\u001b[0m\n"],
    ["each time it tries", "401 Unauthorized, retrying in 1 s\n401 Unauthorized, retrying in 2 s\nno more tries\n"],
    [
      "a refresh that was refused",
      "access token is expired, refreshing\nError refreshing token: 401 Unauthorized\nagent: exit\n",
    ],
    [
      "axios, as JSON",
      '{"message":"Request failed with status code 401","name":"AxiosError","config":{"transitional":{"silentJSONParsing":true,"forcedJSONParsing":true,"clarifyTimeoutError":false},"timeout":0,"timeoutErrorMessage":""},"code":"ERR_BAD_REQUEST","status":401}\n',
    ],
    [
      "axios, as a console shows it",
      `AxiosError: Request failed with status code 401
    at settle (file:///app/node_modules/axios/lib/core/settle.js:19:12)
    at async main (file:///app/agent.js:3:1) {
  config: {
    transitional: {
      silentJSONParsing: true,
      forcedJSONParsing: true,
      clarifyTimeoutError: false
    },
    timeoutErrorMessage: undefined,
    timeout: 0
  },
  response: {
    status: 401,
    headers: Object [AxiosHeaders] {
      'x-ratelimit-limit': '60',
      'x-rate-limit-remaining': '59'
    }
  },
  code: 'ERR_BAD_REQUEST'
}
`,
    ],
    [
      "a limit of calls in the headers below",
      "< HTTP/1.1 401 Unauthorized\n< x-rate-limit-limit: 50\n< x-ratelimit-reset: 9\n",
    ],
    ["a limit of calls in the headers beside", 'HTTP 401 {"x-ratelimit-limit":"60","x-rate-limit-remaining":"59"}\n'],
    ["a limit of calls of Anthropic", "status: 401\nanthropic-ratelimit-requests-remaining: 49\n"],
    ["a bare status", "Error: 401\n"],
    ["a bare status with its body", 'Error: 403 {"message":"no"}\n'],
    ["FastAPI", "HTTPException: 401\n"],
    ["fetch, a status", "fetch failed: 401\n"],
    ["a call", "LLM call returned 401\n"],
    ["OpenAI, no body", "Error: 401 status code (no body)\n"],
    ["got", "model list: got 401\n"],
    ["Moonshot", "Error: Invalid Authentication\n"],
    ["an invalid token", "Error: invalid token\n"],
    ["an invalid token, the other way round", "error: Token is invalid\n"],
    ["an invalid token of an API", "invalid api token\n"],
    ["Anthropic, revoked", "OAuth token has been revoked. Please obtain a new token.\n"],
    ["a revoked key", "API key revoked\n"],
    ["Gemini, no such key", "API Key not found. Please pass a valid API key.\n"],
    [
      "OpenAI, Node, no key",
      "Error: The OPENAI_API_KEY environment variable is missing or empty; either provide it, or instantiate the client\n",
    ],
    ["unable", "agent: unable to authenticate\n"],
    ["could not", "agent: could not authenticate with the provider\n"],
    ["S3, Node", "AccessDenied: Access Denied\n    at de_CommandError (/app/node_modules/client-s3/index.js:1:1)\n"],
    ["Stripe", "You did not pass a valid authentication token\n"],
    ["a code in capitals", "JWTExpired: no\n  code: 'ERR_JWT_EXPIRED'\n"],
    ["a value that is quoted", '{"error":"unauthorized","path":"/v1/models"}\n'],
    ["two words with a slash", "Unauthorized/Forbidden\n"],
    ["another status than expected", "expected 200 but the API returned 401\n"],
    [
      "a client that logs its requests",
      'INFO:httpx:HTTP Request: POST https://api.example.com/v1/chat "HTTP/1.1 401 Unauthorized"\n',
    ],
    ["a status in words", "server responded with a status of 401\n"],
    ["a token that was invalidated", "Your authentication token has been invalidated. Please try signing in again.\n"],
    ["no key at all", "No API key found\n"],
    ["no header", "Missing Authentication header\n"],
    ["FastAPI, no token", '{"detail":"Not authenticated"}\n'],
    ["two statuses", "Error: 401\n  cause: null,\n  retries: 0\n"],
    ["a test below it", "HTTP 401\nPASS tests/login.test.ts\nassert authenticated as bob\n"],
  ])("are not retried: %s", (_, stderr) => {
    expect(verdictOn(ended(stderr))).toMatchObject({ kind: "fail", matched: "preset agent" });
  });
});

describe("other ends", () => {
  it.each<[string, string]>([
    ["a service that is down", "authentication service temporarily unavailable, retrying\n"],
    ["a service that answers 503", "HTTP 503 from the authentication service: unauthorized until it is back\n"],
    ["a handshake", "transport: authentication handshake failed: context deadline exceeded\n"],
    ["a handshake that took too long", "Error: authentication handshake timed out\n"],
    ["a timeout", "timeout during authentication\n"],
    ["a timeout with its consequence", "authentication failed: request timeout after 30 s\n"],
    ["a connection", "ssh: connection reset during TLS authentication\n"],
    ["a refused connection", "failed to authenticate: dial tcp 10.0.0.1:443: connect: connection refused\n"],
    ["a name that is not resolved", "failed to authenticate: dial tcp: lookup auth.example.com: no such host\n"],
    ["its own tries", "retrying authentication (2 of 5)\ngiving up\n"],
    ["milliseconds", "request took 401 ms\nupstream took 403s\n"],
    ["a line number", '  File "auth.py", line 401, in login\nValueError: no such model\n'],
    ["a count", "401 files processed, 403 skipped\nError: 401 files left\n"],
    ["a port", "listening on port 401\nlistening on port 8403\npanic: out of cheese\n"],
    ["a lint rule", "a.py:1:10: E401 multiple imports on one line\nFound 1 error.\n"],
    ["another lint rule", "  3:5  error  Forbidden non-null assertion  no-non-null-assertion\n\n1 problem\n"],
    ["a compiler error", "error[E0403]: the name `T` is already used\n"],
    ["a success before it", "authentication ok\nloading the model\nSegmentation fault\n"],
    ["a name before it", "Authenticated as bob@example.com\nTypeError: x is not a function\n"],
    ["a login before it", "HTTP 401, logging in\nlogin successful\nTypeError: x is not a function\n"],
    [
      "a refresh on the same line",
      "HTTP 401 from api.example.com: refreshed token, retrying\nError: unexpected end of stream\n",
    ],
    ["a refresh on the next line", "GET /v1/models: 401 Unauthorized\ntoken refreshed\nout of disk space\n"],
    [
      "a refresh, then another cause",
      "401 Unauthorized\nrefreshing the session\nError: connect ETIMEDOUT 10.0.0.1:443\n",
    ],
    ["another cause, then the end", "401 Unauthorized\nread ECONNRESET\ngiving up\n"],
    [
      "a limit of calls under 403",
      "HTTP 403: API rate limit exceeded for user ID 1 (https://api.github.com/graphql)\n",
    ],
    ["a quota under 403", "googleapi: Error 403: Quota exceeded for quota metric 'Queries', rateLimitExceeded\n"],
    [
      "too many requests",
      "openai.RateLimitError: Error code: 429 - {'error': {'message': 'Rate limit reached for gpt-4o'}}\n",
    ],
    ["overload", 'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n'],
    ["gRPC that is unavailable", "rpc error: code = Unavailable desc = error reading from server: EOF\n"],
    ["a warning about anonymous calls", "Warning: You are sending unauthenticated requests to the HF Hub.\nKilled\n"],
    ["a file of its own", "PermissionError: [Errno 13] Permission denied: '/var/lib/agent'\n"],
    ["longer numbers", "status code 4010\nHTTP 40100\nx-request-id: 401-403\n"],
    ["a test of that name", "FAILED tests/test_auth.py::test_returns_401_unauthorized\nsidecar race\n"],
    ["a test of that name alone", "test_returns_401_unauthorized\n"],
    [
      "a test with that title",
      " FAIL  tests/auth.test.ts > login > returns 401 unauthorized\n✓ authentication failed\n",
    ],
    ["an expired token, fetched again", "access token expired; fetching a new one\nSegmentation fault\n"],
    ["an expired token, refreshed", "token expired, refreshing\n"],
    ["an expired token, replaced", "access token expired; retrying with new token\n"],
    ["a token that will expire", "warning: token expired in 3 days\n"],
    ["a proxy", "authentication failed: upstream connect error or disconnect/reset before headers\n"],
    ["an expectation", "expected 401 Unauthorized, got 500\n"],
    ["an expectation of a status", "expected response status 401\n"],
    ["an assertion", "assert response.status_code == 401\n"],
    ["an assertion that failed", "AssertionError: 500 is no 401 Unauthorized\n"],
    ["a comparison", "    if (response.statusCode === 401) {\n"],
    ["a property", "TypeError: Cannot read properties of undefined (reading 'unauthorized')\n"],
    ["a file", "Error: ENOENT: no such file or directory, open 'unauthorized.json'\n"],
    ["a file of a path", "open /app/pages/unauthorized: no such file\nsee docs/http-401.md\n"],
    ["a module", "ModuleNotFoundError: No module named 'unauthenticated'\n"],
    ["a server of its own", '127.0.0.1 - - [02/Mar/2026 10:00:00] "GET /admin HTTP/1.1" 403 12\n'],
    ["no failures", "0 authentication failures\nno unauthorized calls\n"],
    ["counts of none", "authentication failures: 0\n401 Unauthorized responses: 0\nunauthorized: false\n"],
    ["an unknown name", "ReferenceError: unauthorized is not defined\nKeyError: 'unauthorized'\n"],
    ["a search", "grep: unauthorized: No such file or directory\n"],
    ["the title of a test", "should return 401 unauthorized\n"],
    ["a timeout that comes first", "Timeout: authentication failed\n"],
    ["an exit code", "process exited with code 401\nexit status 403\n"],
    ["other counts of errors", "✖ 401 problems (401 errors, 0 warnings)\nPassed: 3, failed: 401\n"],
    ["rows", "the query returned 403 rows\ngot 401 files\n"],
    ["a token of a language", "SyntaxError: Invalid token\ninvalid token at position 3\n"],
    [
      "a timeout with its settings",
      '{"message":"timeout exceeded","config":{"clarifyTimeoutError":false},"status":401}\n',
    ],
    ["nothing at all", ""],
  ])("are retried: %s", (_, stderr) => {
    expect(verdictOn(ended(stderr))).toEqual({ kind: "retry", matched: "onUnknown", line: null });
  });

  it("are those of programs that were killed, whatever they had written", () => {
    const { failure } = ended("HTTP 401\n", 137) as Extract<FailureOutcome, { kind: "failed" }>;
    for (const kind of ["oom", "signal"] as const) {
      expect(verdictOn({ kind: "failed", failure: { ...failure, kind } })).toMatchObject({ kind: "retry" });
    }
  });
});

describe("functions", () => {
  it("are judged by their message, name and status", () => {
    const name = "AuthenticationError";
    for (const outcome of [failed("401 Incorrect API key provided"), failed({ message: "no", name })]) {
      expect(verdictOn(outcome)).toMatchObject({ kind: "fail", matched: "preset agent" });
    }
    expect(verdictOn(failed({ message: "no", stack: "Error: no\n at 401 unauthorized.js" })).kind).toBe("retry");
    expect(verdictOn(failed("401 files left"))).toMatchObject({ kind: "retry" });
  });
});

it("names the line that decided, and takes no longer for a text that was made to take long", () => {
  expect(verdictOn(ended("Error: Token expired\nsaving\nbye\n")).line).toBe("Error: Token expired");
  const hostile = "status code ".repeat(50_000) + "aA".repeat(200_000) + "\n".repeat(50_000);
  const startedAt = performance.now();
  expect(verdictOn(failed(hostile)).kind).toBe("retry");
  // About 0.5 s for a thousand times the text that a worker sends.
  expect(performance.now() - startedAt).toBeLessThan(20_000);
});
