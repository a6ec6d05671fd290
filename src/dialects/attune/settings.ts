/** What holds for Attune's actions where their files say nothing. */

export interface AttuneRetrySettings {
  readonly enabled: boolean;
  readonly baseBackoffSecs: number;
  readonly maxBackoffSecs: number;
  readonly backoffMultiplier: number;
  readonly jitterFactor: number;
}

export interface AttuneSettings {
  /** Queue TTL and execution timeout of actions that have none. */
  readonly ttlSecs: number;
  readonly retry: AttuneRetrySettings;
}

export const ATTUNE_DEFAULTS: AttuneSettings = {
  ttlSecs: 300,
  retry: { enabled: true, baseBackoffSecs: 1, maxBackoffSecs: 300, backoffMultiplier: 2, jitterFactor: 0.2 },
};
