/** Sends requests to a server and checks every reply: none may crash it, hang, or be a 5xx that means a fault of ours; a
 *  success must match the OpenAPI document, an error must have the format of errors. */
import { Agent, request as httpRequest } from "node:http";
import * as Check from "typebox/schema";
import { ERROR_CODES } from "../../src/core/errors.ts";
import { Dice } from "../dice.ts";
import { makeRequest, type Operation, operationsIn, type Request } from "./requests.ts";
import type { Schema } from "./values.ts";

export interface FuzzOptions {
  readonly url: string;
  readonly token: string;
  readonly seed: number;
  readonly count: number;
  readonly atOnce?: number;
}

export interface FuzzReport {
  readonly sent: number;
  readonly byStatus: ReadonlyMap<number, number>;
  /** Operations that were answered with a success at least once. */
  readonly reached: ReadonlySet<string>;
  readonly operations: readonly string[];
  /** What should not be, each with the request that showed it. */
  readonly faults: readonly string[];
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/** Longer than any wait that a request may have. */
const HANG_MS = 60_000;
const MAX_FAULTS = 20;

export async function fuzzApi({ url, token, seed, count, atOnce = 16 }: FuzzOptions): Promise<FuzzReport> {
  const dice = new Dice(seed);
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
  const send = (request: Request) => sendOne(url, request, agent);
  const plain = { operation: "", body: null, method: "GET", headers: { authorization: `Bearer ${token}` } };
  const document = JSON.parse((await send({ ...plain, path: "/openapi.json" })).text) as Schema;
  // A token that is revoked at random would end the game; making one is fine.
  const operations = operationsIn(document).filter(({ id }) => id !== "revokeToken");
  const known = new Map<string, string[]>();
  const byStatus = new Map<number, number>();
  const reached = new Set<string>();
  const faults: string[] = [];
  let left = count;

  async function one(): Promise<void> {
    const operation = dice.pick(operations) as Operation;
    const request = makeRequest(operation, dice, known, token);
    const fault = (what: string) => {
      if (faults.length < MAX_FAULTS)
        faults.push(`${what}: ${JSON.stringify({ ...request, headers: undefined }).slice(0, 1_000)}`);
    };
    try {
      const answer = await send(request);
      byStatus.set(answer.status, (byStatus.get(answer.status) ?? 0) + 1);
      const problem = problemWith(answer, operation, request);
      if (problem !== null) fault(`${answer.status} ${problem} ${answer.text.slice(0, 300)}`);
      if (answer.status < 300 && request.method === operation.method) {
        reached.add(operation.id);
        remember(known, answer, dice);
      }
    } catch (error) {
      fault(String(error));
    }
  }

  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (left-- > 0 && faults.length < MAX_FAULTS) await one();
    }),
  );
  agent.destroy();
  return { sent: count - Math.max(0, left), byStatus, reached, operations: operations.map(({ id }) => id), faults };
}

function problemWith({ status, type, text }: Answer, operation: Operation, request: Request): string | null {
  if (status >= 500 && status !== 503 && status !== 507) return "is a fault of the server";
  if (request.method === "HEAD") return null;
  const isJson = type.startsWith("application/json");
  if (status >= 400) {
    const { code, message, path, ...more } = isJson ? (JSON.parse(text) as Record<string, unknown>) : {};
    const isError = typeof code === "string" && code in ERROR_CODES && typeof message === "string";
    return isError && (path === null || typeof path === "string") && Object.keys(more).length === 0
      ? null
      : "is not an error reply";
  }
  if (request.method !== operation.method) return null; // another operation of this address
  const schema = operation.replies.get(status) ?? operation.replies.get(201);
  if (status === 204) return text === "" ? null : "has a body";
  if (schema == null || !isJson) return null;
  return Check.Check(schema as never, JSON.parse(text)) ? null : "does not match the document";
}

/** Ids, keys and tokens by the names that requests have for them. */
function remember(known: Map<string, string[]>, { text, type }: Answer, dice: Dice): void {
  if (!type.startsWith("application/json") || text.length > 100_000) return;
  const add = (name: string, value: string) => {
    const list = known.get(name) ?? [];
    known.set(name, list);
    if (list.length < 50) list.push(value);
    else list[dice.below(50)] = value;
  };
  for (const [, id] of text.matchAll(/"(job_[0-9a-z]{26})"/g))
    for (const name of ["id", "jobId"]) add(name, id as string);
  for (const [, id] of text.matchAll(/"(ses_[0-9a-z]{26})"/g)) add("session", id as string);
  const key = /"key":"([\w-]{20,})","leaseMs"/.exec(text)?.[1];
  if (key !== undefined) add("perdure-session-key", key);
  for (const [, token] of text.matchAll(/"token":"([^"]+)","payload"/g)) {
    add("token", token as string);
    add("perdure-lease", token as string);
  }
  for (const [, cursor] of text.matchAll(/"next":"([^"]+)"/g)) add("cursor", cursor as string);
}

function sendOne(base: string, { method, path, headers, body }: Request, agent: Agent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(base);
    const framed = body === null ? headers : { ...headers, "content-length": String(Buffer.byteLength(body)) };
    const request = httpRequest(
      { hostname, port, method, path, headers: framed, agent, timeout: HANG_MS },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => {
          chunks.push(chunk);
          // A stream of events has no end.
          if (response.headers["content-type"] === "text/event-stream") response.destroy();
        });
        response.once("error", reject);
        response.once("close", () => {
          const text = Buffer.concat(chunks).toString();
          resolve({ status: response.statusCode ?? 0, type: response.headers["content-type"] ?? "", text });
        });
      },
    );
    request.once("timeout", () => request.destroy(new Error("no answer: it hangs")));
    request.once("error", reject);
    request.end(body ?? undefined);
  });
}
