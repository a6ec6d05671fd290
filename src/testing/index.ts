/** The entry point `perdure/testing`: test your tasks and policies without waiting. */
export type { StepOutcome, StepOutcomes } from "./scripted-steps.ts";
export { openTestEngine, type TestEngine, type TestEngineOptions } from "./test-engine.ts";
export { VIRTUAL_START, VirtualClock } from "./virtual-clock.ts";
