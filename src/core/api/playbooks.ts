/** Playbooks in the library's API: what a run is started from, and the catalog. */

import { ConfigError } from "../errors.ts";
import type { InputRule, StepType } from "../playbook/playbook.ts";
import type { PlaybookProblem } from "../playbook/problem.ts";
import type { PageOptions } from "./queues.ts";

export interface PlaybooksApi {
  /** Reads and checks a playbook, and stores nothing. */
  validatePlaybook(playbook: PlaybookInput): Promise<ValidationAnswer>;
  /** Adds a version of the playbook's own path to the catalog; the same text as its latest version adds none. */
  pushPlaybook(playbook: Exclude<PlaybookInput, string>, options?: PushOptions): Promise<PlaybookVersion>;
  /** The latest version of each path, by path. Where there are very many, pass a page: it holds up to 200 after the path named. */
  playbooks(page?: PageOptions): Promise<PlaybookVersion[]>;
  /** A playbook of the catalog with its text; without a version, the latest. Throws `playbook_not_found`. */
  playbook(path: string, version?: number): Promise<PlaybookInfo>;
  /** Deletes a version from the catalog, or all of a path. Runs keep what they were started with. Returns how many were deleted. */
  deletePlaybook(path: string, version?: number): Promise<number>;
}

/** A playbook to run: a path of the catalog with a version or without, a text, or a document as an object.
 *  @example
 *  const playbook: PlaybookInput = "shop/orders@3";
 *  await perdure.run(playbook, { city: "Oslo" }); */
export type PlaybookInput = string | PlaybookText | PlaybookDocument;

/** A playbook as the text of its file, in YAML or JSON.
 *  @example
 *  const text: PlaybookText = { source: await readFile("orders.yaml", "utf8"), file: "orders.yaml" }; */
export interface PlaybookText {
  readonly source: string;
  /** Named in messages. */
  readonly file?: string;
  /** The texts of other files that its steps refer to, by path relative to it: `./pay.yaml`. Without one, a relative path is
   *  searched in the catalog, beside the playbook's own path. */
  readonly files?: Readonly<Record<string, string>>;
}

/** A playbook as an object: what its file has.
 *  @example
 *  const document: PlaybookDocument = {
 *    apiVersion: "perdure/v1",
 *    kind: "Playbook",
 *    metadata: { name: "orders" },
 *    workflow: [{ step: "start", type: "task", task: "fetch-orders" }],
 *  }; */
export interface PlaybookDocument {
  readonly apiVersion: string;
  readonly workflow: readonly unknown[];
  readonly [field: string]: unknown;
}

/** A problem of a playbook with its place in the text.
 *  @example
 *  const where = ({ line, column, message }: LocatedProblem) => `${line}:${column} ${message}`; */
export interface LocatedProblem extends PlaybookProblem {
  /** From 1; null for a playbook that was given as an object. */
  readonly line: number | null;
  readonly column: number | null;
}

/** The answer to `validatePlaybook`.
 *  @example
 *  const { ok, problems }: ValidationAnswer = await perdure.validatePlaybook({ source });
 *  if (!ok) for (const { line, message } of problems) console.error(line, message); */
export interface ValidationAnswer {
  /** No problem is an error. */
  readonly ok: boolean;
  /** Errors and warnings, in the order of the text. */
  readonly problems: readonly LocatedProblem[];
  /** What is not done as the document asks, or is done otherwise. */
  readonly notes: readonly string[];
  /** Null if a problem is an error. */
  readonly playbook: PlaybookSummary | null;
}

/** A playbook in short.
 *  @example
 *  const { name, inputs }: PlaybookSummary = (await perdure.playbook("shop/orders")).summary; */
export interface PlaybookSummary {
  readonly name: string;
  readonly path: string | null;
  readonly description: string | null;
  /** SHA-256 of the compiled definition. */
  readonly hash: string;
  /** Null accepts any input. */
  readonly inputs: Readonly<Record<string, InputRule>> | null;
  readonly steps: readonly { readonly name: string; readonly type: StepType | null }[];
}

/** The options of a push.
 *  @example
 *  const options: PushOptions = { path: "shop/orders" }; */
export interface PushOptions {
  /** Instead of the path that the playbook itself has. */
  path?: string;
}

/** A version of a playbook in the catalog.
 *  @example
 *  const { path, version }: PlaybookVersion = await perdure.pushPlaybook({ source }); */
export interface PlaybookVersion {
  readonly path: string;
  /** From 1. */
  readonly version: number;
  /** SHA-256 of the compiled definition. */
  readonly hash: string;
  readonly at: number;
  readonly by: string | null;
}

/** A playbook of the catalog.
 *  @example
 *  const { source, versions }: PlaybookInfo = await perdure.playbook("shop/orders"); */
export interface PlaybookInfo extends PlaybookVersion {
  /** The text as it was pushed. */
  readonly source: string;
  readonly summary: PlaybookSummary;
  /** All versions of the path, the latest first. */
  readonly versions: readonly PlaybookVersion[];
}

/** `shop/orders@3` as path and version; null without a version. */
export function parsePlaybookPath(text: string): { readonly path: string; readonly version: number | null } {
  const [, path = "", version] = /^([^@\s]+)(?:@([1-9]\d{0,8}))?$/.exec(text) ?? [];
  if (path === "" || path.length > MAX_PATH || !PATH.test(path)) {
    const allowed = 'a path of the catalog, as in "shop/orders" or "shop/orders@3"';
    throw new ConfigError({ path: "playbook", given: text, allowed });
  }
  return { path, version: version === undefined ? null : Number(version) };
}

const MAX_PATH = 200;
const PATH = /^[A-Za-z0-9_][\w.-]*(?:\/[A-Za-z0-9_][\w.-]*)*$/;
