/** Submits long lists in requests of bounded length. As in an engine of this process, when some of them cannot be stored,
 *  their jobs say so one by one: the others are there. */
import type { ErrorReply } from "../contract/error-status.ts";
import { refuseClient, toRequest } from "../contract/job-request.ts";
import { LIMIT } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import type { JobState } from "../core/job.ts";
import { checkInputs } from "../core/schema.ts";
import type { SubmitEntry } from "../core/submit-options.ts";
import type { HttpLink } from "./http-call.ts";

export interface Submitted {
  readonly id: string;
  readonly created: boolean;
  readonly chapter: number;
  readonly state: JobState;
}

type Answer = Submitted | PerdureError;

interface Request {
  readonly place: number;
  readonly text: string;
  readonly hasKey: boolean;
  /** Of its retry policy; null where it has none. */
  readonly policy: string | null;
}

/** Of one request, in characters. A server takes 10 MiB, and a character may be three bytes. */
const MAX_TEXT = 3_000_000;
/** Requests at a time. */
const TOGETHER = 2;

export async function submitMany(link: HttpLink, entries: readonly SubmitEntry[]): Promise<Answer[]> {
  const answers: Answer[] = new Array(entries.length);
  const requests: Request[] = [];
  const refused = await checkInputs(Array.from(entries));
  Array.from(entries).forEach((entry, place) => {
    const problem = refused.get(place);
    if (problem !== undefined) {
      answers[place] = problem;
      return;
    }
    try {
      const { client, key } = (entry?.options ?? {}) as { client?: unknown; key?: unknown };
      refuseClient(client, "submitMany.options.client");
      requests.push({ place, text: toRequest(entry), hasKey: key !== undefined, policy: policyOf(entry) });
    } catch (error) {
      if (!(error instanceof PerdureError)) throw error;
      answers[place] = error;
    }
  });
  const lists = listsOf(requests);
  const failed: PerdureError[] = [];
  let next = 0;
  const carry = async () => {
    while (next < lists.length && !(failed.length > 0 && failed.length === next)) {
      const list = lists[next++] as readonly Request[];
      const error = await sendList(link, list, answers);
      if (error === null) continue;
      failed.push(error);
      for (const { place } of list) answers[place] = error;
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, carry));
  // Nothing went through: that is an error of the call, and not of one job.
  if (failed[0] !== undefined && failed.length === next) throw failed[0];
  return answers;
}

async function sendList(link: HttpLink, list: readonly Request[], answers: Answer[]): Promise<PerdureError | null> {
  try {
    const reply = await link.json<{ readonly answers: readonly (Submitted | { readonly error: ErrorReply })[] }>(
      "submitJobs",
      {
        body: `{"jobs":[${list.map(({ text }) => text).join(",")}]}`,
        repeatable: list.every(({ hasKey }) => hasKey),
      },
    );
    list.forEach(({ place }, i) => {
      const answer = reply.answers[i] as Submitted | { readonly error: ErrorReply };
      answers[place] = "error" in answer ? toError(answer.error) : answer;
    });
    return null;
  } catch (error) {
    if (error instanceof PerdureError) return error;
    throw error;
  }
}

function toError({ code, message, path }: ErrorReply): PerdureError {
  return new PerdureError(code, message, path === null ? {} : { path });
}

/** Equal policies have equal texts; where one has two, a list may end sooner than it had to. */
function policyOf({ task, options }: SubmitEntry): string | null {
  const retry = options?.retry ?? (typeof task === "string" ? undefined : task.options.retry);
  return retry === undefined ? null : JSON.stringify(retry);
}

function listsOf(requests: readonly Request[]): Request[][] {
  const lists: Request[][] = [];
  const policies = new Set<string | null>();
  let size = Number.POSITIVE_INFINITY;
  for (const request of requests) {
    const isFull = (lists.at(-1)?.length ?? 0) >= LIMIT.submitMany;
    const hasTooMany = policies.size >= LIMIT.policies && !policies.has(request.policy);
    if (isFull || hasTooMany || size + request.text.length > MAX_TEXT) {
      lists.push([]);
      policies.clear();
      size = 0;
    }
    policies.add(request.policy);
    lists.at(-1)?.push(request);
    size += request.text.length;
  }
  return lists;
}
