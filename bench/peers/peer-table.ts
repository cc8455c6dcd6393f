/** Who is compared: how each is started, and what it needs. */
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CLI } from './doctor.js';
import type { Command } from './processes.js';
import { needsPython } from './python.js';
import {
  findLibraries,
  needsBfloat16,
  needsEngine,
  needsLibraries,
  needsNothing,
  needsOnnxruntime,
  needsTorch,
  needsTransformers,
  TRANSFORMERS,
  type Found,
} from './requirements.js';

/** What a command is made of. */
export interface Use extends Found {
  readonly photos: string;
  readonly out: string;
}

interface Kind {
  readonly what: string;
  /** Why it cannot run here; undefined if it can. */
  readonly needs: (found: Found) => string | undefined;
  readonly command: (use: Use) => Command;
  /** What it writes: a dataset of tapir, a `.npy` file per output, or the speed of its own loop. */
  readonly writes: 'dataset' | 'npy' | 'speed';
}

const script = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** Photos per run where several sessions or streams run at once; larger batches were slower in all of them. */
const SMALL_BATCH = '8';

const inNode = (file: string, ...args: string[]): Command => ({
  file: process.execPath,
  args: [script(file), ...args],
});

const inPython = ({ setting }: Use, file: string, ...args: string[]): Command => ({
  file: setting.python,
  args: [script(file), ...args],
  env: { PYTHONDONTWRITEBYTECODE: '1' },
});

const namesOf = ({ prepared }: Use): string => prepared.request.join(',');
const sizesOf = ({ setting }: Use): string[] => [String(setting.batch), String(setting.threads)];

function embed({ prepared, setting, photos, out }: Use, ...flags: string[]): Command {
  const returns = prepared.request.flatMap((node) => ['--return', node]);
  const options = ['--transform', 'ImageNet1K_V2', '--out', out, '--overwrite', ...flags];
  return {
    file: process.execPath,
    args: [CLI, 'embed', photos, '--model', prepared.model, ...returns, ...options],
    env: { XDG_CACHE_HOME: join(setting.work, 'cache') },
  };
}

function embedOnOpenvino(precision: 'float32' | 'bfloat16'): Kind {
  return {
    what: `tapir embed --engine openvino --precision ${precision}`,
    needs: (found) => needsEngine(found) ?? (precision === 'bfloat16' ? needsBfloat16() : undefined),
    command: (use) => {
      const command = embed(use, '--engine', 'openvino', '--precision', precision);
      return { ...command, env: { ...command.env, OPENVINO_LIBS: findLibraries(use)! } };
    },
    writes: 'dataset',
  };
}

function torchvision(what: string, flagsOf: (threads: number) => readonly string[]): Kind {
  return {
    what,
    needs: needsTorch,
    command: (use) =>
      inPython(
        use,
        'peer_torchvision.py',
        use.prepared.checkpoint ?? checkpointOf(use.setting.work),
        use.photos,
        use.out,
        ...sizesOf(use),
        namesOf(use),
        ...flagsOf(use.setting.threads),
      ),
    writes: 'npy',
  };
}

/** Where the ResNet-50's weights are written for torchvision. */
export function checkpointOf(work: string): string {
  return join(work, 'resnet50.pth');
}

function limitOfOpenvino(precision: 'float32' | 'bfloat16'): Kind {
  return {
    what: `OpenVINO alone, ${precision}, called from Node on tensors in memory: a stream per core, batches of ${SMALL_BATCH}`,
    needs: (found) => needsLibraries(found) ?? (precision === 'bfloat16' ? needsBfloat16() : undefined),
    command: (use) => {
      const { prepared, setting } = use;
      const work = [prepared.pruned, String(prepared.count), precision, SMALL_BATCH, String(setting.threads)];
      return inNode('peer_limit_openvino.js', ...work, findLibraries(use)!);
    },
    writes: 'speed',
  };
}

function limitOfOnnxruntime(what: string, mode: string, sizes: (use: Use) => readonly string[]): Kind {
  return {
    what,
    needs: needsNothing,
    command: (use) =>
      inNode('peer_limit.js', use.prepared.pruned, String(use.prepared.count), mode, ...sizes(use)),
    writes: 'speed',
  };
}

