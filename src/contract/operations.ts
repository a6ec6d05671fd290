/** What each route takes and returns. The server checks requests by it, and the OpenAPI page is made from it. Each noun has a
 *  file in `operations/`. */
import { COMMAND_OPERATIONS } from "./operations/commands.ts";
import { EVENT_OPERATIONS } from "./operations/events.ts";
import { JOB_OPERATIONS } from "./operations/jobs.ts";
import { OUTPUT_OPERATIONS } from "./operations/outputs.ts";
import { QUEUE_OPERATIONS } from "./operations/queues.ts";
import { RUN_OPERATIONS } from "./operations/runs.ts";
import { SERVER_OPERATIONS } from "./operations/server.ts";
import { SESSION_OPERATIONS } from "./operations/sessions.ts";
import { WORKER_OPERATIONS } from "./operations/workers.ts";
import type { RouteName } from "./routes.ts";
import type { Operation } from "./schemas.ts";

export const OPERATIONS: Readonly<Record<RouteName, Operation>> = {
  ...JOB_OPERATIONS,
  ...COMMAND_OPERATIONS,
  ...RUN_OPERATIONS,
  ...EVENT_OPERATIONS,
  ...OUTPUT_OPERATIONS,
  ...QUEUE_OPERATIONS,
  ...WORKER_OPERATIONS,
  ...SESSION_OPERATIONS,
  ...SERVER_OPERATIONS,
};
