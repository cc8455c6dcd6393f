/** The house: folders in the order of their floors, what products stand on, and what belongs to one file alone. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ENGINES } from '../src/run/runtime/capabilities/capabilities.js';
import { projectPath } from './support/fixtures.js';

/** The folders of a room from the ground up; `.` is the room itself. Folders of one floor do not import each other. */
type Floors = readonly (readonly string[])[];

/**
 * The folders at the top of `src` from the ground up, and the rooms of each from the ground up; `.` is the folder itself. Each imports only
 * what stands before it. CONTRIBUTING has the same list.
 */
const HOUSE: Readonly<Record<string, Readonly<Record<string, Floors>>>> = {
  base: { '.': [['.'], ['files', 'http']], html: [['browser'], ['.']] },
  onnx: {
    file: [['wire'], ['scan'], ['.']],
    tensor: [['.', 'vectors']],
    networks: [['.'], ['families']],
    graph: [['operators'], ['.'], ['float-view', 'rewrite'], ['batch', 'cost', 'names'], ['parameters']],
  },
  run: {
    runtime: [['capabilities'], ['lanes'], ['.'], ['devices'], ['engines/native'], ['engines']],
    model: [['open'], ['.', 'prune'], ['lanes'], ['oracle']],
  },
  photos: {
    images: [
      ['file', 'pixels', 'simd'],
      ['jpeg', 'patches', 'resample'],
      ['formats'],
      ['decode'],
      ['transform'],
      ['.', 'configs', 'lanes'],
    ],
    graph: [['.']],
    feeds: [['items'], ['.'], ['pictures']],
  },
  extract: { '.': [['replicas'], ['.']], stages: [['graph'], ['.']] },
  datasets: {
    '.': [
      ['formats', 'records', 'sources/items'],
      ['files', 'sources/folders', 'sources/lists', 'sources/sampling'],
      ['import', 'labels', 'merge', 'sources/archives', 'sources/records'],
      ['sources'],
      ['embed'],
      ['streams'],
    ],
  },
  learn: {
    parameters: [['folding', 'state'], ['safetensors', 'torch'], ['dicts'], ['match'], ['.']],
    gradients: [['backward'], ['rules'], ['.']],
    hub: [['.'], ['wheels']],
    zoo: [['.']],
    train: [['graph', 'optimizers', 'ranks', 'statistics'], ['losses'], ['runs'], ['.'], ['folder']],
  },
  products: {
    linear: [['.']],
    maps: [['.']],
    explain: [['.'], ['photos']],
    features: [['text/tokenizer'], ['text'], ['search'], ['dedupe', 'probe/rows'], ['probe/fit'], ['probe']],
    precision: [
      ['graph'],
      ['compare', 'graph/quantize'],
      ['lowering'],
      ['judge', 'lowering/search'],
      ['lowering/fixed-scales'],
      ['quantize'],
    ],
    pages: [
      ['.', 'explore/structure', 'report/collect', 'report/page'],
      ['explore/page', 'report/sections'],
      ['explore/see'],
      ['explore', 'report'],
    ],
    serve: [['http'], ['batches'], ['bodies'], ['routes'], ['.']],
  },
  cli: {
    '.': [
      ['measure', 'terminal'],
      ['flags'],
      [
        'commands',
        'commands/bench',
        'commands/dataset',
        'commands/draw',
        'commands/embed',
        'commands/models',
        'commands/probe',
      ],
      ['.'],
    ],
  },
};

