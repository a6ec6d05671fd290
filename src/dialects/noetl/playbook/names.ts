/** Names of NoETL's templates that mean other names here. */

/** In every playbook. */
export const NOETL_ALIASES: Readonly<Record<string, string>> = {
  vars: "ctx",
  args: "data",
  input: "data",
  input_data: "data",
  job: "run",
  "job.uuid": "run.id",
  "job.id": "run.id",
  execution: "run",
  "execution.id": "run.id",
  loop_index: "loop.index",
  _loop: "loop",
  "iter._index": "loop.index",
  "iter.index": "loop.index",
  response: "result",
  "response.status": "status_code",
  "response.status_code": "status_code",
  outcome: "result",
  "outcome.result": "result",
  "outcome.error": "error",
  output: "result",
  "output.error": "error",
  payload: "inputs",
  this: "result",
};

/** A query's rows under the names of NoETL: `STEP.command_0.rows`. */
export function rowAliases(name: string): Readonly<Record<string, string>> {
  const commands = Array.from({ length: 10 }, (_, i) => [`${name}.command_${i}`, name]);
  return { ...Object.fromEntries(commands), [`${name}.row_count`]: `${name}.rowCount` };
}
