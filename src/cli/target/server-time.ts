/** The current time by the clock of displayed instants: the server's, or that of the store opened by this process. */
import { isClient } from "../../client/client.ts";
import type { Perdure } from "../../core/api.ts";

export async function serverNow(perdure: Perdure): Promise<number> {
  if (isClient(perdure)) return (await perdure.admin.status()).now;
  return "storeNow" in perdure && typeof perdure.storeNow === "function" ? perdure.storeNow() : Date.now();
}
