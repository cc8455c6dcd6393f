/** Spreads a burst of requests over many turns of the event loop, so that other work is not held up. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Steps per turn; a request that is refused takes 0.1 to 0.5 ms. */
const STEPS_PER_TURN = 16;

/** Runs steps in order, a few per turn of the event loop. */
class Turns {
  readonly #waiting: (() => void)[] = [];
  #done = 0;
  #isScheduled = false;

  /** Runs a step: at once, unless this turn has had its share. */
  add(step: () => void): void {
    this.#waiting.push(step);
    this.#run();
  }

  #run(): void {
    while (this.#done < STEPS_PER_TURN && this.#waiting.length > 0) {
      this.#done++;
      this.#waiting.shift()!();
    }
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#done = 0;
      if (this.#waiting.length > 0) this.#run();
    });
  }
}

/**
 * Makes a server begin with a few connections and a few requests per turn. Node itself would read all connections that have data,
 * up to 1024, in one turn: 2,000 at once held the event loop for 150 ms of CPU time.
 */
export function takeTurns(server: Server): void {
  const [begin] = server.listeners('connection') as [(this: Server, socket: Socket) => void];
  const [answer] = server.listeners('request') as [
    (request: IncomingMessage, response: ServerResponse) => void,
  ];
  const connections = new Turns();
  const requests = new Turns();
  server.off('connection', begin);
  server.off('request', answer);
  // Else Node reads from a connection before its turn. The types leave the property out.
  (server as Server & { pauseOnConnect: boolean }).pauseOnConnect = true;
  server.on('connection', (socket) =>
    connections.add(() => {
      if (socket.destroyed) return;
      begin.call(server, socket);
      socket.resume();
    }),
  );
  server.on('request', (request, response) =>
    requests.add(() => {
      // Its client may have gone while it waited; nothing would end such a request.
      if (!response.destroyed) answer(request, response);
    }),
  );
}
