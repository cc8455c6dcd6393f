import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { takeTurns } from '../../../../src/products/serve/http/turns.js';

it('begins with a few connections and requests per turn, in order, and leaves out those that have gone', async () => {
  const answered: string[] = [];
  const server = createServer((request) => answered.push(request.url!));
  takeTurns(server);
  const responses = Array.from({ length: 40 }, (_, i) => {
    const request = Object.assign(new IncomingMessage(new Socket()), { url: String(i) });
    const response = new ServerResponse(request);
    server.emit('request', request, response);
    return response;
  });
  expect(answered).toHaveLength(16);
  responses[20]!.destroy();
  await setImmediate();
  expect(answered).toHaveLength(31);
  await setImmediate();
  expect(answered).toEqual(responses.map((_, i) => String(i)).filter((i) => i !== '20'));

  const sockets = Array.from({ length: 20 }, () => new Socket());
  for (const socket of sockets) server.emit('connection', socket);
  const begun = (): number => sockets.filter((socket) => socket.listenerCount('data') > 0).length;
  expect(begun()).toBe(16);
  await setImmediate();
  expect(begun()).toBe(20);
});
