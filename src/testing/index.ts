/** The entry point `perdure/testing`: test your tasks and policies without waiting. */
export { openTestEngine, type TestEngine, type TestEngineOptions } from "./test-engine.ts";
export { VIRTUAL_START, VirtualClock } from "./virtual-clock.ts";
