/** Who is compared: how each is started, and why one is left out. */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { datasetFeatures, peerFeatures } from './compare.js';
import { writeStateDict, type Prepared, REQUEST } from './prepare.js';
import type { Command } from './processes.js';
import { inspectPython, needsPython } from './python.js';

/** Where the peers' programs are, and how they run. */
export interface Setting {
  readonly python: string;
  /** Folder with a node_modules that has transformers.js in it. */
  readonly npm: string | undefined;
  readonly batch: number;
  readonly threads: number;
  readonly work: string;
}

export interface Peer {
  readonly name: string;
  readonly what: string;
  /** Embeds a folder of photos. */
  readonly command: (photos: string) => Command;
  /** Its vectors; null for a limit, which times its own loop on tensors that are there before, and keeps nothing. */
  readonly features: ReturnType<typeof peerFeatures> | null;
}

/** One that cannot run here. */
export interface Skipped {
  readonly name: string;
  readonly what: string;
  readonly reason: string;
}

/** Whom the others are compared with. */
export const OURS = 'tapir';

const script = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** The command as it is installed. */
const { bin } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { bin: { tapir: string } };
const CLI = join(ROOT, bin.tapir);
const ENTRY = 'node_modules/@huggingface/transformers/dist/transformers.node.mjs';

const WHAT = {
  tapir: 'tapir embed of this checkout, from the whole model',
  torchvision: 'create_feature_extractor + DataLoader, a worker per core',
  'torchvision-channels-last': 'the same, channels last, loading in the main process',
  'python-onnxruntime': "Python's onnxruntime + Pillow, a loop",
  'transformers.js': 'image-feature-extraction: its processor and its model, in batches',
  naive: 'sharp + onnxruntime-node, a loop',
  limit: 'onnxruntime-node alone on tensors in memory, one session on all cores',
  'limit-workers':
    'onnxruntime-node alone on tensors in memory, a session of one thread per core, batches of 8',
} as const;
export type PeerName = keyof typeof WHAT;
export const PEER_NAMES = Object.keys(WHAT) as PeerName[];

const needsTransformers = (npm: string | undefined): string | undefined => {
  if (npm === undefined) return 'no folder with @huggingface/transformers: --npm DIR or TAPIR_PEERS_NPM';
  return existsSync(join(npm, ENTRY)) ? undefined : `there is no ${ENTRY} in ${npm}`;
};

/** Versions of the packages that a folder's peers run on. */
export function packageVersions(folder: string, names: readonly string[]): Record<string, string> {
  const versions: Record<string, string> = {};
  for (const name of names) {
    const file = join(folder, 'node_modules', name, 'package.json');
    if (existsSync(file))
      versions[name] = (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
  }
  return versions;
}

/** The peers asked for: those that can run, and those that cannot. */
export function listPeers(
  names: readonly PeerName[],
  prepared: Prepared,
  setting: Setting,
): { readonly peers: Peer[]; readonly skipped: Skipped[] } {
  const { python, npm, work } = setting;
  const packages = names.some((name) => /torchvision|python/u.test(name)) ? inspectPython(python) : '';
  const needsTorch = needsPython(packages, ['numpy', 'PIL', 'onnx', 'torch', 'torchvision']);
  const reasons: Partial<Record<PeerName, string | undefined>> = {
    torchvision: needsTorch,
    'torchvision-channels-last': needsTorch,
    'python-onnxruntime': needsPython(packages, ['numpy', 'PIL', 'onnxruntime']),
    'transformers.js': needsTransformers(npm),
  };
  const skipped = names.flatMap((name) => {
    const reason = reasons[name];
    return reason === undefined ? [] : [{ name, what: WHAT[name], reason }];
  });
  const able = names.filter((name) => reasons[name] === undefined);
  const stateDict = able.some((name) => name.startsWith('torchvision'))
    ? writeStateDict(python, prepared.model, work)
    : '';
  return { peers: able.map((name) => createPeer(name, prepared, stateDict, setting)), skipped };
}

function createPeer(
  name: PeerName,
  { model, pruned, hub, count }: Prepared,
  stateDict: string,
  { python, npm, batch, threads, work }: Setting,
): Peer {
  const out = join(work, 'out', name);
  mkdirSync(out, { recursive: true });
  const size = [String(batch), String(threads)];
  const inNode = (file: string, ...args: string[]): Command => ({
    file: process.execPath,
    args: [script(file), ...args],
  });
  const inPython = (file: string, ...args: string[]): Command => ({
    file: python,
    args: [script(file), ...args],
    env: { PYTHONDONTWRITEBYTECODE: '1' },
  });
  const returns = REQUEST.flatMap((node) => ['--return', node]);
  const options = ['--model', model, ...returns, '--transform', 'ImageNet1K_V2', '--out', out, '--overwrite'];
  const commands: Record<PeerName, Peer['command']> = {
    tapir: (photos) => ({
      file: process.execPath,
      args: [CLI, 'embed', photos, ...options],
      env: { XDG_CACHE_HOME: join(work, 'cache') },
    }),
    torchvision: (photos) =>
      inPython('peer_torchvision.py', stateDict, photos, out, ...size, '--workers', String(threads)),
    'torchvision-channels-last': (photos) =>
      inPython('peer_torchvision.py', stateDict, photos, out, ...size, '--channels-last'),
    'python-onnxruntime': (photos) => inPython('peer_onnxruntime.py', pruned, photos, out, ...size),
    'transformers.js': (photos) =>
      inNode('peer_transformers.js', hub, photos, out, ...size, resolve(npm ?? '', ENTRY)),
    naive: (photos) => inNode('peer_naive.js', pruned, photos, out, ...size),
    limit: () => inNode('peer_limit.js', pruned, String(count), 'session', ...size),
    'limit-workers': () => inNode('peer_limit.js', pruned, String(count), 'workers', '8', String(threads)),
  };
  const features = name === OURS ? datasetFeatures(out) : peerFeatures(out);
  return {
    name,
    what: WHAT[name],
    command: commands[name],
    features: name.startsWith('limit') ? null : features,
  };
}
