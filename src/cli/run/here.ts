/** What the steps of `perdure run` share. */
import type { Perdure } from "../../embedded/perdure.ts";
import type { Context } from "../command.ts";
import type { LiveOutput } from "./live-output.ts";

export interface Here {
  readonly perdure: Perdure;
  readonly context: Context;
  readonly live: LiveOutput;
  /** A line for the person; none with --quiet. */
  readonly say: (text: string) => void;
}

export function runs(count: number): string {
  return `${count} ${count === 1 ? "run" : "runs"}`;
}
