/** Tiny wheels of OpenVINO and of CUDA, and a local package index that offers them. */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Options } from '../../src/base/checks.js';
import { ENGINE_PACKAGES, type InstallableEngine } from '../../src/base/engine-packages.js';
import { makeZip, type ZippedFile } from './archives.js';
import { sendFile, startServer, type FileServer } from './file-server.js';
import { planInstall, runInstall, type InstallOptions } from '../../src/learn/hub/wheels/install-engine.js';
import type { InstalledEngine } from '../../src/learn/hub/wheels/installed-engine.js';
import type { WheelTable } from '../../src/learn/hub/wheels/engine-wheels.js';

const { version } = ENGINE_PACKAGES.openvino;

/** The table of some wheels for this system. */
export function tableOf(files: Readonly<Record<string, Uint8Array>>): WheelTable {
  const wheels = Object.entries(files).map(([filename, bytes]) => ({ filename, sha256: sha256Of(bytes) }));
  return new Map([[`${process.platform} ${process.arch}`, wheels]]);
}

/** Installs at once what `tapir engines install` installs after its question, from wheels of a table. */
export async function installEngine(
  name: InstallableEngine,
  given: Options<InstallOptions>,
  table: WheelTable,
): Promise<InstalledEngine> {
  return runInstall(await planInstall(name, given, table));
}

/** A tag of this machine's platform. */
const OWN_TAG = ((): string => {
  const arm = process.arch === 'arm64';
  if (process.platform === 'win32') return arm ? 'win_arm64' : 'win_amd64';
  if (process.platform === 'darwin') return arm ? 'macosx_11_0_arm64' : 'macosx_10_9_x86_64';
  return `manylinux_2_17_${arm ? 'aarch64' : 'x86_64'}`;
})();

/** The name of a wheel of the pinned version. */
export function wheelNamed(python: string = 'cp314', tag: string = OWN_TAG): string {
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
  /** `USER:PASSWORD` that both the index and its files ask for. */
  readonly login?: string;
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
  const { files, login } = options;
  let sent = 0;
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
    const project = /^\/simple\/([^/]+)\/$/.exec(pathname)?.[1];
    const ofProject = Object.entries(files).filter(
      ([name]) => name.split('-', 1)[0]!.replaceAll('_', '-') === project,
    );
    if (ofProject.length === 0) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': 'application/vnd.pypi.simple.v1+json' });
    const listed = ofProject.map(([name, { length: size }]) => ({
      filename: name,
      url: `../../files/${name}`,
      size,
    }));
    response.end(JSON.stringify({ meta: { 'api-version': '1.1' }, name: project, files: listed }));
  });
}

/** A file of CUDA's packages, and the wheel that has it. */
const CUDA_FILES: Readonly<Record<string, readonly string[]>> = {
  'onnxruntime-gpu': [
    'onnxruntime/capi/libonnxruntime_providers_shared.so',
    'onnxruntime/capi/libonnxruntime_providers_cuda.so',
    'onnxruntime/capi/libonnxruntime_providers_tensorrt.so',
    'onnxruntime/capi/libonnxruntime.so.1.30.0',
    'onnxruntime/LICENSE',
    'onnxruntime/ThirdPartyNotices.txt',
  ],
  'nvidia-cuda-runtime': ['nvidia/cu13/lib/libcudart.so.13', 'nvidia/cu13/lib/libcudart_static.a'],
  'nvidia-cublas': ['libcublas.so.13', 'libcublasLt.so.13', 'libnvblas.so.13'].map(inCuda),
  'nvidia-curand': ['nvidia/cu13/lib/libcurand.so.10', 'nvidia/cu13/include/curand.h'],
  'nvidia-cufft': ['libcufft.so.12', 'libcufftw.so.12'].map(inCuda),
  'nvidia-nvjitlink': ['nvidia/cu13/lib/libnvJitLink.so.13'],
  'nvidia-cuda-nvrtc': ['libnvrtc.so.13', 'libnvrtc.alt.so.13', 'libnvrtc-builtins.so.13.0'].map(inCuda),
  'nvidia-cudnn-cu13': ['libcudnn.so.9', 'libcudnn_ops.so.9', 'libcudnn_graph.so.9'].map(
    (name) => `nvidia/cudnn/lib/${name}`,
  ),
};

function inCuda(name: string): string {
  return `nvidia/cu13/lib/${name}`;
}

/**
 * The wheels of all CUDA packages, by file name.
 *
 * @param contentOf - The content of a file in a wheel; a text by default.
 */
export function makeCudaWheels(contentOf: (name: string) => Uint8Array = text): Record<string, Buffer> {
  return Object.fromEntries(
    ENGINE_PACKAGES.cuda.packages.map(({ project, version: pinned }) => {
      const stem = `${project.replaceAll('-', '_')}-${pinned}`;
      const licence = `${stem}.dist-info/licenses/License.txt`;
      const names = [...CUDA_FILES[project]!, ...(project.startsWith('nvidia') ? [licence] : [])];
      const files = names.map((name) => ({ name, bytes: Buffer.from(contentOf(name)), isDeflated: true }));
      return [`${stem}-py3-none-${OWN_TAG}.whl`, makeZip(files)];
    }),
  );
}

/** What an installation of these wheels leaves, sorted. */
export const CUDA_PLACES: readonly string[] = [
  ...[
    'libcublas.so.13',
    'libcublasLt.so.13',
    'libcudart.so.13',
    'libcudnn.so.9',
    'libcudnn_graph.so.9',
    'libcudnn_ops.so.9',
    'libcufft.so.12',
    'libcurand.so.10',
    'libnvJitLink.so.13',
    'libnvrtc-builtins.so.13.0',
    'libnvrtc.so.13',
    'libonnxruntime_providers_cuda.so',
    'libonnxruntime_providers_shared.so',
  ].map((name) => `libs/${name}`),
  ...ENGINE_PACKAGES.cuda.packages
    .filter(({ project }) => project.startsWith('nvidia'))
    .map(({ project }) => `licenses/${project}/License.txt`),
  'licenses/onnxruntime-gpu/LICENSE',
  'licenses/onnxruntime-gpu/ThirdPartyNotices.txt',
].toSorted();
