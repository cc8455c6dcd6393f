/** A local server that plays the Hugging Face hub: its API, its redirects to a second server (the CDN), its refusals. */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { sendFile, startServer, type FileServer } from './file-server.js';

/** What the hub holds, and how it behaves. */
export interface HubOptions {
  readonly repository: string;
  readonly files: Readonly<Record<string, Uint8Array>>;
  /** Files that are stored as git LFS does. By default all but JSON and text. */
  readonly isLarge?: (name: string) => boolean;
  /** Branches and tags besides `main`. */
  readonly tags?: readonly string[];
  readonly cardData?: Readonly<Record<string, unknown>>;
  /** Only this token may read files. */
  readonly token?: string;
  /** Whether any other token is refused as one that the hub does not know. */
  readonly isTokenInvalid?: boolean;
  /** Whether the list leaves out sizes and checksums. */
  readonly isTerse?: boolean;
  /** Sends the content of a large file; by default as a good server does. */
  readonly send?: (
    request: IncomingMessage,
    response: ServerResponse,
    bytes: Uint8Array,
    count: number,
  ) => void;
}

export interface HubServer {
  /** The endpoint. */
  readonly url: string;
  readonly commit: string;
  readonly hub: FileServer;
  readonly cdn: FileServer;
}

export function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** git's name of a file's content. */
export function gitHashOf(bytes: Uint8Array): string {
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
}

/** Starts a hub with one repository, stopped after the tests of the file. */
export async function startHub(options: HubOptions): Promise<HubServer> {
  const { repository, files, isLarge = (name) => !/\.(?:json|txt)$/.test(name), tags = [] } = options;
  const commit = gitHashOf(Buffer.from(Object.keys(files).join()));
  let sent = 0;
  const cdn = await startServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url!, 'http://x').pathname.slice(1));
    const bytes = files[name]!;
    if (options.send) options.send(request, response, bytes, ++sent);
    else sendFile(request, response, bytes, `"${sha256Of(bytes)}"`);
  });
  const isKnown = (revision: string): boolean => ['main', commit, ...tags].includes(revision);
  const refuse = (response: ServerResponse, status: number, code: string): void =>
    void response.writeHead(status, { 'x-error-code': code, 'x-error-message': 'refused' }).end('{}');

  const hub = await startServer((request, response) => {
    const { pathname } = new URL(request.url!, 'http://x');
    const api = /^\/api\/models\/(.+)\/revision\/([^/]+)$/.exec(pathname);
    const resolve = /^\/(.+?)\/resolve\/([^/]+)\/(.+)$/.exec(pathname);
    const isAllowed =
      options.token === undefined || request.headers.authorization === `Bearer ${options.token}`;
    if (options.isTokenInvalid === true && !isAllowed) return refuse(response, 401, '');
    // The hub hides that a repository is not there from those who may not see it.
    if ((api ?? resolve)?.[1] !== repository) return refuse(response, 401, 'RepoNotFound');
    if (!isKnown(decodeURIComponent((api ?? resolve)![2]!))) return refuse(response, 404, 'RevisionNotFound');
    if (api) {
      const siblings = Object.entries(files).map(([rfilename, bytes]) => {
        if (options.isTerse === true) return { rfilename };
        const pointer = { blobId: gitHashOf(Buffer.from(`pointer of ${rfilename}`)) };
        const lfs = { lfs: { sha256: sha256Of(bytes), size: bytes.length, pointerSize: 134 } };
        const content = isLarge(rfilename) ? { ...pointer, ...lfs } : { blobId: gitHashOf(bytes) };
        return Object.assign(content, { rfilename, size: bytes.length });
      });
      const { cardData = { license: 'mit' } } = options;
      response.end(JSON.stringify({ id: repository, sha: commit, siblings, cardData, gated: 'auto' }));
      return;
    }
    const name = decodeURIComponent(resolve![3]!);
    const bytes = files[name];
    if (!isAllowed) return refuse(response, request.headers.authorization ? 403 : 401, 'GatedRepo');
    if (!bytes) return refuse(response, 404, 'EntryNotFound');
    response.setHeader('x-repo-commit', commit);
    if (!isLarge(name)) return sendFile(request, response, bytes, `"${gitHashOf(bytes)}"`);
    response
      .writeHead(302, {
        'x-linked-etag': `"${sha256Of(bytes)}"`,
        'x-linked-size': bytes.length,
        location: `${cdn.url}/${encodeURIComponent(name)}?signature=1`,
      })
      .end();
  });
  return { url: hub.url, commit, hub, cdn };
}
