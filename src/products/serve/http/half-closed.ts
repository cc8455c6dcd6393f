/** Clients that send a request, close their writing side, and wait for the answer, as `nc -N` does. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';

/** Time between two looks whether such a client is still there. */
const PROBE_MS = 100;

/**
 * Makes a server answer them: Node's default drops the request. A client that is gone looks the same, and must not be worked for. So interim
 * answers are sent, which all clients skip: the system of one that is gone refuses them, and the connection closes.
 */
export function answerHalfClosed(server: Server): void {
  // The types leave the property out.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    let timer: NodeJS.Timeout | undefined;
    const probe = (): void => {
      // HTTP/1.0 has no interim answers.
      if (request.httpVersion === '1.1' && !response.headersSent) response.writeContinue();
    };
    const onEnd = (): void => {
      probe();
      // Only the second write tells that the first one was refused.
      timer = setInterval(probe, PROBE_MS);
    };
    socket.once('end', onEnd);
    response.once('close', () => {
      socket.off('end', onEnd);
      clearInterval(timer);
    });
  });
}
