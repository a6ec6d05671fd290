/** What the steps of `perdure run` share. */
import type { Perdure } from "../../core/face.ts";
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

/** Begins a line of its own, also behind half a line of the command's. */
export function sayer({ given, out }: Context, live: LiveOutput): Here["say"] {
  return (text) => {
    if (given.flag("quiet")) return;
    live.endLine("stderr");
    out.note(text);
  };
}
