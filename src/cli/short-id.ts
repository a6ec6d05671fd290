/** Short ids, as narrow lists show them; every command takes them (`job-reference.ts`). */
import type { JobInfo } from "../core/views.ts";

/** Time and a counter fill this much of an id: the rest is drawn, and differs only between programs. */
const USUAL = 14;

/** Ids as a narrow list shows them: as many characters as tell these jobs apart, and usually all others. */
export function shortIds(jobs: readonly Pick<JobInfo, "id">[]): readonly string[] {
  const ids = jobs.map(({ id }) => id);
  const whole = "job_".length + 26;
  let length = "job_".length + USUAL;
  while (length < whole && new Set(ids.map((id) => id.slice(0, length))).size < ids.length) length += 1;
  return ids.map((id) => id.slice(0, length));
}
