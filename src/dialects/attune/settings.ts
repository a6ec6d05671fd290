/** Defaults for Attune's actions. */

export interface AttuneRetrySettings {
  readonly enabled: boolean;
  readonly baseBackoffSecs: number;
  readonly maxBackoffSecs: number;
  readonly backoffMultiplier: number;
  readonly jitterFactor: number;
}

export interface AttuneSettings {
  /** Queue TTL and execution timeout of actions without one. */
  readonly ttlSecs: number;
  readonly retry: AttuneRetrySettings;
}

export const ATTUNE_DEFAULTS: AttuneSettings = {
  ttlSecs: 300,
  retry: { enabled: true, baseBackoffSecs: 1, maxBackoffSecs: 300, backoffMultiplier: 2, jitterFactor: 0.2 },
};
