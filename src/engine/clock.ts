/** The clock of the machine. */
export { systemClock } from "../lib/system-clock.ts";
