/** The service that the example playbooks with an input `base` call, on a port of its own, with what was sent to it. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

interface Call {
  readonly route: string;
  readonly key: string | undefined;
  readonly body: unknown;
}

export interface PlaybookService {
  /** Without a path. */
  readonly url: string;
  readonly calls: readonly Call[];
  close(): void;
}

export const ORDERS = [["a1", "a2"], ["b1", "b2"], ["c1"]];
const WEATHER: Readonly<Record<string, number>> = { Oslo: 4, Bergen: 9, Tromsø: -3 };

/** `seen`: cities that were asked for. The first request for Oslo comes too early. */
function answer(url: URL, call: Call, seen: Set<string>): readonly [status: number, body: unknown] {
  const { pathname: path, searchParams: query } = url;
  switch (call.route) {
    case "GET /weather": {
      const city = query.get("city") ?? "";
      const isEarly = city === "Oslo" && !seen.has(city);
      seen.add(city);
      if (isEarly) return [503, { error: "starting" }];
      return city in WEATHER ? [200, { city, temperature: WEATHER[city] }] : [404, { error: `no city ${city}` }];
    }
    case "GET /orders": {
      const page = Number(query.get("page"));
      return [200, { ids: ORDERS[page - 1], next: page < ORDERS.length ? page + 1 : null }];
    }
    case "GET /users/u-17":
      return [200, { name: "Ada" }];
    case "GET /users/u-17/orders":
      return [200, ["a1", "b2"]];
    case "GET /users/u-17/offers":
      return [200, ["10 %"]];
    case "GET /down/prices":
      return [503, "out of order"];
    case "GET /down/cache/prices":
      return [200, [{ sku: "a1", price: 3, age: "2 h", because: query.get("reason") }]];
    case "GET /up/prices":
      return [200, [{ sku: "a1", price: 3 }]];
    case "POST /payments":
      return [201, { id: `p-${(call.body as { amount: number }).amount}` }];
    case "POST /receipts":
      return [201, { receipt: "r-1" }];
    default:
      return [404, { error: `nothing at ${path}` }];
  }
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text === "" ? null : JSON.parse(text);
}

export async function startPlaybookService(): Promise<PlaybookService> {
  const calls: Call[] = [];
  const seen = new Set<string>();
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const url = new URL(request.url ?? "/", "http://service");
      const key = request.headers["idempotency-key"] as string | undefined;
      const call = { route: `${request.method} ${decodeURI(url.pathname)}`, key, body };
      calls.push(call);
      const [status, reply] = answer(url, call, seen);
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(reply));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
