/** The door `perdure/core`: everything needed to test a policy without a database. */
export { backoffMs } from "./backoff.ts";
export { classify, type FailureOutcome, type Verdict } from "./classify.ts";
export { type Command, type CommandDecision, decideCommand } from "./command.ts";
export { type Charge, type Counters, type Decision, type DecisionClass, type Delay, decide } from "./decide.ts";
export { type Duration, duration, toMs } from "./duration.ts";
export { ConfigError, PerdureError } from "./errors.ts";
export { type EngineEvent, type JobEvent, type JobEventBody, type PerdureEvent, shownNames } from "./event.ts";
export { type ExplainInput, type Explanation, explain } from "./explain.ts";
export { CONDITION_VARIABLES, type Condition, evaluateCondition, parseCondition } from "./expression.ts";
export {
  type Failure,
  type FailureClass,
  type FailureKind,
  failure,
  failureFrom,
  InvalidInputError,
  NonRetryableError,
  RetryAfterError,
} from "./failure.ts";
export { foldEvents } from "./fold.ts";
export type { FailReason, Job, JobProgressFields, JobState, Usage } from "./job.ts";
export { type Settlement, settleJob, submitJob, type Transition } from "./lifecycle.ts";
export type { Outcome, OutcomeKind } from "./outcome.ts";
export type {
  Backoff,
  BackoffInput,
  Policy,
  PolicyFields,
  PolicyInput,
  PresetName,
  Rule,
  RuleInput,
} from "./policy.ts";
export { presets } from "./presets.ts";
export type { ChangedTerms, JobTerms, RedriveChanges, RedriveTerms } from "./redrive.ts";
export { resolvePolicy } from "./resolve-policy.ts";
