/** A `retry:` block by itself, in the words of whichever system it was written for: told by a field that only one of them has.
 *  A block of Perdure's own words is not looked at. */
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

const READERS: readonly (readonly [name: DialectName, telling: readonly string[], read: RetryReader])[] = [
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

/** Null if it is in none of their words, or not in those of the dialect that is named. Throws a `ConfigError` if it is, and has
 *  a mistake. Named, `true` and `3` mean what they mean there. Adds to `notes` what may surprise whoever wrote it. */
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
  const found = READERS.find(([, telling]) => names.some((name) => telling.includes(name)));
  return found === undefined ? null : found[2](value, path, settings(), notes);
}

/** The dialects in whose words a block can be read, for who has to say which one is meant. */
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
