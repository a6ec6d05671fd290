/** A prompt becomes a job of kind `exec`: the engine that is configured, under the policy that OPAL's variables say. The
 *  job's own id is Perdure's; the client's is in its submit key, so that one id is one job, whoever sends it how often.
 *  A repeat is answered as the first was. After a change of the engine it is another body, and refused. */
import { randomBytes } from "node:crypto";
import { exec } from "../../core/builtin.ts";
import { PerdureError } from "../../core/errors.ts";
import { resolvePolicy } from "../../core/resolve-policy.ts";
import { opalExec } from "../../dialects/opal/exec.ts";
import { opalJobPolicy, opalRetry } from "../../dialects/opal/retry.ts";
import { opalPolicy } from "../../dialects/opal/settings.ts";
import { OPAL_TAG, opalId, opalKey, opalStatus } from "../../dialects/opal/words.ts";
import { checkBuiltinKind } from "../../engine/check-builtin.ts";
import { LIMITS } from "../../engine/limits.ts";
import type { SubmitAnswer, SubmitItem } from "../../engine/submit.ts";
import { isOver } from "../../lib/text.ts";
import { type Call, type Handler, JsonText, type ServerParts } from "../parts.ts";
import { principal } from "../routes/submit.ts";
import { ANONYMOUS } from "./anonymous.ts";
import { type OpalForm, readForm, tooLarge } from "./form.ts";
import type { OpalOptions } from "./options.ts";

/** An id of 12 hex digits may be taken: once in some million millions. */
const DRAWS = 3;

export function opalSubmit(parts: ServerParts, options: OpalOptions): Handler {
  const ofServer = resolvePolicy(opalPolicy(options.settings), "opal");

  function toItem(call: Call, form: OpalForm, id: string): SubmitItem {
    const { prompt, metadata, inputFile } = form;
    const file = inputFile === null ? {} : { inputFile };
    const retry = opalRetry(form.retry, "retry");
    const input = opalExec({ engine: engineOf(options), prompt, metadata, retry, opalId: id, ...file });
    checkBuiltinKind(exec.kind, input);
    const payload = JSON.stringify(input);
    if (isOver(payload, LIMITS.payloadBytes)) throw tooLarge();
    const policy = retry === null ? ofServer : resolvePolicy(opalJobPolicy(options.settings, retry), "retry");
    return {
      ...{ kind: exec.kind, payload, policy, namespace: call.namespace, key: opalKey(id), tags: [OPAL_TAG] },
      ...(call.who === ANONYMOUS ? { by: "opal:anonymous" } : { by: principal(call), token: call.who.id }),
    };
  }

  async function submit(call: Call, form: OpalForm, id: string): Promise<SubmitAnswer> {
    const [answer] = await parts.engine.submit([toItem(call, form, id)]);
    return answer as SubmitAnswer;
  }

  return async (call) => {
    engineOf(options); // before a body is read for nothing
    const form = await readForm(call);
    const isOurs = form.jobId === undefined || form.jobId === null;
    for (let draw = 1; ; draw++) {
      const id = opalId(form.jobId, randomBytes);
      const answer = await submit(call, form, id);
      if (answer.status === "ok" && (answer.created || !isOurs)) {
        return new JsonText(JSON.stringify({ id, status: opalStatus(answer.state) }), 201);
      }
      const isTaken = answer.status === "ok" || answer.error.code === "key_conflict";
      if (isTaken && isOurs && draw < DRAWS) continue;
      throw answer.status === "ok" ? conflict(id) : answer.error.code === "key_conflict" ? conflict(id) : answer.error;
    }
  };
}

function engineOf({ engine }: OpalOptions): readonly string[] {
  if (engine !== null) return engine;
  const message = "no opal.engine is configured, so nothing here can run a prompt; set it and start the server again";
  throw new PerdureError("wrong_state", message, { path: "opal.engine" });
}

function conflict(id: string): PerdureError {
  const message = `job_id: ${id} belongs to a job with another prompt, metadata, file, retry or engine; use another id`;
  return new PerdureError("key_conflict", message, { path: "job_id" });
}
