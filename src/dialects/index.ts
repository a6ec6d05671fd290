/** `perdure/dialects`: reads files of the source systems, and shows jobs in their formats. */
export type { AgentChange } from "./agent-task/change.ts";
export { type ResubmitOptions, type Resubmitted, resubmit } from "./agent-task/change.ts";
export type {
  Dialect,
  DialectName,
  Difference,
  DocumentSigns,
  EventTable,
  NamedDocuments,
  ReadContext,
  ReadEntry,
  Reading,
  SqlViews,
  SqlViewsOptions,
  ViewChildren,
  ViewParts,
} from "./dialect.ts";
export { DIALECT_NAMES } from "./dialect.ts";
export { Entrypoint, type FlusterClient, type FlusterSubmit, fluster } from "./fluster/client.ts";
export type { FlusterStatus } from "./fluster/view.ts";
export {
  candidates,
  DIALECTS,
  dialectOf,
  EVENT_VIEW_NAMES,
  eventTable,
  eventView,
  JOB_VIEW_NAMES,
  jobView,
  recognise,
  submitKeysOf,
} from "./registry.ts";
export { DIALECT_DEFAULTS, type DialectSettings, dialectSettingsFrom } from "./settings.ts";
