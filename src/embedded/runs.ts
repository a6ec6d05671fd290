/** Runs and playbooks of an engine in this process. */

import type { PlaybooksApi } from "../core/api/playbooks.ts";
import { checkGraphFormat, checkRunOptions, type RunsApi } from "../core/api/runs.ts";
import { checkOptions } from "../core/check.ts";
import { type EmbeddedParts, readRow } from "./parts.ts";
import { EmbeddedRunHandle } from "./run-handle.ts";

export function embeddedRuns(parts: EmbeddedParts): RunsApi & PlaybooksApi {
  const { engine, namespace, by } = parts;
  const { runs, playbooks } = engine;
  return {
    async run(playbook, input, options = {}) {
      const checked = checkRunOptions(options);
      const { id, chapter, created } = await runs.start({ namespace, playbook, input, options: checked, by });
      return new EmbeddedRunHandle(parts, id, chapter, created);
    },
    async runHandle(id) {
      await readRow(parts, id);
      const { chapter } = await runs.info(namespace, id);
      return new EmbeddedRunHandle(parts, id, chapter, false);
    },
    runs: async (filter = {}) => runs.list(namespace, filter),
    steps: async (id, page) => runs.steps(namespace, id, page),
    redriveRun: async (id, options = {}) => runs.redrive(namespace, id, options, by),
    runGraph: async (id, format = "ascii") => runs.graph(namespace, id, checkGraphFormat(format)),

    validatePlaybook: async (playbook) => playbooks.validate(namespace, playbook),
    async pushPlaybook(playbook, options = {}) {
      checkOptions(options, ["path"], "pushPlaybook");
      return playbooks.push(namespace, playbook, options, by);
    },
    playbooks: async (page) => playbooks.list(namespace, page),
    playbook: async (path, version) => playbooks.get(namespace, path, version),
    deletePlaybook: async (path, version) => playbooks.remove(namespace, path, version),
  };
}
