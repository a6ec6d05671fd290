/** Where a redirect leads, and what is sent there. Pure; whether the new address may be reached is asked when it is
 *  resolved, as for the first one. */
import { shownUrl } from "../../core/http-input.ts";
import { ExchangeError } from "./exchange-error.ts";

export interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string | null;
}

/** 300 and 304 have no one place to go to, 305 and 306 are long gone. */
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];
/** What may go to another origin than the one it was written for. All else may hold a secret, whatever its name. */
const HARMLESS: readonly string[] = ["accept", "accept-encoding", "accept-language", "content-type", "user-agent"];

export function isRedirect(status: number, location: string | undefined): location is string {
  return REDIRECTS.includes(status) && location !== undefined;
}

/** The request that follows. Throws where it must not be followed. */
export function follow(hop: Hop, status: number, location: string): Hop {
  const url = target(hop.url, location);
  const becomesGet = status === 303 ? hop.method !== "HEAD" : status <= 302 && hop.method === "POST";
  const crosses = url.origin !== hop.url.origin;
  const headers = hop.headers.filter(([name]) => {
    const lower = name.toLowerCase();
    if (becomesGet && lower.startsWith("content-")) return false;
    return !crosses || HARMLESS.includes(lower);
  });
  return becomesGet ? { url, method: "GET", headers, body: null } : { ...hop, url, headers };
}

function target(from: URL, location: string): URL {
  const refuse = (why: string): never => {
    throw new ExchangeError("bad_redirect", "logical", `${shownUrl(from.href)} redirects to ${why}`);
  };
  const url = URL.canParse(location, from.href) ? new URL(location, from.href) : null;
  if (url === null) return refuse("what is no address");
  if (url.protocol !== "http:" && url.protocol !== "https:") return refuse(`${url.protocol}, not to http or https`);
  // Everyone on the way could read what was meant to be hidden from them.
  if (from.protocol === "https:" && url.protocol === "http:") return refuse("http, away from https");
  if (url.username !== "" || url.password !== "") return refuse("an address with a user or password");
  url.hash = "";
  return url;
}
