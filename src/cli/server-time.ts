/** What time it is for whoever wrote the instants that are shown: leases of workers are instants of the server. */
import { PerdureClient } from "../client/client.ts";
import type { Perdure } from "../core/face.ts";

export async function nowOf(perdure: Perdure): Promise<number> {
  return perdure instanceof PerdureClient ? (await perdure.admin.status()).now : Date.now();
}
