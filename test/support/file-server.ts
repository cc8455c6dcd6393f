/** A local server of one file that misbehaves on demand. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll } from 'vitest';

/** What was asked for, in order. */
export interface FileServer {
  /** Ends without a slash. */
  readonly url: string;
  readonly requests: IncomingMessage[];
}

/** Starts a server on the loopback, stopped after the tests of the file. */
export async function startServer(
  answer: (request: IncomingMessage, response: ServerResponse, count: number) => void,
): Promise<FileServer> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    answer(request, response, requests.length);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  afterAll(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

/** Answers as a good server does: ranges, ETag, If-Range. */
export function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  bytes: Uint8Array,
  etag = '"one"',
): void {
  const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
  const condition = request.headers['if-range'];
  const start = range && (condition === undefined || condition === etag) ? Number(range[1]) : 0;
  if (start >= bytes.length && start > 0) {
    response.writeHead(416, { 'content-range': `bytes */${bytes.length}` }).end();
    return;
  }
  response.writeHead(start > 0 ? 206 : 200, {
    etag,
    'content-length': bytes.length - start,
    ...(start > 0 ? { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` } : {}),
  });
  response.end(bytes.subarray(start));
}

/** Sends the first bytes of a file that is said to be whole, then cuts the connection. */
export function sendCut(
  request: IncomingMessage,
  response: ServerResponse,
  bytes: Uint8Array,
  end: number,
  etag = '"one"',
): void {
  const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
  response.writeHead(start > 0 ? 206 : 200, {
    etag,
    'content-length': bytes.length - start,
    ...(start > 0 ? { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` } : {}),
  });
  // Later: bytes that the reset overtakes would never be seen.
  response.write(bytes.subarray(start, end), () => setTimeout(() => response.destroy(), 500));
}
