/** `perdure artifacts`: lists the files that a job produced, prints or saves one. */
import { posix, resolve } from "node:path";
import { type CliCommand, READING } from "../command.ts";
import { CliError, EXIT, missingArgument, requirementError, valueError } from "../exit.ts";
import { asReference, fullId } from "../jobs/job-reference.ts";
import { copyOut, saveAs } from "../output/file-output.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const artifacts: CliCommand = {
  name: "artifacts",
  summary: "List, print or save the files that a job produced",
  usage: "perdure artifacts ID [NAME] [OPTIONS]",
  about:
    "The files are those of the attempt that succeeded, else of the last one. NAME prints that file; on a terminal with " +
    "control characters escaped, into a pipe or file unchanged.",
  options: [
    { name: "attempt", short: "a", type: "string", value: "N", help: "The files of this attempt." },
    { name: "output", short: "o", type: "string", value: "FILE", help: "Save the file NAME as FILE." },
    { name: "force", type: "boolean", help: "With --output: replace an existing file." },
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
    if (word === undefined) throw missingArgument("ID", artifacts.usage);
    const short = asReference(word);
    const to = given.text("output");
    if (to !== undefined && name === undefined)
      throw requirementError("--output", "the NAME of a file, as in `perdure artifacts ID NAME -o FILE`");
    if (to?.trim() === "") throw valueError("--output", to, "the path of a file");
    if (given.flag("force") && to === undefined) throw requirementError("--force", "--output");
    const wanted = given.integer("attempt", { min: 1, max: 1_000_000_000 });
    return withPerdure(context, async (perdure) => {
      const id = await fullId(perdure, short);
      const info = await (await perdure.job(id)).get();
      const outputs = await perdure.outputs(id);
      const attempt = wanted ?? (info.state === "succeeded" ? info.attempt : outputs.attempts.at(-1));
      if (attempt === undefined || !outputs.attempts.includes(attempt)) {
        throw new CliError(EXIT.failed, `${id} has no files${wanted === undefined ? "" : ` of attempt ${wanted}`}`);
      }
      if (name !== undefined) {
        const path = posix.normalize(`artifacts/${name}`);
        const read = async () => {
          const stream = path.startsWith("artifacts/") ? await outputs.read(attempt, path) : null;
          if (stream === null) throw new CliError(EXIT.failed, `attempt ${attempt} of ${id} has no file ${name}`);
          return stream;
        };
        if (to === undefined) await copyOut(await read(), context);
        else {
          const size = await saveAs(read, { given: to, path: resolve(io.cwd, to) }, given.flag("force"));
          if (given.flag("json")) out.json({ id, attempt, name, file: to, size });
          else out.note(`saved ${to} (${size} bytes)`);
        }
        return EXIT.done;
      }
      const { files, more } = await outputs.files(attempt);
      if (given.flag("json")) out.json({ id, attempt, files, more });
      else if (files.length === 0 && more === 0) out.note(`attempt ${attempt} of ${id} has no files`);
      else {
        const size = { head: "SIZE", side: "right" } as const;
        const columns = [{ head: "NAME" }, size, { head: "TYPE", flexible: true }, { head: "SHA-256", flexible: true }];
        out.table(
          columns,
          files.map((file) => [file.name, String(file.size), file.mime, file.sha256]),
        );
        if (more > 0) out.note(`${more} more are not listed: links, unreadable files, or too many`);
      }
      return EXIT.done;
    });
  },
};
