/** A server that stores files of attempts, and may lose them; and an attempt whose files it stores. */

import { SessionFiles } from "../../src/worker/remote-outputs/session-files.ts";
import type { Asked } from "./fake-server.ts";
import { tempDir } from "./kit.ts";
import { job, type LinkBench, never, openLink } from "./link-kit.ts";

export function keeper() {
  const kept = new Map<string, string>();
  const staged = new Map<string, string>();
  const put = ({ method, path, body }: Asked) => {
    const url = new URL(path, "http://x");
    const name = url.pathname.split("/files/")[1] as string;
    const upload = url.searchParams.get("upload");
    const [files, key] = upload === null ? [kept, name] : [staged, `${upload} ${name}`];
    if (method === "DELETE") {
      files.delete(key);
      return { status: 204 };
    }
    const offset = Number(url.searchParams.get("offset"));
    const before = files.get(key) ?? "";
    if (offset > before.length) return { json: { size: before.length } };
    const text = before.slice(0, offset) + (body ?? "");
    files.set(key, text);
    if (url.searchParams.get("last") === "true") {
      files.delete(key);
      kept.set(name, text);
    }
    return { json: { size: text.length } };
  };
  return { kept, staged, put };
}

export async function startAttempt(answer: Parameters<typeof openLink>[0]) {
  const bench: LinkBench = await openLink(answer);
  const said: string[] = [];
  const attempt = { job: job(1), session: bench.session, signal: never(), log: (line: string) => void said.push(line) };
  const files = new SessionFiles(bench.link.parts, bench.link.sessionOf);
  return { ...bench, attempt, files, said, dir: tempDir() };
}
