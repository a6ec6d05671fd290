/** Reads a `retry:` block without a document around it, in the format of the system that has one of its fields. A
 *  block in Perdure's own format is left alone. */
import { isPlain } from "../core/check.ts";
import { ConfigError } from "../core/errors.ts";
import type { PolicyFields } from "../core/policy/policy.ts";
import { agentPolicy, readRetry as readAgentRetry } from "./agent-task/values.ts";
import { readRetry as readAttuneRetry, retryInForce, retryPolicy } from "./attune/retry.ts";
import type { DialectName } from "./dialect.ts";
import { flusterPolicy } from "./fluster/retry.ts";
import { noetlPolicy, readNoetlRetry } from "./noetl/retry.ts";
import type { DialectSettings } from "./settings.ts";

type RetryReader = (value: unknown, path: string, settings: DialectSettings, notes: string[]) => PolicyFields;

const READERS: readonly (readonly [name: DialectName, fields: readonly string[], read: RetryReader])[] = [
  [
    "fluster",
    [
      ...["max_retries_failure", "max_retries_preemption", "initial_retry_delay_ms", "max_retry_delay_ms"],
      ...["retry_on_exit_codes", "no_retry_on_exit_codes"],
    ],
    (value, path, { fluster }, notes) => flusterPolicy(value, path, fluster, notes),
  ],
  [
    "noetl",
    ["max_attempts", "retry_when", "stop_when"],
    (value, path) => noetlPolicy(readNoetlRetry(value, path), "simulated", path),
  ],
  [
    "attune",
    ["max_retries", "base_backoff_secs", "max_backoff_secs", "jitter_factor"],
    (value, path, { attune }) => retryPolicy(retryInForce(readAttuneRetry(value, path), attune.retry)),
  ],
  [
    "agent-task",
    ["backoffSeconds", "maxBackoffSeconds"],
    (value, path) => agentPolicy(readAgentRetry(value, path), {}, []),
  ],
];

/** Null if the block is in no dialect's format, or if the named dialect has no such blocks. Throws a `ConfigError` for
 *  a mistake. With a name, `true` and `3` have that dialect's meaning. Adds to `notes` what may surprise the author. */
export function retryBlock(
  value: unknown,
  path: string,
  settings: () => DialectSettings,
  dialect?: string,
  notes: string[] = [],
): PolicyFields | null {
  if (dialect !== undefined) {
    const named = READERS.find(([name]) => name === dialect);
    return named === undefined ? null : named[2](value, path, settings(), notes);
  }
  if (!isPlain(value)) return null;
  const names = Object.keys(value);
  const found = READERS.find(([, fields]) => names.some((name) => fields.includes(name)));
  return found === undefined ? null : found[2](value, path, settings(), notes);
}

/** The dialects that can read a block, to suggest them. */
export function retryDialects(value: unknown, path: string, settings: DialectSettings): DialectName[] {
  return READERS.flatMap(([name, , read]) => {
    try {
      read(value, path, settings, []);
      return [name];
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      return [];
    }
  });
}