/** What a product stands on beside `base`, and why. Of another product it imports only files that its `index.ts` hands out. */
const PRODUCTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  linear: {
    'onnx/file': 'a product of rows and weights is a small model',
    'onnx/tensor': 'rows of vectors',
    'run/runtime': 'a session multiplies them',
  },
  maps: {
    'onnx/graph': 'the grid that tokens lie on',
    'onnx/tensor': 'features at places',
    'run/model': 'the axes of an output',
    'photos/images': 'a map is a picture',
  },
  explain: {
    'onnx/tensor': 'gradients and features',
    'run/runtime': 'devices of a run',
    'run/model': 'the layer and the classes that a request means',
    'photos/images': 'the photo beneath a map',
    'photos/feeds': 'its transform',
    extract: 'extractors run the passes',
    'learn/gradients': 'class activation maps need them',
    'products/maps': 'colours of a map',
  },
  features: {
    'onnx/tensor': 'vectors',
    'onnx/graph': 'a text tower is recognised by its nodes',
    'run/runtime': 'devices of a run',
    'run/model': 'the model of a dataset, opened again',
    'photos/images': 'the photo that a search asks for',
    'photos/feeds': 'the transform of a dataset',
    extract: 'classifiers and text towers are extractors',
    datasets: 'vectors, paths and labels',
    'products/linear': 'probes and searches multiply rows by weights',
  },
  precision: {
    'base/html': 'the page of a comparison',
    'onnx/file': 'new tensors of a rewritten file',
    'onnx/graph': 'the rewrite',
    'onnx/tensor': 'weights and their halves',
    'run/runtime': 'what a device can compute',
    'run/model': 'a rewrite is prepared, cut and verified like others',
    'photos/images': 'photos of a calibration',
    'photos/feeds': 'photos as a model takes them',
    extract: 'extractors are compared',
    datasets: 'sources of photos and vectors of a comparison',
  },
  pages: {
    'base/html': 'pages',
    'onnx/file': 'weights and operators that the explorer shows',
    'onnx/graph': 'names, places and costs of nodes',
    'onnx/tensor': 'vectors and distributions',
    'run/runtime': 'devices of a run',
    'run/model': 'the model that is shown',
    'photos/images': 'thumbnails',
    'photos/feeds': 'photos of the explorer',
    extract: 'features of the explorer',
    datasets: 'the dataset that is shown',
    'products/linear': 'neighbours',
    'products/maps': 'colours',
    'products/explain': 'heat maps',
    'products/features': 'duplicates, probes and search',
  },
  serve: {
    'onnx/tensor': 'vectors of an answer',
    'run/runtime': 'the device of a service',
    'run/model': 'names of a request',
    'photos/feeds': 'the options of photos, and memory for those that come one by one',
    extract: 'one warm extractor',
    datasets: 'its transform, and vectors as .npy',
    'products/features': 'text towers',
  },
};

/** The most floors of a room, and the longest chain of imports inside a folder. */
const MOST_FLOORS = 6;

/** What only the named files may import. */
const IMPORTED_BY: Readonly<Record<string, readonly string[]>> = {
  'onnxruntime-node': ['run/runtime/engines/onnxruntime-node.ts'],
  koffi: ['run/runtime/engines/native/koffi.ts'],
  'onnx-proto': ['onnx/file/wire/write-model.ts'],
  'protobufjs/minimal.js': ['onnx/file/wire/wire.ts'],
  sharp: ['photos/images/decode/open-sharp.ts'],
  'prom-client': ['cli/terminal/metrics-server.ts', 'products/serve/batches/metrics.ts'],
  'ml-matrix': ['onnx/tensor/vectors/principal-components.ts'],
  'umap-js': ['products/pages/report/collect/umap.ts'],
  'hyparquet-writer': ['datasets/formats/metadata.ts', 'datasets/formats/saved-columns.ts'],
  'apache-arrow': ['datasets/formats/library.ts'],
};

const LOADED_LAZILY = ['onnxruntime-node', 'koffi', 'sharp'];

/** A file of the package: what it imports, types included, as files of the package and as names of other packages. */
interface SourceFile {
  readonly path: string;
  readonly text: string;
  readonly files: readonly string[];
  readonly packages: readonly string[];
}

const SRC = projectPath('src');
const files = new Map(
  readdirSync(SRC, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => readSource(path.replaceAll('\\', '/')))
    .map((file) => [file.path, file]),
);

