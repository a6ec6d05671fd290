/** The files that an acceptance run writes: steps with their results, and a summary as Markdown and as JSON. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export interface StepResult {
  /** The name of the step in the document. */
  readonly step: string;
  readonly result: "pass" | "fail";
  /** What was observed, or what was wrong. */
  readonly detail: string;
  readonly seconds: number;
}

export interface TestResult {
  readonly number: number;
  readonly name: string;
  readonly objective: string;
  readonly jobs: readonly string[];
  readonly passed: boolean;
  readonly steps: readonly StepResult[];
}

export interface RunSummary {
  readonly document: string;
  readonly started_at: string;
  readonly finished_at: string;
  /** The signal, or the error outside the tests, that ended the run early. */
  readonly broken_off: string | null;
  readonly environment: Readonly<Record<string, string | number>>;
  readonly tests: readonly TestResult[];
  readonly passed: number;
  readonly failed: number;
}

/** `p2_20260205T170721Z`, in UTC. */
export function evidenceName(at: Date): string {
  return `p2_${at.toISOString().replaceAll(/[-:]|\.\d+/g, "")}`;
}

export function passedAll({ tests, broken_off }: Pick<RunSummary, "tests" | "broken_off">): boolean {
  return broken_off === null && tests.length === 5 && tests.every(({ passed }) => passed);
}

const MARKS = { pass: "✅", fail: "❌" } as const;

export function summaryText(summary: RunSummary): string {
  const { document, started_at, finished_at, environment, tests, passed, failed, broken_off } = summary;
  const lines = [
    `# ${document}: acceptance run`,
    "",
    `**${passed} passed, ${failed} failed**, from ${started_at} to ${finished_at}.`,
    ...(broken_off === null ? [] : ["", `Broken off: ${broken_off}.`]),
    "",
    "| | |",
    "|---|---|",
    ...Object.entries(environment).map(([name, value]) => `| ${name} | ${cell(String(value))} |`),
  ];
  for (const { number, name, objective, jobs, passed: isPassed, steps } of tests) {
    lines.push(
      "",
      `## ${MARKS[isPassed ? "pass" : "fail"]} Test #${number}: ${name}`,
      "",
      `**Objective:** ${objective}`,
    );
    if (jobs.length > 0) lines.push("", `**Jobs:** ${jobs.map((id) => `\`${id}\``).join(", ")}`);
    lines.push("", "| | step | seen | seconds |", "|---|---|---|---|");
    for (const { step, result, detail, seconds } of steps) {
      lines.push(`| ${MARKS[result]} | ${cell(step)} | ${cell(detail)} | ${seconds.toFixed(1)} |`);
    }
  }
  return `${lines.join("\n")}\n`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll(/\s*\n\s*/g, " ");
}

export class Evidence {
  readonly dir: string;

  constructor(dir: string) {
    this.dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }

  /** Stores a response of the API, or anything else, in a separate file. */
  keep(name: string, value: unknown): void {
    const path = join(this.dir, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, typeof value === "string" ? value : `${JSON.stringify(value, null, 2)}\n`);
  }

  summarize(summary: RunSummary): void {
    this.keep("summary.json", summary);
    this.keep("SUMMARY.md", summaryText(summary));
  }
}
