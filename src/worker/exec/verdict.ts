/** Reads what a command says of itself in its result.json. */
import { type Verdict, verdictIn } from "../../core/verdict.ts";
import { readSmallJson } from "./small-json.ts";

export async function readVerdict(path: string, owner?: number): Promise<Verdict> {
  const read = await readSmallJson(path, owner);
  if (read === null) return { kind: "none" };
  return "why" in read ? { kind: "malformed", ...read } : verdictIn(read.value);
}
