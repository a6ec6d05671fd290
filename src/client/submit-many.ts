/** Submits long lists in requests of bounded length. As in an engine of this process, each job that cannot be stored has its own
 *  error, and the others are stored. */

import { refuseClient, toRequest } from "../contract/job-request.ts";
import { type ErrorReply, LIMIT } from "../contract/wire.ts";
import { PerdureError } from "../core/errors.ts";
import { checkInputs } from "../core/input/submit-check.ts";
import type { JobState } from "../core/job/job.ts";
import type { SubmitEntry } from "../core/task/task.ts";
import type { ClientHttpLink } from "./http-call.ts";

export interface SubmittedItem {
  readonly id: string;
  readonly created: boolean;
  readonly chapter: number;
  readonly state: JobState;
}

type ItemAnswer = SubmittedItem | PerdureError;

interface ItemRequest {
  readonly place: number;
  readonly text: string;
  readonly hasKey: boolean;
  /** Of its retry policy; null where it has none. */
  readonly policy: string | null;
}

/** Characters of one request. A server accepts 10 MiB, and a character may be three bytes. */
const MAX_TEXT = 3_000_000;
/** Concurrent requests. */
const TOGETHER = 2;

export async function submitMany(link: ClientHttpLink, entries: readonly SubmitEntry[]): Promise<ItemAnswer[]> {
  const answers: ItemAnswer[] = new Array(entries.length);
  const requests: ItemRequest[] = [];
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
      const list = lists[next++] as readonly ItemRequest[];
      const error = await sendList(link, list, answers);
      if (error === null) continue;
      failed.push(error);
      for (const { place } of list) answers[place] = error;
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, carry));
  // No request succeeded: that is an error of the call, not of one job.
  if (failed[0] !== undefined && failed.length === next) throw failed[0];
  return answers;
}

async function sendList(
  link: ClientHttpLink,
  list: readonly ItemRequest[],
  answers: ItemAnswer[],
): Promise<PerdureError | null> {
  try {
    const reply = await link.json<{ readonly answers: readonly (SubmittedItem | { readonly error: ErrorReply })[] }>(
      "submitJobs",
      {
        body: `{"jobs":[${list.map(({ text }) => text).join(",")}]}`,
        repeatable: list.every(({ hasKey }) => hasKey),
      },
    );
    list.forEach(({ place }, i) => {
      const answer = reply.answers[i] as SubmittedItem | { readonly error: ErrorReply };
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

/** Equal policies usually have equal texts; where they do not, a request may be shorter than necessary. */
function policyOf({ task, options }: SubmitEntry): string | null {
  const retry = options?.retry ?? (typeof task === "string" ? undefined : task.options.retry);
  return retry === undefined ? null : JSON.stringify(retry);
}

function listsOf(requests: readonly ItemRequest[]): ItemRequest[][] {
  const lists: ItemRequest[][] = [];
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
