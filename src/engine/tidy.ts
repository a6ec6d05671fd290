/** Removes files of a job's attempts that nobody needs any more. That it fails costs room, nothing else. */
import type { EngineParts } from "./engine.ts";

export async function tidy({ outputs, log }: EngineParts, jobId: string): Promise<void> {
  await outputs?.tidy(jobId).catch((error: unknown) => log("warn", `cannot tidy up behind ${jobId}: ${String(error)}`));
}
