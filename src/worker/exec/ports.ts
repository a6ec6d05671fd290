/** Free ports for commands, as the operating system assigns them. Two attempts of one worker never have the same port at the same
 *  time. Not promised: that no other program takes a port before the command listens on it. */
import { type AddressInfo, createServer, type Server } from "node:net";

export class Ports {
  readonly #taken = new Set<number>();

  /** Reserves `count` ports until `giveBack`. */
  async take(count: number): Promise<number[]> {
    const servers: Server[] = [];
    const found: number[] = [];
    try {
      while (found.length < count) {
        // All stay open until there are enough, so that the system does not return one twice. That includes ports already
        // reserved for a command that does not listen yet.
        const server = await listening();
        servers.push(server);
        const { port } = server.address() as AddressInfo;
        if (this.#taken.has(port)) continue;
        this.#taken.add(port);
        found.push(port);
      }
      return found;
    } catch (error) {
      this.giveBack(found);
      throw error;
    } finally {
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    }
  }

  giveBack(ports: readonly number[]): void {
    for (const port of ports) this.#taken.delete(port);
  }
}

/** Listens on all interfaces, IPv6 and IPv4 where both are available. */
function listening(): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", reject);
    server.listen({ port: 0, exclusive: true }, () => resolve(server));
  });
}
