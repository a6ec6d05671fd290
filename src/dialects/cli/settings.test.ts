import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { loadConfig } from "../../cli/config/config.ts";
import type { Io } from "../../cli/io.ts";
import { DIALECT_DEFAULTS } from "../settings.ts";
import { DIALECT_KEYS, dialectSettingsOf } from "./registry.ts";

function settings(files: Readonly<Record<string, string>> = {}, env: Io["env"] = {}) {
  const cwd = mkdtempSync(join(tmpdir(), "perdure-dialects-"));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  mkdirSync(join(cwd, "roles"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text);
  const io = { env, cwd, isTTY: false } as unknown as Io;
  return dialectSettingsOf(loadConfig({ io }, DIALECT_KEYS), cwd);
}

it("default to the numbers of the documents", () => {
  expect(settings()).toEqual(DIALECT_DEFAULTS);
});

it("have the names that their systems use", () => {
  const file = [
    "fluster: { default_max_retries_failure: 2, default_max_retries_preemption: 3, default_retry_delay_ms: 50 }",
    "attune: { ttl: 90s, retry: { enabled: false, base_backoff_secs: 0.5, max_backoff_secs: 9, backoff_multiplier: 1.5 } }",
    "agent: { command: [agent, run], retry: { legionary: { maxAttempts: 7 }, tribune: { maxBackoffSeconds: 4 } } }",
    "opal: { engine: [sh, e.sh], maxRetries: 4 }",
  ].join("\n");
  expect(settings({ "perdure.yaml": file })).toEqual({
    opal: { engine: ["sh", "e.sh"], maxRetries: 4, backoffs: [3, 8, 15] },
    fluster: { defaultMaxRetriesFailure: 2, defaultMaxRetriesPreemption: 3, defaultRetryDelayMs: 50 },
    attune: {
      ttlSecs: 90,
      retry: { enabled: false, baseBackoffSecs: 0.5, maxBackoffSecs: 9, backoffMultiplier: 1.5, jitterFactor: 0.2 },
    },
    agent: {
      command: ["agent", "run"],
      retry: {
        legionary: { maxAttempts: 7, backoffSeconds: 15 },
        centurion: { maxAttempts: 1, backoffSeconds: 30 },
        tribune: { maxAttempts: 0, maxBackoffSeconds: 4 },
      },
      roles: [],
    },
  });
});

it("take one text for a list of one", () => {
  const roles = (value: string) => {
    const files = {
      "a.yaml": "kind: ClusterAgentRole\nmetadata: { name: a }\n",
      "perdure.yaml": `agent: { roles: ${value} }`,
    };
    return settings(files).agent.roles;
  };
  expect(roles("a.yaml")).toEqual(roles("[a.yaml]"));
  expect(() => roles('"a.yaml,b.yaml"')).toThrow(/in a file: \[a, b\]/);
});

it("have roles from files and directories", () => {
  const role = (name: string) => `kind: ClusterAgentRole\nmetadata: { name: ${name} }\n`;
  const files = {
    "one.yaml": `${role("a")}---\nkind: AgentTask\n---\n${role("b")}`,
    "roles/c.yml": role("c"),
    "roles/notes.txt": "no role",
    "perdure.yaml": "agent: { roles: [one.yaml, roles] }\n",
  };
  const names = settings(files).agent.roles.map((each) => (each as { metadata: { name: string } }).metadata.name);
  expect(names).toEqual(["a", "b", "c"]);
  expect(() => settings({}, { PERDURE_AGENT_ROLES: "nowhere" })).toThrow(
    'PERDURE_AGENT_ROLES: "nowhere" does not exist; change or remove it',
  );
  expect(() => settings({ ...files, "roles/d.yaml": "a: [" })).toThrow(/roles\/d\.yaml:1:\d+: /);
});

it.each([
  ["attune: { retry: { jitter_factor: 1 } }", "attune.retry.jitter_factor: must be a number from 0 to 0.999; got 1"],
  [
    "attune: { retry: { base_backoff_secs: '1' } }",
    'attune.retry.base_backoff_secs: must be a number from 0 to 86400; got "1"',
  ],
  ["attune: { retry: { backoff_multiplier: .nan } }", "is not a JSON number"],
  ["attune: { retry: { baseBackoffSecs: 1 } }", "did you mean attune.retry.base_backoff_secs?"],
  ["fluster: { default_max_retries_failure: -1 }", "must be a whole number from 0 to 999999; got -1"],
  [
    "fluster: { default_max_retries_failure: 1000000 }",
    "default_max_retries_failure: must be a whole number from 0 to 999999; got 1000000",
  ],
  ["agent:\n  roles: [nosuch.yaml]", 'perdure.yaml:2:3: agent.roles: "nosuch.yaml" does not exist; change'],
  [
    "opal: { retryBackoffs: [] }",
    "perdure.yaml:1:9: opal.retryBackoffs: must be a list of 1 to 100 numbers from 0 to 86400, such as [3, 8, 15]; got []",
  ],
  ["agent: { retry: { legionry: {} } }", "did you mean agent.retry.legionary"],
])("are refused if they are invalid: %s", (text, message) => {
  expect(() => settings({ "perdure.yaml": text })).toThrow(message);
});
