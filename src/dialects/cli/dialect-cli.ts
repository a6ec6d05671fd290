/** What a dialect adds to the command line and to a server: settings, routes, help, options and output of commands. All parts
 *  are optional. Commands use the registry and name no dialect. Large parts are imported when they are called. */
import type { Arguments, CommandContext, CommandOption } from "../../cli/command.ts";
import type { Config } from "../../cli/config/config.ts";
import type { SettingKey } from "../../cli/config/settings.ts";
import type { Io } from "../../cli/io.ts";
import type { Printer } from "../../cli/output/print.ts";
import type { TextPiece } from "../../cli/output/terminal-text.ts";
import type { Perdure } from "../../core/api.ts";
import type { JobInfo } from "../../core/job/views.ts";
import type { Engine } from "../../engine/engine.ts";
import type { SettledAttempt } from "../../engine/observer.ts";
import type { ServerParts } from "../../server/context.ts";
import type { ServerLog } from "../../server/log.ts";
import type { ServedRoute } from "../../server/served-route.ts";
import type { Blobs } from "../../store/blobs.ts";
import type { Resubmitted } from "../agent-task/change.ts";
import type { DialectName, ReadEntry, ViewParts } from "../dialect.ts";
import type { DialectSettings } from "../settings.ts";

export interface DialectCli {
  readonly name: DialectName;
  /** How its group of `DialectSettings` is read. */
  readonly settings?: DialectSettingsReader;
  /** What it adds to a server. Called before the server opens anything; throws if its settings are invalid for a server. */
  serve?(start: ServerStart): Promise<DialectServing>;
  /** What it adds to the help of commands, by their names. */
  readonly help?: Readonly<Record<string, DialectHelp>>;
  /** Prints a job for `perdure describe -o NAME`. */
  describe?(out: Printer, job: DescribedJob): Promise<void>;
  /** For `perdure submit NAME`: the job with a name of this dialect; null for an ordinary kind. */
  namedJob?(context: CommandContext, settings: () => Promise<DialectSettings>): Promise<ReadEntry | null>;
  /** For `perdure resubmit`: how a job is copied with changes. */
  readonly resubmit?: DialectResubmit;
}

export interface DialectHelp {
  /** Follows the command's own text. */
  readonly about?: string;
  readonly examples?: readonly string[];
}

export interface DescribedJob {
  readonly parts: ViewParts;
  readonly name: string;
  readonly state: TextPiece;
  readonly now: number;
  /** Prints the table of children, if there are any. */
  printChildren(): void;
}

export interface DialectResubmit {
  /** Added to the options of the command. */
  readonly options: readonly CommandOption[];
  /** Reads these options. Throws a usage error. */
  open(request: ResubmitRequest): Promise<JobCopier>;
}

export interface ResubmitRequest {
  readonly given: Arguments;
  readonly io: Io;
  /** Another command, with its arguments; null for the same. */
  readonly command: readonly string[] | null;
}

export interface JobCopier {
  /** Submits a job like another. */
  resubmit(perdure: Perdure, id: string, options: JobCopyOptions): Promise<Resubmitted>;
  /** What to print about the new job. */
  notes(before: JobInfo, after: JobInfo): readonly string[];
}

export interface JobCopyOptions {
  readonly key: string | undefined;
  /** Changes that do not depend on the dialect. */
  others(entry: ReadEntry): ReadEntry;
  settings(): Promise<DialectSettings>;
}

export interface DialectSettingsReader {
  readonly group: keyof DialectSettings;
  /** All settings that reading its files may need. */
  readonly keys: readonly SettingKey[];
  /** Those that change the policies of jobs. */
  readonly policyKeys: readonly SettingKey[];
  /** `cwd` is where relative paths start. */
  read(config: Config, cwd: string): object;
}

export interface ServerStart {
  readonly config: Config;
  readonly cwd: string;
  readonly log: ServerLog;
  /** Directories of the server; a dialect must not use the same. */
  readonly folders: readonly { readonly what: string; readonly path: string }[];
}

export interface DialectServing {
  routes?(parts: ServerParts): ServedRoute[];
  /** How often to search for lost attempts, if more often than by default. */
  readonly reapEveryMs?: number;
  /** Observes the engine. */
  reaped?(attempts: readonly SettledAttempt[]): void;
  /** Called with the running engine. Returns a function that stops what it started; it is called before the engine is
   *  closed. */
  start?(running: RunningEngine): () => Promise<void>;
  /** Called last, even if the server could not be opened. */
  close?(): unknown;
}

export interface RunningEngine {
  readonly engine: Engine;
  readonly blobs: Blobs;
}
