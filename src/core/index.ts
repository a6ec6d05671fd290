/** The entry point `perdure/core`: everything needed to test a policy without a database. */
export { backoffMs } from "./decision/backoff.ts";
export { classify, type FailureOutcome, type Verdict } from "./decision/classify.ts";
export {
  type Charge,
  type Counters,
  type Decision,
  type DecisionClass,
  type Delay,
  decide,
} from "./decision/decide.ts";
export {
  type Failure,
  type FailureClass,
  type FailureKind,
  failure,
  failureFrom,
  InvalidInputError,
  NonRetryableError,
  RetryAfterError,
} from "./decision/failure.ts";
export type { DecisionStep, Match } from "./decision/match.ts";
export type { Outcome, OutcomeKind } from "./decision/outcome.ts";
export { type Duration, duration, toMs } from "./duration.ts";
export { ConfigError, PerdureError } from "./errors.ts";
export { type ExplainInput, type Explanation, explain } from "./explain/explain.ts";
export { CONDITION_VARIABLES, type Condition, evaluateCondition, parseCondition } from "./expression/expression.ts";
export { type Command, type CommandDecision, decideCommand } from "./job/command.ts";
export { type EngineEvent, type JobEvent, type JobEventBody, type PerdureEvent, shownNames } from "./job/event.ts";
export { foldEvents } from "./job/fold.ts";
export type { FailReason, Job, JobProgressFields, JobState, Usage } from "./job/job.ts";
export { type Settlement, settleJob, submitJob, type Transition } from "./job/lifecycle.ts";
export type { ChangedTerms, JobTerms, RedriveChanges, RedriveTerms } from "./job/redrive.ts";
export type {
  Backoff,
  BackoffInput,
  Policy,
  PolicyFields,
  PolicyInput,
  PresetName,
  Rule,
  RuleInput,
} from "./policy/policy.ts";
export { presets } from "./policy/presets.ts";
export { resolvePolicy } from "./policy/resolve-policy.ts";
