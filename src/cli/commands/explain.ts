/** `perdure explain`: why a job is where it is, as its stored history tells it. */
import { originOf } from "../../dialects/origin.ts";
import { painted } from "../colour.ts";
import { type Command, READING } from "../command.ts";
import { EXIT } from "../exit.ts";
import { fullId } from "../job-reference.ts";
import { TARGET, withPerdure } from "../target.ts";

export const explain: Command = {
  name: "explain",
  summary: "Tell why a job ended as it did, or why it waits",
  usage: "perdure explain ID [OPTIONS]",
  about: "Told from the job's stored history: what each attempt did, which rule decided, and what comes next.",
  options: [...TARGET, ...READING],
  examples: ["perdure explain job_01m7gekg9zevv9a6xvvwmt1v8g"],

  async run(context) {
    const { given, out } = context;
    const short = given.jobId();
    const [story, job] = await withPerdure(context, async (perdure) => {
      const id = await fullId(perdure, short);
      return Promise.all([perdure.explain(id), perdure.job(id).then((handle) => handle.get())]);
    });
    const origin = originOf(job);
    if (given.flag("json")) out.json(origin === null ? story : { ...story, resubmitOf: origin });
    else {
      out.line(painted("bold", story.summary));
      if (origin !== null) out.line(`It is a resubmit of ${origin}.`);
      for (const line of story.lines) out.block(line);
    }
    return EXIT.done;
  },
};
