/** Defaults for fluster's jobs. */

export interface FlusterSettings {
  readonly defaultMaxRetriesFailure: number;
  readonly defaultMaxRetriesPreemption: number;
  readonly defaultRetryDelayMs: number;
}

export const FLUSTER_DEFAULTS: FlusterSettings = {
  defaultMaxRetriesFailure: 0,
  defaultMaxRetriesPreemption: 100,
  defaultRetryDelayMs: 1_000,
};
