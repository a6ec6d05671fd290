/** The options of `perdure submit` that describe a job. */
import type { Option } from "../command.ts";
import { POLICY_OPTIONS } from "../run/policy.ts";

const text = (name: string, value: string, help: string): Option => ({ name, type: "string", value, help });

export const INPUT_OPTIONS: readonly Option[] = [
  text("input", "JSON", "The input of the job."),
  text("input-file", "FILE", "A file with the input, as JSON or YAML; - reads standard input."),
  {
    ...{ name: "param", short: "p", type: "string", value: "KEY=VALUE", multiple: true },
    help: "A field of the input, as text; KEY:=JSON for any other value.",
  },
];

export const WISH_OPTIONS: readonly Option[] = [
  text("name", "NAME", "What people see in lists. Default: its action, or what it runs."),
  text("key", "KEY", "At most one job has this key: given again, it finds that job."),
  text("queue", "NAME", "The queue to wait in. Default: default."),
  text("priority", "N", "0, the first, to 9. Default: 5."),
  text("delay", "TIME", "Not before this time has passed: 30s, 2h."),
  text("run-at", "INSTANT", "Not before this instant: 2026-11-16T09:00:00Z."),
  { name: "tag", type: "string", value: "TAG", multiple: true, help: "To find it by." },
  text("timeout", "TIME", "End a run that takes longer: 30s, 5m."),
  text("expire-in", "TIME", "How long it may be due without being started."),
  text("deadline", "INSTANT", "No run may start after this instant."),
  { name: "label", type: "string", value: "NAME=VALUE", multiple: true, help: "A label that its worker must have." },
  text("cpu", "N", "Cpus that it takes of its worker: 0.5, 2."),
  text("memory", "SIZE", "Memory that it takes of its worker: 512m, 2g."),
  text("parent", "ID", "The job whose child it is."),
  {
    ...{ name: "annotation", type: "string", value: "NAME=TEXT", multiple: true },
    help: "A text to keep with it and show.",
  },
  text("retry", "JSON", 'The retry policy in full: 3, or {"preset":"agent","maxAttempts":5}.'),
  ...POLICY_OPTIONS.map((option) =>
    option.name === "max-attempts"
      ? { ...option, help: "Runs in all, the first included. Default: 1, with another option of retries 5." }
      : option,
  ),
];

/** What a mistake in a field is told of. */
export const OPTION_OF: Readonly<Record<string, string>> = {
  ...{
    kind: "KIND",
    name: "--name",
    input: "--input",
    key: "--key",
    queue: "--queue",
    priority: "--priority",
    delay: "--delay",
  },
  ...{ runAt: "--run-at", tags: "--tag", timeout: "--timeout", expireIn: "--expire-in", deadline: "--deadline" },
  ...{ parent: "--parent", annotations: "--annotation", "resources.cpu": "--cpu", "resources.memory": "--memory" },
  ...{ labels: "--label", retry: "--retry", "retry.preset": "--preset", "retry.maxAttempts": "--max-attempts" },
  ...{ "retry.backoff.initial": "--backoff", "retry.backoff.factor": "--backoff-factor" },
  ...{ "retry.backoff.max": "--backoff-max", "retry.backoff.jitter": "--jitter" },
  ...{ "retry.retryWhen": "--retry-when", "retry.stopWhen": "--stop-when" },
};
