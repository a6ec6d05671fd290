/** Commands on jobs of an engine in this process. Each names who gave it, for its event. */

import type { CommandsApi } from "../core/api/commands.ts";
import { toInstant } from "../core/duration.ts";
import { PerdureError } from "../core/errors.ts";
import type { Command } from "../core/job/command.ts";
import { toRedriveTerms } from "../core/job/redrive.ts";
import type { JobInfo } from "../core/job/views.ts";
import { toInfo } from "../engine/read-job.ts";
import { redriveMany } from "../engine/redrive-many.ts";
import { type EmbeddedParts, readRow } from "./parts.ts";

export function embeddedCommands(parts: EmbeddedParts): CommandsApi {
  const { engine, namespace, by } = parts;
  const command = async (id: string, given: Command): Promise<JobInfo> => {
    await readRow(parts, id);
    return toInfo((await engine.command(id, { ...given, by })).job);
  };
  return {
    cancel: (id) => command(id, { kind: "cancel" }),
    retry: (id) => command(id, { kind: "retry" }),
    async reschedule(id, runAt) {
      return command(id, { kind: "reschedule", runAt: toInstant(runAt, "reschedule.runAt") });
    },
    async redrive(id, changes = {}) {
      return command(id, { kind: "redrive", changes: toRedriveTerms(changes) });
    },
    async redriveMany(filter, options = {}) {
      return redriveMany(engine, namespace, filter, options, by);
    },
    discard: (id) => command(id, { kind: "discard" }),

    async setUsage(id, attempt, total) {
      await readRow(parts, id);
      if (await engine.setUsage(id, attempt, total)) return;
      throw new PerdureError("lease_lost", `attempt ${attempt} of ${id} is not running`);
    },
  };
}
