/** One valid document of each kind, for tests that apply to all of them. */
export const SAMPLES = {
  opal: "prompt: Draw a fox\njob_id: job_92e725aa5034\nmetadata: { style: ink }\nenv: { OPAL_MAX_RETRIES: 3 }\n",
  fluster: [
    "name: flaky",
    "entrypoint: { command: [python3, flaky.py] }",
    "environment: { env_vars: { MODE: test } }",
    "resources: { cpu: 1, memory: 512m }",
    "ports: [http]",
    "scheduling_timeout_seconds: 60",
    "retry: { max_retries_failure: 3, initial_retry_delay_ms: 1000, no_retry_on_exit_codes: [2] }",
    "",
  ].join("\n"),
  noetl: [
    "step: fetch_data",
    "type: http",
    "method: GET",
    "url: https://api.example.com/data",
    "retry:",
    "  max_attempts: 5",
    "  initial_delay: 1.0",
    "  backoff_multiplier: 2.0",
    "  max_delay: 60",
    "  jitter: true",
    '  retry_when: "{{ status_code >= 500 }}"',
    "",
  ].join("\n"),
  attune: [
    "name: fetch",
    "runtime: python",
    "entrypoint: fetch.py",
    "timeout_seconds: 30",
    "max_retries: 3",
    "parameters: { url: { type: string, required: true } }",
    "",
  ].join("\n"),
  "agent-task": [
    "apiVersion: core.hortator.ai/v1alpha1",
    "kind: AgentTask",
    "metadata: { name: write-tests }",
    "spec:",
    "  prompt: Write the tests",
    "  command: [./agent]",
    "  tier: legionary",
    "  retry: { maxAttempts: 3, backoffSeconds: 30, maxBackoffSeconds: 300 }",
    "  budget: { maxCostUsd: 1.5 }",
    "  timeout: 600",
    "",
  ].join("\n"),
} as const;

/** A job file of Perdure. */
export const OWN = "argv: [./backup.sh, --full]\nretry: { maxAttempts: 3 }\n";
