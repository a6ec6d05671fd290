/** The current time by the clock of displayed instants: the server's, or that of the store opened by this process. */
import type { PerdureClient } from "../../client/client.ts";
import type { Perdure } from "../../core/api.ts";

export async function serverNow(perdure: Perdure): Promise<number> {
  if (isClient(perdure)) return (await perdure.admin.status()).now;
  return "storeNow" in perdure && typeof perdure.storeNow === "function" ? perdure.storeNow() : Date.now();
}

/** Only its type is imported: a command that opens a file does not load the client. */
function isClient(perdure: Perdure): perdure is PerdureClient {
  return "admin" in perdure;
}
