/** The results of checks of `perdure doctor`. Checks run concurrently and independently: one that fails is a finding of its
 *  own and hides no other. */
import { EXIT, exitCodeOf } from "../exit.ts";

export type FindingLevel = "ok" | "note" | "warning" | "problem";

export interface Finding {
  readonly check: string;
  readonly level: FindingLevel;
  readonly message: string;
  /** What to do about it. */
  readonly advice: string | null;
}

export type CheckResult = Omit<Finding, "check">;

export const ok = (message: string): CheckResult => ({ level: "ok", message, advice: null });
export const note = (message: string, advice: string | null = null): CheckResult => ({
  level: "note",
  message,
  advice,
});
export const warning = (message: string, advice: string): CheckResult => ({ level: "warning", message, advice });
export const problem = (message: string, advice: string | null): CheckResult => ({ level: "problem", message, advice });

export interface DoctorCheck {
  readonly name: string;
  run(): Promise<readonly CheckResult[]>;
}

/** In the order of the checks. */
export async function findingsOf(checks: readonly DoctorCheck[]): Promise<Finding[]> {
  const found = await Promise.all(
    checks.map(async ({ name, run }) => {
      const all = await run().catch((error: unknown) => [problem(errorText(error), null)]);
      return all.map((each): Finding => ({ check: name, ...each }));
    }),
  );
  return found.flat();
}

/** The message; for a bug with a prefix. */
export function errorText(error: unknown): string {
  const words = error instanceof Error ? error.message : String(error);
  return exitCodeOf(error) === EXIT.bug ? `the check itself failed: ${words}` : words;
}
