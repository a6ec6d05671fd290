import { describe, expect, it, vi } from "vitest";
import { checkHttpInput, type HttpInput } from "../../core/input/http-input.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { type ExchangeOptions, exchange, type Lookup } from "./exchange.ts";
import { CERTIFICATE, freePort, serve, serveRaw, type TestServer } from "./testing-server.ts";

function fetched(input: HttpInput, options: Partial<ExchangeOptions> = {}) {
  const { signal } = new AbortController();
  const full = { allow: ["127.0.0.1", "::1"], clock: systemClock, signal, ...options };
  return exchange(checkHttpInput(input, "input"), full);
}

/** A lookup that returns one answer after the other, and then always the last one. */
function answers(...lists: string[][]): Lookup & { readonly asked: string[] } {
  const asked: string[] = [];
  const lookup = async (host: string) => {
    const list = lists[Math.min(asked.length, lists.length - 1)] ?? [];
    asked.push(host);
    return list.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  };
  return Object.assign(lookup, { asked });
}

const closed = (server: TestServer) => vi.waitFor(() => expect(server.open.size).toBe(0), { timeout: 60_000 });

describe("an exchange", () => {
  it("sends what it was given and gives back what came", async () => {
    await using server = await serve((response) => {
      response.setHeader("Set-Cookie", ["a=1", "b=2"]);
      response.writeHead(201, { "X-One": "1" }).end("made");
    });
    const headers = { "X-Two": "2", __proto: "x" };
    const reply = await fetched({ url: `${server.url}/p?q=1#f`, method: "PATCH", headers, body: { a: "é" } });
    expect(reply).toMatchObject({ status: 201, bytes: Buffer.from("made"), isCut: false, url: `${server.url}/p` });
    expect(reply.headers).toMatchObject({ "x-one": "1", "set-cookie": ["a=1", "b=2"] });
    const [request] = server.requests;
    expect(request).toMatchObject({ method: "PATCH", url: "/p?q=1", body: '{"a":"é"}' });
    expect(request?.headers).toMatchObject({
      ...{ host: `127.0.0.1:${server.port}`, connection: "close", "accept-encoding": "gzip, br" },
      ...{ "x-two": "2", __proto: "x", "content-type": "application/json", "content-length": "10" },
    });
    await closed(server);
  });

  it("sends the length of every body, so that it is not parsed as another request", async () => {
    await using server = await serve((response) => response.end());
    for (const method of ["DELETE", "OPTIONS", "PROPFIND"]) {
      await fetched({ url: server.url, method, body: "GET / HTTP/1.1\r\n\r\n" });
    }
    await fetched({ url: server.url, method: "POST" });
    expect(server.requests.map(({ headers }) => headers["content-length"])).toEqual(["18", "18", "18", "0"]);
    expect(server.connections).toBe(4);
  });

  it("reads headers of any name", async () => {
    const text = "HTTP/1.1 200 OK\r\n__proto__: a\r\nconstructor: b\r\nConstructor: c\r\nContent-Length: 0\r\n\r\n";
    await using server = await serveRaw((socket) => socket.end(text));
    const { headers } = await fetched({ url: server.url });
    expect(JSON.stringify(headers)).toBe('{"__proto__":"a","constructor":"b, c","content-length":"0"}');
  });

  it("reads no proxy from the environment", async () => {
    await using proxy = await serve((response) => response.end("proxy"));
    await using server = await serve((response) => response.end("server"));
    const names = ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"];
    for (const name of names) vi.stubEnv(name, proxy.url);
    vi.stubEnv("NODE_USE_ENV_PROXY", "1");
    try {
      expect((await fetched({ url: server.url })).bytes.toString()).toBe("server");
    } finally {
      vi.unstubAllEnvs();
    }
    expect(proxy.connections).toBe(0);
  });

  it("uses the name for TLS, not the address", async () => {
    await using server = await serve((response) => response.end("secret"), { tls: true });
    const lookup = answers(["127.0.0.1"]);
    const options = { lookup, ca: CERTIFICATE };
    expect((await fetched({ url: `https://tls.test:${server.port}` }, options)).bytes.toString()).toBe("secret");
    const wrongName = fetched({ url: `https://other.test:${server.port}` }, options);
    await expect(wrongName).rejects.toMatchObject({ code: "ERR_TLS_CERT_ALTNAME_INVALID" });
    const unknown = fetched({ url: `https://tls.test:${server.port}` }, { lookup });
    await expect(unknown).rejects.toMatchObject({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    const warning = vi.spyOn(process, "emitWarning").mockReturnValue(); // Node's own, of what follows
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    try {
      const still = fetched({ url: `https://tls.test:${server.port}` }, { lookup });
      await expect(still).rejects.toMatchObject({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    } finally {
      vi.unstubAllEnvs();
      warning.mockRestore();
    }
  });

  it.each<[string, string, string]>([
    ["nothing", "", "ECONNRESET"],
    ["another protocol", "SSH-2.0-OpenSSH\r\n", "HPE_INVALID_CONSTANT"],
    ["an upgrade", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "ECONNRESET"],
    ["endless headers", `HTTP/1.1 200 OK\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, "HPE_HEADER_OVERFLOW"],
  ])("that is answered with %s is an error", async (_, text, code) => {
    await using server = await serveRaw((socket) => socket.end(text));
    await expect(fetched({ url: server.url })).rejects.toMatchObject({ code });
  });

  it("without a listener is the system's error", async () => {
    const refused = fetched({ url: `http://127.0.0.1:${await freePort()}` });
    await expect(refused).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await expect(fetched({ url: "http://a.test" }, { lookup: answers([]) })).rejects.toMatchObject({
      code: "ENOTFOUND",
    });
  });
});

describe("a blocked address", () => {
  const refusal = { code: "blocked_address", class: "invalid" };

  it.each([
    ..."127.0.0.1 [::ffff:7f00:1] [::ffff:a9fe:a9fe] 2130706433 2852039166 0x7f.1 0177.0.0.1 127.1".split(" "),
    ..."①②⑦.0.0.1 127。0。0。1 0.0.0.0 0 [::1] [::] 127.0.0.1. localhost LOCALHOST".split(" "),
    ..."[64:ff9b::7f00:1] [2002:7f00:1::] [fd00:ec2::254] 169.254.169.254".split(" "),
  ])("is refused however it is written: %s", async (host) => {
    await using server = await serve((response) => response.end("inside"));
    const onBlocked = vi.fn();
    const refused = fetched({ url: `http://${host}:${server.port}/` }, { allow: [], onBlocked });
    await expect(refused).rejects.toMatchObject(refusal);
    expect(server.connections).toBe(0);
    expect(onBlocked).toHaveBeenCalledOnce();
  });

  it("is refused behind a name, and not part of the message", async () => {
    for (const address of ["10.1.2.3", "169.254.169.254", "fd00::1", "::ffff:10.1.2.3", "fe80::1%eth0"]) {
      const refused = fetched({ url: "http://inside.test/?q=s3cret" }, { lookup: answers([address]) });
      const message = expect.stringMatching(/^inside\.test is a .*allowAddresses/);
      await expect(refused).rejects.toMatchObject({ ...refusal, message });
      await expect(refused).rejects.not.toMatchObject({ message: expect.stringContaining(address) });
    }
  });

  it("is refused among others of the same name", async () => {
    await using server = await serve((response) => response.end("inside"));
    const url = `http://mixed.test:${server.port}`;
    for (const list of [
      ["127.0.0.1", "10.0.0.1"],
      ["10.0.0.1", "127.0.0.1"],
    ]) {
      await expect(fetched({ url }, { lookup: answers(list) })).rejects.toMatchObject(refusal);
    }
    await expect(fetched({ url }, { allow: [], lookup: answers(["8.8.8.8", "127.0.0.1"]) })).rejects.toMatchObject(
      refusal,
    );
    expect(server.connections).toBe(0);
  });

  it("does not come by asking twice: a name is resolved once, and that address is used", async () => {
    await using server = await serve((response) => response.end("here"));
    const lookup = answers(["127.0.0.1"], ["10.0.0.1"]);
    expect((await fetched({ url: `http://rebind.test:${server.port}` }, { lookup })).bytes.toString()).toBe("here");
    expect(lookup.asked).toEqual(["rebind.test"]);
  });

  it("is refused when the name leads there at the next hop only", async () => {
    await using server = await serve((response) => response.writeHead(302, { location: "/again" }).end());
    const lookup = answers(["127.0.0.1"], ["10.0.0.1"]);
    await expect(fetched({ url: `http://rebind.test:${server.port}` }, { lookup })).rejects.toMatchObject(refusal);
    expect(server.requests).toHaveLength(1);
  });

  it.each(["http://127.0.0.2/", "http://[::1]/", "//127.0.0.2", "http://0x7f.2/", "http://169.254.169.254/latest/"])(
    "is refused after a redirect from an allowed one to %s",
    async (location) => {
      await using server = await serve((response) => response.writeHead(302, { location }).end("body"));
      await expect(fetched({ url: server.url }, { allow: ["127.0.0.1"] })).rejects.toMatchObject(refusal);
      await closed(server);
    },
  );

  it("is refused by what the socket is connected to, before a byte of the request is sent", async () => {
    await using server = await serve((response) => response.end("inside"));
    // A malicious lookup: public on the first read, private later.
    let looks = 0;
    const shifty = {
      family: 4,
      get address() {
        looks += 1;
        return looks === 1 ? "8.8.8.8" : "127.0.0.1";
      },
    };
    const url = `http://shifty.test:${server.port}`;
    await expect(fetched({ url }, { allow: [], lookup: async () => [shifty] })).rejects.toMatchObject(refusal);
    expect(looks).toBeGreaterThan(1);
    await vi.waitFor(() => expect(server.connections).toBe(1), { timeout: 60_000 });
    await closed(server);
    expect(server.requests).toEqual([]);
  });

  it("may be allowed", async () => {
    await using server = await serve((response) => response.end("inside"));
    const allowed = await fetched(
      { url: `http://localhost:${server.port}` },
      { allow: ["private"], lookup: answers(["127.0.0.1"]) },
    );
    expect(allowed.status).toBe(200);
    expect((await fetched({ url: server.url }, { allow: ["127.0.0.0/8"] })).status).toBe(200);
    const mapped = `http://[::ffff:127.0.0.1]:${server.port}`;
    expect((await fetched({ url: mapped }, { allow: ["127.0.0.1"] })).status).toBe(200);
  });
});

describe("redirects", () => {
  it("are followed, as far as they are allowed", async () => {
    await using server = await serve((response, { url }) => {
      const left = Number(url.slice(1));
      if (left > 0) response.writeHead(302, { location: `/${left - 1}` });
      response.end(url);
    });
    expect(await fetched({ url: `${server.url}/3` })).toMatchObject({ status: 200, url: `${server.url}/0` });
    expect(await fetched({ url: `${server.url}/1`, redirects: 1 })).toMatchObject({ status: 200 });
    const reply = await fetched({ url: `${server.url}/1`, redirects: 0 });
    expect(reply).toMatchObject({ status: 302, headers: { location: "/0" }, bytes: Buffer.from("/1") });
    const tooMany = { code: "too_many_redirects", class: "logical" };
    await expect(fetched({ url: `${server.url}/4` })).rejects.toMatchObject(tooMany);
    await expect(fetched({ url: `${server.url}/2`, redirects: 1 })).rejects.toMatchObject(tooMany);
    await closed(server);
  });

  it("leave no connection open, whatever their body is", async () => {
    await using server = await serve((response, { url }) => {
      if (url === "/") response.writeHead(302, { location: "/next" }).write("and that is not all");
      else response.end();
    });
    expect((await fetched({ url: server.url })).status).toBe(200);
    await closed(server);
  });

  it("in a circle end", async () => {
    await using server = await serve((response) => response.writeHead(307, { location: "/" }).end());
    await expect(fetched({ url: server.url })).rejects.toMatchObject({ code: "too_many_redirects" });
    expect(server.requests).toHaveLength(4);
  });

  it("take secrets along to the same origin only", async () => {
    await using other = await serve((response) => response.end());
    await using server = await serve((response, { url }) => {
      response.writeHead(307, { location: url === "/" ? "/same" : `${other.url}/other` }).end();
    });
    const headers = { authorization: "t", cookie: "c", "x-trace": "1" };
    await fetched({ url: server.url, method: "POST", body: "b", headers });
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(["t", "t"]);
    expect(other.requests).toMatchObject([{ method: "POST", url: "/other", body: "b" }]);
    expect(other.requests[0]?.headers).not.toHaveProperty("x-trace");
    expect(other.requests[0]?.headers).not.toHaveProperty("authorization");
    expect(other.requests[0]?.headers).not.toHaveProperty("cookie");
  });

  it("never downgrade from https", async () => {
    await using plain = await serve((response) => response.end());
    await using server = await serve((response) => response.writeHead(302, { location: plain.url }).end(), {
      tls: true,
    });
    const options = { lookup: answers(["127.0.0.1"]), ca: CERTIFICATE };
    const away = fetched({ url: `https://tls.test:${server.port}` }, options);
    await expect(away).rejects.toMatchObject({ code: "bad_redirect" });
    expect(plain.connections).toBe(0);
  });
});

describe("time", () => {
  const timedOut = { name: "TimeoutError", code: "ETIMEDOUT", class: "transient" };
  const input = (url: string) => ({ url, timeout: "5s" as const });

  it("is up for a server that never answers", async () => {
    const clock = new VirtualClock();
    await using server = await serve(() => clock.moveTo(clock.now() + 5_000));
    const message = `timed out after 5 s: ${server.url}/`;
    await expect(fetched(input(`${server.url}/?s3cret`), { clock })).rejects.toMatchObject({ ...timedOut, message });
    await closed(server);
  });

  it("is up for a slow drip, which is an answer without an end", async () => {
    const clock = new VirtualClock();
    await using server = await serve((response) => {
      const drip = setInterval(() => {
        response.write(".");
        clock.moveTo(clock.now() + 1_000);
      }, 5);
      response.on("close", () => clearInterval(drip));
    });
    await expect(fetched(input(server.url), { clock })).rejects.toMatchObject(timedOut);
    await closed(server);
  });

  it("is one for all hops", async () => {
    const clock = new VirtualClock();
    await using server = await serve((response) => {
      clock.moveTo(clock.now() + 2_000);
      response.writeHead(302, { location: "/" }).end();
    });
    await expect(fetched(input(server.url), { clock })).rejects.toMatchObject(timedOut);
    expect(server.requests).toHaveLength(3);
  });

  it("is up for a name that is not resolved", async () => {
    const clock = new VirtualClock();
    const lookup = () => {
      clock.moveTo(clock.now() + 5_000);
      return new Promise<never>(() => {});
    };
    await expect(fetched(input("http://slow.test"), { clock, lookup })).rejects.toMatchObject(timedOut);
  });

  it("leaves no timer behind", async () => {
    const clock = new VirtualClock();
    await using server = await serve((response) => response.end());
    await fetched(input(server.url), { clock });
    expect(clock.nextAt()).toBeNull();
    await expect(fetched(input("http://10.0.0.1"), { clock })).rejects.toThrow();
    expect(clock.nextAt()).toBeNull();
  });
});

describe("a signal", () => {
  const given = { name: "AbortError", code: "ABORT_ERR" };

  it.each<[string, (abort: () => void) => Parameters<typeof serve>[0]]>([
    ["before the answer", (abort) => abort],
    [
      "within the body",
      (abort) => (response) => {
        response.write("some");
        setImmediate(abort);
      },
    ],
  ])("ends it %s, and the connection with it", async (_, answer) => {
    const stop = new AbortController();
    await using server = await serve(answer(() => stop.abort()));
    await expect(fetched({ url: server.url }, { signal: stop.signal })).rejects.toMatchObject(given);
    await closed(server);
  });

  it("that came before keeps it from beginning", async () => {
    await using server = await serve((response) => response.end());
    const lookup = vi.fn(answers(["127.0.0.1"]));
    const url = `http://a.test:${server.port}`;
    await expect(fetched({ url }, { signal: AbortSignal.abort(), lookup })).rejects.toMatchObject(given);
    expect(lookup).not.toHaveBeenCalled();
    expect(server.connections).toBe(0);
  });
});
