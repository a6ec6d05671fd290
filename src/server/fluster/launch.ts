/** `LaunchJob`: a job under the name that its client chose, which is refused a second time. A client that had no reply and asks
 *  again gets `already_exists`, as from fluster's own controller. */
import { createHash } from "node:crypto";
import { PerdureError } from "../../core/errors.ts";
import type { ExecInput } from "../../core/exec-input.ts";
import type { Mutable } from "../../core/mutable.ts";
import { NO_INPUT } from "../../core/work.ts";
import { FLUSTER_PARENT, type FlusterLaunch, flusterJobId, readLaunch } from "../../dialects/fluster/controller.ts";
import { checkBuiltinKind } from "../../engine/check-builtin.ts";
import { toInfo } from "../../engine/job-info.ts";
import { LIMITS } from "../../engine/limits.ts";
import type { SubmitItem } from "../../engine/submit.ts";
import { toSubmitItem } from "../../engine/submit-request.ts";
import { isOver } from "../../lib/text.ts";
import type { JobRow } from "../../store/store.ts";
import type { Call, ServerParts } from "../parts.ts";
import { principal, storeItems } from "../routes/submit.ts";
import type { FlusterJobs } from "./jobs.ts";

export async function launchJob(
  parts: ServerParts,
  jobs: FlusterJobs,
  call: Call,
): Promise<{ readonly jobId: string }> {
  const launch = readLaunch(call.body, parts.dialects.fluster);
  const { name, parent: parentId } = launch;
  // The key alone decides which of several launches at a time is stored. This saves most repeats the upload of their bundle.
  if ((await jobs.find(call.namespace, name)) !== null) throw alreadyExists(name);
  const parent = parentId === null ? null : await jobs.get(call.namespace, parentId);
  const [answer] = await storeItems(parts, call, [await itemOf(parts, call, launch, parent)]);
  if (answer?.status === "ok" && answer.created) return { jobId: name };
  if (answer?.status !== "refused" || answer.error.code === "key_conflict") throw alreadyExists(name);
  throw answer.error;
}

async function itemOf(parts: ServerParts, call: Call, { job, bundle }: FlusterLaunch, parent: JobRow | null) {
  const upload = bundle === null ? null : await uploaded(parts, Buffer.from(bundle, "base64"));
  const { task: kind, options = {} } = job;
  const input =
    upload === null ? job.input : ({ ...(job.input as ExecInput), stdinFile: upload.stdinFile } as ExecInput);
  checkBuiltinKind(kind, input, upload?.id);
  const payload = input === undefined ? NO_INPUT : JSON.stringify(input);
  if (isOver(payload, LIMITS.payloadBytes)) throw tooLarge();
  const item: Mutable<SubmitItem> = toSubmitItem({
    ...{ kind, payload, namespace: call.namespace },
    options: {
      ...options,
      ...(upload === null ? {} : { upload: upload.id }),
      ...(parent === null ? {} : { parent: parent.id }),
      annotations: {
        ...options.annotations,
        ...(parent === null ? {} : { [FLUSTER_PARENT]: flusterJobId(toInfo(parent)) }),
      },
    },
  });
  item.by = principal(call);
  item.token = call.who.id;
  item.isWideKey = true; // one name is one job, whichever its parent is
  return item;
}

/** Under the id that becomes the job's. One that no job is stored with is removed later. */
async function uploaded({ engine }: ServerParts, bytes: Buffer) {
  const id = engine.newUpload();
  await engine.writeUpload(id, 0, once(bytes), bytes.length);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { id, stdinFile: { bytes: bytes.length, sha256 } };
}

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function alreadyExists(name: string): PerdureError {
  return new PerdureError("key_conflict", `Job ${name} already exists`, { path: "name" });
}

function tooLarge(): PerdureError {
  const limit = `serialized_entrypoint and all that is to be stored with it may have ${LIMITS.payloadBytes} bytes in base64`;
  const message = `${limit}; put large values into bundle_blob, or where the worker finds them`;
  return new PerdureError("body_too_large", message, { path: "serialized_entrypoint" });
}
