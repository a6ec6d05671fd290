/** Free ports for commands, found by asking the system for some. Two attempts of one worker never have the same port at a
 *  time. What it does not promise: that no stranger takes a port before the command listens on it. */
import { type AddressInfo, createServer, type Server } from "node:net";

export class Ports {
  readonly #taken = new Set<number>();

  /** As many as asked for. They are the caller's until it gives them back. */
  async take(count: number): Promise<number[]> {
    const servers: Server[] = [];
    const found: number[] = [];
    try {
      while (found.length < count) {
        // All stay open until there are enough, so that the system does not name one twice: also those that a command of
        // ours was given and does not listen on yet.
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

/** On all interfaces, of both families where there are two. */
function listening(): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", reject);
    server.listen({ port: 0, exclusive: true }, () => resolve(server));
  });
}
