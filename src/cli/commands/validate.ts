/** `perdure validate`: all problems of playbook files. Needs no database. */
import { counted } from "../../core/format.ts";
import { isJobDocument } from "../apply/documents.ts";
import { type CliCommand, READING } from "../command.ts";
import { loadConfig, optionsFor } from "../config/config.ts";
import { EXIT, missingArgument } from "../exit.ts";
import { painted } from "../output/terminal-text.ts";
import {
  type PlaybookFileReading,
  type PlaybookSource,
  playbookSources,
  readWithFiles,
} from "../playbooks/playbook-files.ts";
import { countsText, errorsIn, problemLines } from "../playbooks/problems.ts";

const KEYS = ["playbooks.tools"] as const;

export const validate: CliCommand = {
  name: "validate",
  summary: "Check playbook files, and list all their problems",
  usage: "perdure validate FILE… [OPTIONS]",
  about:
    "Reads playbooks, those of other systems too, with the files that their steps name as ./FILE, and prints each problem with " +
    "line and column. Exits with 2 if one is an error; warnings do not count. Nothing is stored, and no database is needed. " +
    "- reads standard input.",
  options: [...READING.filter(({ name }) => name === "json"), ...optionsFor(KEYS)],
  examples: ["perdure validate orders.yaml", "perdure validate playbooks/*.yaml --json"],

  async run(context) {
    const { given, io, out } = context;
    const names = [...new Set(given.positionals)];
    if (names.length === 0) throw missingArgument("FILE", validate.usage);
    const tools = loadConfig(context, KEYS).labels("playbooks.tools");
    const readings: PlaybookFileReading[] = [];
    for (const name of names) {
      const sources = await playbookSources(name, io);
      if ("problems" in sources) readings.push(sources);
      else for (const source of sources) readings.push(...withAdvice(source, readWithFiles(source, tools).readings));
    }
    const all = once(readings);
    if (given.flag("json")) out.json(all.map(shownReading));
    else {
      for (const reading of all) {
        for (const line of problemLines(reading)) out.line(line);
        for (const note of reading.notes) out.note(`note: ${reading.file}: ${note}`);
        const { file, playbook } = reading;
        if (playbook === null) continue;
        out.line(
          `${file}: `,
          painted("green", "valid"),
          `: ${playbook.name}, ${counted(playbook.steps.length, "step")}`,
        );
      }
      const counts = countsText(all);
      if (counts !== null) out.note(counts);
    }
    return errorsIn(all) === 0 ? EXIT.done : EXIT.usage;
  },
};

/** A file of jobs is checked by another command. */
function withAdvice(
  { yaml, file }: PlaybookSource,
  readings: readonly PlaybookFileReading[],
): readonly PlaybookFileReading[] {
  if (!readings[0]?.problems.some(({ code }) => code === "not_a_playbook") || !isJobDocument(yaml.value))
    return readings;
  const advice = `; this is a file of jobs: \`perdure apply --dry-run -f ${file}\` checks it`;
  return readings.map((reading, i) =>
    i > 0
      ? reading
      : { ...reading, problems: reading.problems.map((each) => ({ ...each, message: each.message + advice })) },
  );
}

/** A file may be given, and named by another. */
function once(readings: readonly PlaybookFileReading[]): PlaybookFileReading[] {
  const seen = new Set<string>();
  return readings.filter((reading) => {
    const key = JSON.stringify([reading.file.replace(/^\.\//, ""), reading.playbook?.name, reading.problems]);
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

function shownReading({ file, playbook, problems, notes }: PlaybookFileReading): object {
  const shown =
    playbook === null
      ? null
      : { name: playbook.name, path: playbook.path, steps: playbook.steps.map(({ name }) => name) };
  return { file, ok: playbook !== null && errorsIn([{ problems }]) === 0, playbook: shown, problems, notes };
}
