/** The time of the clock that shown instants come from: that of the server, or of the store that this process opened. */
import { isClient } from "../../client/client.ts";
import type { Perdure } from "../../core/api.ts";

export async function serverNow(perdure: Perdure): Promise<number> {
  if (isClient(perdure)) return (await perdure.admin.status()).now;
  return "storeNow" in perdure && typeof perdure.storeNow === "function" ? perdure.storeNow() : Date.now();
}
