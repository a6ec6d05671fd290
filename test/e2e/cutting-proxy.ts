/** An HTTP proxy that loses answers: the server has executed the request, and the client cannot know. It reads requests
 *  and answers whole, so it can report which were lost; a stream of events passes through and is never cut. */
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Dice } from "../dice.ts";

export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly status: number;
  readonly answer: string;
  readonly wasCut: boolean;
}

export interface CuttingProxy {
  readonly url: string;
  /** All requests answered by the server, in the order of their answers. */
  readonly exchanges: readonly Exchange[];
  readonly counts: { requests: number; cutBefore: number; cutAfter: number; cutWithin: number };
  /** The share of requests that is cut; 0 lets all pass. */
  share: number;
  close(): Promise<void>;
}

/** Of cut requests, most are cut after the server has answered, some before they reach it, some within the answer. */
const [BEFORE, WITHIN] = [0.15, 0.3];

/** `mustCut`: answers that are always lost. */
export async function startCuttingProxy(
  target: string,
  dice: Dice,
  share: number,
  mustCut: (exchange: Omit<Exchange, "wasCut">) => boolean = () => false,
): Promise<CuttingProxy> {
  const agent = new Agent({ keepAlive: true });
  const exchanges: Exchange[] = [];
  const counts = { requests: 0, cutBefore: 0, cutAfter: 0, cutWithin: 0 };

  async function carry(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    counts.requests += 1;
    const isCut = dice.chance(proxy.share);
    const how = dice.next();
    const body = await whole(incoming);
    const cut = () => void outgoing.socket?.resetAndDestroy();
    if (isCut && how < BEFORE) {
      counts.cutBefore += 1;
      return cut();
    }
    const { method = "GET", url: path = "/", headers } = incoming;
    const asked = request(new URL(path, target), { method, headers, agent });
    asked.on("error", cut); // the server is down, or the client has disconnected
    outgoing.once("close", () => asked.destroy());
    asked.end(body);
    const [reply] = (await once(asked, "response")) as [IncomingMessage];
    const { statusCode: status = 502 } = reply;
    if (reply.headers["content-type"]?.startsWith("text/event-stream")) {
      outgoing.writeHead(status, reply.headers);
      reply.pipe(outgoing);
      return;
    }
    const answer = await whole(reply);
    const told = { method, path, body: body.toString("utf8"), status, answer: answer.toString("utf8") };
    const isLost = mustCut(told) || (isCut && (how >= WITHIN || answer.length < 2));
    exchanges.push({ ...told, wasCut: isCut || isLost });
    if (isLost) {
      counts.cutAfter += 1;
      return cut();
    }
    const { "transfer-encoding": _, ...rest } = reply.headers;
    outgoing.writeHead(status, { ...rest, "content-length": answer.length });
    if (!isCut) return void outgoing.end(answer);
    counts.cutWithin += 1;
    outgoing.write(answer.subarray(0, answer.length >> 1), cut);
  }

  const listener = createServer({ keepAliveTimeout: 60_000 }, (incoming, outgoing) => {
    carry(incoming, outgoing).catch(() => outgoing.destroy());
  });
  await once(listener.listen(0, "127.0.0.1"), "listening");
  const proxy: CuttingProxy = {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    ...{ exchanges, counts, share },
    async close() {
      listener.closeAllConnections();
      agent.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
  return proxy;
}

async function whole(from: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of from) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
