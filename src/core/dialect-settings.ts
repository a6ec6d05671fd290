/** Defaults of the dialects that whoever holds the jobs may set: a server in its configuration, or a command for data of its
 *  own. All in the units of the sources. Where nothing is said, the numbers of their documents hold. They are here, and not
 *  with the dialects, because the library's face carries them from a server to whoever reads a file; nothing in the core
 *  looks into them. */
import { asObject } from "./check.ts";

export interface FlusterSettings {
  readonly defaultMaxRetriesFailure: number;
  readonly defaultMaxRetriesPreemption: number;
  readonly defaultRetryDelayMs: number;
}

export interface AttuneRetrySettings {
  readonly enabled: boolean;
  readonly baseBackoffSecs: number;
  readonly maxBackoffSecs: number;
  readonly backoffMultiplier: number;
  readonly jitterFactor: number;
}

export interface AttuneSettings {
  /** Queue TTL and execution timeout of actions that say nothing. */
  readonly ttlSecs: number;
  readonly retry: AttuneRetrySettings;
}

export const AGENT_TIERS = ["legionary", "centurion", "tribune"] as const;
export type AgentTier = (typeof AGENT_TIERS)[number];

export interface AgentRetrySettings {
  readonly maxAttempts?: number;
  readonly backoffSeconds?: number;
  readonly maxBackoffSeconds?: number;
}

export interface AgentSettings {
  /** The program that runs tasks which name no command; null if there is none. */
  readonly command: readonly string[] | null;
  readonly retry: Readonly<Partial<Record<AgentTier, AgentRetrySettings>>>;
  /** `ClusterAgentRole` documents. */
  readonly roles: readonly unknown[];
}

export interface OpalFileSettings {
  readonly engine: readonly string[] | null;
  readonly maxRetries: number;
  readonly backoffs: readonly number[];
}

/** What holds for jobs of each dialect where their files say nothing.
 *  @example
 *  const settings: DialectSettings = await perdure.dialectSettings(); */
export interface DialectSettings {
  readonly opal: OpalFileSettings;
  readonly fluster: FlusterSettings;
  readonly attune: AttuneSettings;
  readonly agent: AgentSettings;
}

/** As a program gives them: what it leaves out is as in the documents. */
export type DialectSettingsInput = { readonly [K in keyof DialectSettings]?: Partial<DialectSettings[K]> };

/** What holds where nothing is set.
 *  @example
 *  const retries = DIALECT_DEFAULTS.fluster.defaultMaxRetriesFailure; */
export const DIALECT_DEFAULTS: DialectSettings = {
  opal: { engine: null, maxRetries: 2, backoffs: [3, 8, 15] },
  fluster: { defaultMaxRetriesFailure: 0, defaultMaxRetriesPreemption: 100, defaultRetryDelayMs: 1_000 },
  attune: {
    ttlSecs: 300,
    retry: { enabled: true, baseBackoffSecs: 1, maxBackoffSecs: 300, backoffMultiplier: 2, jitterFactor: 0.2 },
  },
  // As in the values of its document.
  agent: {
    command: null,
    retry: {
      legionary: { maxAttempts: 3, backoffSeconds: 15 },
      centurion: { maxAttempts: 1, backoffSeconds: 30 },
      tribune: { maxAttempts: 0 },
    },
    roles: [],
  },
};

/** Group by group; a group that is not known is a mistake. */
export function withDialectDefaults(given: DialectSettingsInput, path: string): DialectSettings {
  const names = Object.keys(DIALECT_DEFAULTS) as (keyof DialectSettings)[];
  const groups = asObject(given, path, names);
  const merged = names.map((name) => {
    const own = groups[name];
    const defaults: object = DIALECT_DEFAULTS[name];
    return [
      name,
      own === undefined ? defaults : { ...defaults, ...asObject(own, `${path}.${name}`, Object.keys(defaults)) },
    ];
  });
  return Object.fromEntries(merged) as unknown as DialectSettings;
}