const PEERS = {
  tapir: {
    what: 'tapir embed of this checkout, from the whole model',
    needs: needsNothing,
    command: (use) => embed(use),
    writes: 'dataset',
  },
  'tapir-openvino-float32': embedOnOpenvino('float32'),
  'tapir-openvino-bfloat16': embedOnOpenvino('bfloat16'),
  torchvision: torchvision('create_feature_extractor + DataLoader, a worker per core', (threads) => [
    '--workers',
    String(threads),
  ]),
  'torchvision-channels-last': torchvision('the same, channels last, loading in the main process', () => [
    '--channels-last',
  ]),
  'torchvision-bfloat16': torchvision(
    'the same, channels last, bfloat16 autocast, loading in the main process',
    () => ['--channels-last', '--bfloat16'],
  ),
  'torchvision-bfloat16-workers': torchvision('the same with a worker per core', (threads) => [
    '--channels-last',
    '--bfloat16',
    '--workers',
    String(threads),
  ]),
  'python-onnxruntime': {
    what: "Python's onnxruntime + Pillow, a loop",
    needs: needsOnnxruntime,
    command: (use) =>
      inPython(
        use,
        'peer_onnxruntime.py',
        use.prepared.pruned,
        use.photos,
        use.out,
        ...sizesOf(use),
        namesOf(use),
      ),
    writes: 'npy',
  },
  'python-openvino': {
    what: `Python's OpenVINO + Pillow, bfloat16, asynchronous, decoding in threads, batches of ${SMALL_BATCH}`,
    needs: ({ packages }) => needsPython(packages, ['numpy', 'PIL', 'openvino']) ?? needsBfloat16(),
    command: (use) => {
      const { prepared, setting, photos, out } = use;
      const sizes = [SMALL_BATCH, String(setting.threads)];
      return inPython(use, 'peer_openvino.py', prepared.pruned, photos, out, ...sizes, namesOf(use));
    },
    writes: 'npy',
  },
  'transformers.js': {
    what: 'image-feature-extraction: its processor and its model, in batches',
    needs: needsTransformers,
    command: (use) => {
      const { prepared, setting, photos, out } = use;
      const entry = resolve(setting.npm ?? '', TRANSFORMERS);
      return inNode('peer_transformers.js', prepared.hub!, photos, out, ...sizesOf(use), entry);
    },
    writes: 'npy',
  },
  naive: {
    what: 'sharp + onnxruntime-node, a loop',
    needs: needsNothing,
    command: (use) =>
      inNode('peer_naive.js', use.prepared.pruned, use.photos, use.out, ...sizesOf(use), namesOf(use)),
    writes: 'npy',
  },
  limit: limitOfOnnxruntime(
    'onnxruntime-node alone on tensors in memory, one session on all cores',
    'session',
    sizesOf,
  ),
  'limit-workers': limitOfOnnxruntime(
    `onnxruntime-node alone on tensors in memory, a session of one thread per core, batches of ${SMALL_BATCH}`,
    'workers',
    ({ setting }) => [SMALL_BATCH, String(setting.threads)],
  ),
  'limit-openvino-float32': limitOfOpenvino('float32'),
  'limit-openvino-bfloat16': limitOfOpenvino('bfloat16'),
  'limit-decode': {
    what: 'decoding alone, as tapir embed decodes, on all cores',
    needs: needsNothing,
    command: ({ prepared, photos }) => inNode('peer_limit_decode.js', prepared.pruned, photos),
    writes: 'speed',
  },
} as const satisfies Record<string, Kind>;

/** Whom the others are compared with first: it always runs. */
export const OURS = 'tapir';

/** Whether it is tapir, on one engine or another. */
export function isOurs(name: string): boolean {
  return name === OURS || name.startsWith(`${OURS}-`);
}

export type PeerName = keyof typeof PEERS;
export const PEER_NAMES = Object.keys(PEERS) as PeerName[];

/** Widens the table's literal types. */
export function kindOf(name: PeerName): Kind {
  return PEERS[name];
}