function readSource(path: string): SourceFile {
  const text = readFileSync(join(SRC, path), 'utf8');
  const imports = [...text.matchAll(/(?:from|import\()\s*'([^']+)'/g)].map((match) => match[1]!);
  const isOwn = (name: string): boolean => name.startsWith('.');
  return {
    path,
    text,
    files: imports.filter(isOwn).map((name) => posix.join(dirname(path), name).replace(/\.js$/, '.ts')),
    packages: imports.filter((name) => !isOwn(name)),
  };
}

/** The face of the main job, which is in no folder. */
const FACE = 'index.ts';

/** The rooms of the house from the ground up: those of each folder, then those of the next. */
const ROOMS = Object.entries(HOUSE).flatMap(([top, rooms]) =>
  Object.entries(rooms).map(([room, floors]) => ({ name: posix.join(top, room), top, floors })),
);

/** The place of a file: its room, as a number from the ground up, and the floor inside it. */
interface Place {
  readonly room: number;
  readonly floor: number;
}

function placeOf(path: string): Place {
  const folder = dirname(path);
  for (const [room, { name, floors }] of ROOMS.entries()) {
    if (isEntry(path) && name === folder) return { room, floor: floors.length };
    const floor = floors.findIndex((folders) => folders.some((one) => posix.join(name, one) === folder));
    if (floor >= 0) return { room, floor };
  }
  throw new Error(`"${path}" lies in no folder of the house`);
}

/** The product of a file; undefined for others. */
function productOf(path: string): string | undefined {
  return /^products\/([^/]+)\//.exec(path)?.[1];
}

/** Whether a file is the public face of a room. */
function isEntry(path: string): boolean {
  return /^(?:\w+\/)+index\.ts$/.test(path);
}

/** Why a file may not import another; undefined if it may. */
function whyNot(path: string, target: string): string | undefined {
  if (!files.has(target)) return 'no such file';
  if (target === FACE || isEntry(target)) return 'faces are for users: import the file itself';
  if (path === FACE || dirname(path) === dirname(target)) return undefined;
  const [from, to] = [placeOf(path), placeOf(target)];
  if (from.room !== to.room) return from.room > to.room ? undefined : 'a room above';
  return from.floor > to.floor ? undefined : 'not a lower floor of the room';
}

describe('architecture', () => {
  it('has floors: imports, those of types included, lead down, and never in a circle', () => {
    const folders = new Set([...files.keys()].filter((path) => path !== FACE).map((path) => dirname(path)));
    const inTable = ROOMS.flatMap(({ name, floors }) => floors.flat().map((one) => posix.join(name, one)));
    const entries = [...files.keys()].filter(isEntry).map((path) => dirname(path));
    expect([...folders].toSorted()).toEqual([...new Set([...inTable, ...entries])].toSorted());
    const upward = [...files.values()].flatMap((file) =>
      file.files
        .map((target) => ({ file: file.path, target, why: whyNot(file.path, target) }))
        .filter(({ why }) => why !== undefined),
    );
    expect(upward).toEqual([]);
    const chains = new Map<string, number>();
    const chainOf = (path: string, above: readonly string[]): number => {
      if (above.includes(path)) throw new Error(`files in a circle: ${[...above, path].join(' → ')}`);
      const known = chains.get(path);
      if (known !== undefined) return known;
      const lengths = files
        .get(path)!
        .files.map((target) => [target, chainOf(target, [...above, path])] as const)
        .filter(([target]) => dirname(target) === dirname(path));
      const length = 1 + Math.max(0, ...lengths.map(([, chain]) => chain));
      chains.set(path, length);
      return length;
    };
    for (const path of files.keys()) chainOf(path, []);
    expect([...chains].filter(([, length]) => length > MOST_FLOORS)).toEqual([]);
    expect(ROOMS.filter(({ floors }) => floors.length > MOST_FLOORS)).toEqual([]);
  });

  it('is the list of folders in CONTRIBUTING', () => {
    const contributing = readFileSync(projectPath('CONTRIBUTING.md'), 'utf8');
    const listed = Array.from(contributing.matchAll(/^\| `(\w+)\/` +\|/gm), ([, folder]) => folder);
    expect(listed).toEqual(Object.keys(HOUSE));
  });

  it('has products that stand on what they name, and on what other products hand out', () => {
    const roomNameOf = (path: string): string => ROOMS[placeOf(path).room]!.name;
    const handedOut = new Set(
      [...files.values()].filter(({ path }) => isEntry(path)).flatMap(({ files: targets }) => targets),
    );
    const used = new Map(Object.keys(PRODUCTS).map((product) => [product, new Set<string>()]));
    const inside = [...files.values()].flatMap(({ path, files: targets }) => {
      const product = productOf(path);
      if (product === undefined) return [];
      for (const target of targets) used.get(product)!.add(roomNameOf(target));
      return targets
        .filter((target) => ![undefined, product].includes(productOf(target)))
        .filter((target) => files.has(`products/${productOf(target)}/index.ts`) && !handedOut.has(target))
        .map((target) => ({ file: path, target }));
    });
    expect(inside).toEqual([]);
    for (const [product, rooms] of used)
      expect([...rooms].filter((room) => ![`products/${product}`, 'base'].includes(room)).toSorted()).toEqual(
        Object.keys(PRODUCTS[product]!).toSorted(),
      );
  });

  it('keeps what belongs to one place there', () => {
    const importers = (name: string): string[] =>
      [...files.values()]
        .filter(({ packages }) => packages.includes(name))
        .map(({ path }) => path)
        .toSorted();
    for (const [name, allowed] of Object.entries(IMPORTED_BY)) expect(importers(name), name).toEqual(allowed);
    expect(importers('commander').filter((path) => !path.startsWith('cli/'))).toEqual([]);
    const isEager = new RegExp(`^import (?!type).*'(${LOADED_LAZILY.join('|')})'`, 'm');
    expect([...files.values()].filter(({ text }) => isEager.test(text))).toEqual([]);
    const talks = /console\.|process\.(argv|stdout|stderr|exit\(|exitCode)|process\.on\('SIG/;
    const talkers = [...files.values()].filter(({ text }) => talks.test(withoutComments(text)));
    expect(talkers.map(({ path }) => path).filter((path) => !path.startsWith('cli/'))).toEqual([]);
  });

  it('knows engines by what they can do: their names are compared nowhere', () => {
    const name = `'(?:${ENGINES.join('|')})'`;
    const compares = new RegExp(`[!=]==?\\s*${name}|${name}\\s*[!=]==?|case ${name}|includes\\(${name}`);
    const comparesBinding = /binding\S* [!=]==? '|choice [!=]==? '/i;
    const isEngine = (path: string): boolean => path.startsWith('run/runtime/engines/');
    const knowing = [...files.values()].filter(({ path, text }) => {
      const code = withoutComments(text);
      return compares.test(code) || (!isEngine(path) && comparesBinding.test(code));
    });
    expect(knowing.map(({ path }) => path)).toEqual([]);
  });

  it('has short files, and tests for every room', () => {
    const lengths = [...files.values()].map(({ path, text }) => [path, text.split('\n').length] as const);
    expect(lengths.filter(([, lines]) => lines > 350)).toEqual([]);
    expect(lengths.filter(([path, lines]) => /-(thread|process)\.ts$/.test(path) && lines > 60)).toEqual([]);
    const tests = readdirSync(projectPath('test'), { recursive: true, encoding: 'utf8' });
    const untested = ROOMS.filter(
      ({ name }) => !tests.some((path) => path.startsWith(`${name}/`) && path.endsWith('.test.ts')),
    );
    expect(untested).toEqual([]);
  });
});

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
}
