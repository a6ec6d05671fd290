/** `perdure artifacts`: the files that a job left, and one of them. */
import { posix, resolve } from "node:path";
import { type CliCommand, READING } from "../command.ts";
import { CliError, EXIT, usageError } from "../exit.ts";
import { asReference, fullId } from "../jobs/job-reference.ts";
import { copyOut, saveAs } from "../output/file-output.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const artifacts: CliCommand = {
  name: "artifacts",
  summary: "List the files that a job left, or print or save one of them",
  usage: "perdure artifacts ID [NAME] [OPTIONS]",
  about:
    "Of its winning run, or of the last one while there is no winner. NAME prints that file, " +
    "as it is into a pipe or file, and with control characters escaped on a terminal.",
  options: [
    { name: "attempt", short: "a", type: "string", value: "N", help: "Of this run." },
    { name: "output", short: "o", type: "string", value: "FILE", help: "Save the file NAME as FILE." },
    { name: "force", type: "boolean", help: "With --output: replace a file that is there already." },
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure artifacts job_01m7gekg9zevv9a6xvvwmt1v8g",
    "perdure artifacts job_01m7gekg9zevv9a6xvvwmt1v8g report.pdf -o report.pdf",
  ],

  async run(context) {
    const { given, out, io } = context;
    given.atMost(2);
    const [word, name] = given.positionals;
    if (word === undefined) throw usageError(`which job? Usage: ${artifacts.usage}`);
    const short = asReference(word);
    const to = given.text("output");
    if (to !== undefined && name === undefined)
      throw usageError("--output: name the file to save, as in ID NAME -o FILE");
    if (to?.trim() === "") throw usageError("--output: give the name of a file");
    if (given.flag("force") && to === undefined) throw usageError("--force: it goes with --output");
    const wanted = given.integer("attempt", { min: 1, max: 1_000_000_000 });
    return withPerdure(context, async (perdure) => {
      const id = await fullId(perdure, short);
      const info = await (await perdure.job(id)).get();
      const outputs = await perdure.outputs(id);
      const attempt = wanted ?? (info.state === "succeeded" ? info.attempt : outputs.attempts.at(-1));
      if (attempt === undefined || !outputs.attempts.includes(attempt)) {
        throw new CliError(EXIT.failed, `${id} left no files${wanted === undefined ? "" : ` in run ${wanted}`}`);
      }
      if (name !== undefined) {
        const path = posix.normalize(`artifacts/${name}`);
        const read = async () => {
          const stream = path.startsWith("artifacts/") ? await outputs.read(attempt, path) : null;
          if (stream === null) throw new CliError(EXIT.failed, `run ${attempt} of ${id} left no file ${name}`);
          return stream;
        };
        if (to === undefined) await copyOut(await read(), context);
        else {
          const size = await saveAs(read, { given: to, path: resolve(io.cwd, to) }, given.flag("force"));
          if (given.flag("json")) out.json({ id, attempt, name, file: to, size });
          else out.note(`saved as ${to}, ${size} bytes`);
        }
        return EXIT.done;
      }
      const { files, more } = await outputs.files(attempt);
      if (given.flag("json")) out.json({ id, attempt, files, more });
      else if (files.length === 0 && more === 0) out.note(`run ${attempt} of ${id} left no files`);
      else {
        const size = { head: "SIZE", side: "right" } as const;
        const columns = [{ head: "NAME" }, size, { head: "TYPE", flexible: true }, { head: "SHA-256", flexible: true }];
        out.table(
          columns,
          files.map((file) => [file.name, String(file.size), file.mime, file.sha256]),
        );
        if (more > 0) out.note(`not listed, as too many, links, or unreadable: ${more}`);
      }
      return EXIT.done;
    });
  },
};
