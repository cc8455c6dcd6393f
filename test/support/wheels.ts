/** Tiny wheels of OpenVINO, and a local package index that offers them. */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ENGINE_PACKAGES } from '../../src/base/engine-packages.js';
import { makeZip, type ZippedFile } from './archives.js';
import { sendFile, startServer, type FileServer } from './file-server.js';

const { version } = ENGINE_PACKAGES.openvino;

/** A tag of this machine's platform. */
export const OWN_TAG = ((): string => {
  const arm = process.arch === 'arm64';
  if (process.platform === 'win32') return arm ? 'win_arm64' : 'win_amd64';
  if (process.platform === 'darwin') return arm ? 'macosx_11_0_arm64' : 'macosx_10_9_x86_64';
  return `manylinux_2_17_${arm ? 'aarch64' : 'x86_64'}`;
})();

/** The name of a wheel of the pinned version. */
export function wheelNamed(tag: string = OWN_TAG, python = 'cp312'): string {
  return `openvino-${version}-22982-${python}-${python}-${tag}.whl`;
}

const text = (name: string): Buffer => Buffer.from(`content of ${name}\n`.repeat(500));

/** Files that the engine needs, and where they go. */
export const NEEDED: Readonly<Record<string, string>> = {
  'openvino/libs/libopenvino.so.2641': 'libs/libopenvino.so.2641',
  'openvino/libs/libopenvino_c.so.2641': 'libs/libopenvino_c.so.2641',
  'openvino/libs/libopenvino_intel_cpu_plugin.so': 'libs/libopenvino_intel_cpu_plugin.so',
  'openvino/libs/libopenvino_onnx_frontend.so.2641': 'libs/libopenvino_onnx_frontend.so.2641',
  'openvino/libs/libopenvino_ir_frontend.so.2641': 'libs/libopenvino_ir_frontend.so.2641',
  'openvino/libs/libtbb.so.12': 'libs/libtbb.so.12',
  [`openvino-${version}.dist-info/licenses/LICENSE`]: 'licenses/LICENSE',
  [`openvino-${version}.dist-info/licenses/licensing/onetbb_third-party-programs.txt`]:
    'licenses/licensing/onetbb_third-party-programs.txt',
};

const UNNEEDED = [
  'openvino/__init__.py',
  'openvino/libs/cache.json',
  'openvino/libs/libopenvino_intel_gpu_plugin.so',
  'openvino/libs/libopenvino_intel_npu_plugin.so',
  'openvino/libs/libopenvino_auto_plugin.so',
  'openvino/libs/libopenvino_auto_batch_plugin.so',
  'openvino/libs/libopenvino_hetero_plugin.so',
  'openvino/libs/libopenvino_tensorflow_lite_frontend.so.2641',
  'openvino/libs/openvino.lib',
  'openvino/libs/tbb.pc',
  `openvino-${version}.dist-info/RECORD`,
];

/** The files of a wheel; `more` are appended. */
export function makeWheel(more: readonly ZippedFile[] = [], without: readonly string[] = []): Buffer {
  const names = [...Object.keys(NEEDED), ...UNNEEDED].filter((name) => !without.includes(name));
  return makeZip([...names.map((name) => ({ name, bytes: text(name), isDeflated: true })), ...more]);
}

/** The sizes of the needed files, by their places. */
export function neededSizes(): Record<string, number> {
  return Object.fromEntries(Object.entries(NEEDED).map(([name, place]) => [place, text(name).length]));
}

export function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** How an index offers its files. */
export interface IndexOptions {
  readonly files: Readonly<Record<string, Uint8Array>>;
  readonly form?: 'json' | 'html';
  /** `USER:PASSWORD` that both the index and its files ask for. */
  readonly login?: string;
  /** SHA-256 that the index states instead of the right one; null for none. */
  readonly stated?: string | null;
  readonly yanked?: string;
  /** Sends a file; by default as a good server does. */
  readonly send?: (
    request: IncomingMessage,
    response: ServerResponse,
    bytes: Uint8Array,
    count: number,
  ) => void;
}

/** Starts an index at `URL/simple/`, stopped after the tests of the file. */
export async function startIndex(options: IndexOptions): Promise<FileServer> {
  const { files, form = 'json', login, stated, yanked } = options;
  let sent = 0;
  const hashOf = (bytes: Uint8Array): string | undefined =>
    stated === undefined ? sha256Of(bytes) : (stated ?? undefined);
  return startServer((request, response) => {
    const expected = login && `Basic ${Buffer.from(login).toString('base64')}`;
    if (expected && request.headers.authorization !== expected) {
      response.writeHead(401).end();
      return;
    }
    const { pathname } = new URL(request.url!, 'http://x');
    const file = /^\/files\/(.+)$/.exec(pathname);
    if (file) {
      const bytes = files[decodeURIComponent(file[1]!)]!;
      if (options.send) options.send(request, response, bytes, ++sent);
      else sendFile(request, response, bytes);
      return;
    }
    if (pathname === '/moved/openvino/') {
      response.writeHead(301, { location: '/simple/openvino/' }).end();
      return;
    }
    if (pathname !== '/simple/openvino/') {
      response.writeHead(404).end();
      return;
    }
    const rows = Object.entries(files).map(([name, bytes]) => ({ name, hash: hashOf(bytes), bytes }));
    if (form === 'html') {
      const links = rows.map(({ name, hash }) => {
        const fragment = hash === undefined ? '' : `#sha256=${hash}`;
        const mark = yanked === undefined ? '' : ` data-yanked="${yanked}"`;
        return `<a data-requires-python="&gt;=3.10" href="../../files/${name}${fragment}"${mark}>${name}</a><br/>`;
      });
      response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
      response.end(`<!DOCTYPE html><html><body><h1>Links</h1>\n${links.join('\n')}\n</body></html>`);
      return;
    }
    response.writeHead(200, { 'content-type': 'application/vnd.pypi.simple.v1+json' });
    const listed = rows.map(({ name, hash, bytes }) => ({
      filename: name,
      url: `../../files/${name}`,
      hashes: hash === undefined ? {} : { sha256: hash },
      size: bytes.length,
      yanked: yanked ?? false,
    }));
    response.end(JSON.stringify({ meta: { 'api-version': '1.1' }, name: 'openvino', files: listed }));
  });
}
