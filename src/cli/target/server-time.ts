/** What time it is for whoever wrote the instants that are shown: the server, or the store that this process opened. */
import { PerdureClient } from "../../client/client.ts";
import type { Perdure } from "../../core/api.ts";

export async function serverNow(perdure: Perdure): Promise<number> {
  if (perdure instanceof PerdureClient) return (await perdure.admin.status()).now;
  return "storeNow" in perdure && typeof perdure.storeNow === "function" ? perdure.storeNow() : Date.now();
}
