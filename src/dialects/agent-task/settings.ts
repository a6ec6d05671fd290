/** Defaults for AgentTask manifests; those of its document. */

export const AGENT_TIERS = ["legionary", "centurion", "tribune"] as const;
export type AgentTier = (typeof AGENT_TIERS)[number];

export interface AgentRetrySettings {
  readonly maxAttempts?: number;
  readonly backoffSeconds?: number;
  readonly maxBackoffSeconds?: number;
}

export interface AgentSettings {
  /** The program that runs tasks without a command; null if none is set. */
  readonly command: readonly string[] | null;
  readonly retry: Readonly<Partial<Record<AgentTier, AgentRetrySettings>>>;
  /** `ClusterAgentRole` documents. */
  readonly roles: readonly unknown[];
}

export const AGENT_DEFAULTS: AgentSettings = {
  command: null,
  retry: {
    legionary: { maxAttempts: 3, backoffSeconds: 15 },
    centurion: { maxAttempts: 1, backoffSeconds: 30 },
    tribune: { maxAttempts: 0 },
  },
  roles: [],
};
