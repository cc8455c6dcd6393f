/** The house: which room may import which, and what belongs to one file alone. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ENGINES } from '../src/runtime/capabilities/capabilities.js';
import { projectPath } from './support/fixtures.js';

interface Room {
  /** The rooms that it stands on directly. It may import them, and all that they stand on. */
  readonly on: readonly string[];
  /** Its folders from the ground up; `.` is the room itself. Folders of one floor do not know each other. */
  readonly floors: readonly (readonly string[])[];
}

const HOUSE: Readonly<Record<string, Room>> = {
  base: { on: [], floors: [['.'], ['files', 'http']] },
  html: { on: ['base'], floors: [['browser'], ['.']] },
  onnx: { on: ['base'], floors: [['wire'], ['scan'], ['.']] },
  tensor: { on: ['base'], floors: [['.', 'vectors'], ['arrow']] },
  networks: { on: ['onnx'], floors: [['.'], ['families']] },
  graph: {
    on: ['networks'],
    floors: [
      ['operators'],
      ['.'],
      ['names', 'rewrite'],
      ['batch', 'cost', 'parameters'],
      ['precision'],
      ['quantize'],
    ],
  },
  hub: { on: ['onnx'], floors: [['.'], ['wheels']] },
  images: {
    on: ['tensor'],
    floors: [
      ['file', 'pixels', 'simd'],
      ['jpeg', 'patches', 'resample'],
      ['formats'],
      ['decode'],
      ['transform'],
      ['.', 'configs', 'lanes'],
    ],
  },
  runtime: {
    on: ['tensor'],
    floors: [['capabilities'], ['lanes'], ['.'], ['devices'], ['engines/native'], ['engines']],
  },
  model: { on: ['graph', 'runtime'], floors: [['open'], ['.', 'prune'], ['lanes'], ['oracle']] },
  feeds: { on: ['images', 'model'], floors: [['items'], ['.'], ['pictures']] },
  extract: { on: ['feeds'], floors: [['replicas'], ['.']] },
  lowering: { on: ['extract'], floors: [['.'], ['search'], ['fixed-scales']] },
  linear: { on: ['runtime', 'onnx'], floors: [['.']] },
  maps: { on: ['images', 'model'], floors: [['.']] },
  structure: { on: ['model'], floors: [['.']] },
  gradients: { on: ['model'], floors: [['backward'], ['rules'], ['.']] },
  parameters: {
    on: ['networks', 'model'],
    floors: [['folding', 'state'], ['safetensors', 'torch'], ['dicts'], ['match'], ['.']],
  },
  datasets: {
    on: ['extract'],
    floors: [
      ['formats', 'records', 'sources/items'],
      ['files', 'sources/folders', 'sources/lists', 'sources/sampling'],
      ['import', 'labels', 'merge', 'sources/archives', 'sources/records'],
      ['sources'],
      ['embed'],
      ['streams'],
    ],
  },
  stages: { on: ['extract'], floors: [['graph'], ['.']] },
  zoo: { on: ['hub', 'parameters'], floors: [['.']] },
  explain: { on: ['gradients', 'datasets', 'maps'], floors: [['.'], ['photos']] },
  features: {
    on: ['datasets', 'linear'],
    floors: [['text/tokenizer'], ['text'], ['search'], ['dedupe', 'probe/rows'], ['probe/fit'], ['probe']],
  },
  precision: {
    on: ['html', 'lowering', 'datasets'],
    floors: [['compare'], ['judge'], ['quantize']],
  },
  train: {
    on: ['html', 'gradients', 'parameters', 'datasets', 'stages'],
    floors: [['graph', 'optimizers', 'statistics'], ['losses'], ['runs'], ['.'], ['folder']],
  },
  pages: {
    on: ['html', 'explain', 'features', 'structure'],
    floors: [
      ['.', 'explore/page', 'report/collect', 'report/page'],
      ['explore/see', 'report/sections'],
      ['explore', 'report'],
    ],
  },
  serve: { on: ['features'], floors: [['http'], ['batches'], ['bodies'], ['routes'], ['.']] },
  cli: {
    on: ['zoo', 'precision', 'train', 'pages', 'serve'],
    floors: [
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

/** The most floors of a room, and the longest chain of imports inside a folder. */
const MOST_FLOORS = 6;

/** What only the named files may import. */
const IMPORTED_BY: Readonly<Record<string, readonly string[]>> = {
  'onnxruntime-node': ['runtime/engines/onnxruntime-node.ts'],
  koffi: ['runtime/engines/native/koffi.ts'],
  'onnx-proto': ['onnx/wire/write-model.ts'],
  'protobufjs/minimal.js': ['onnx/wire/wire.ts'],
  sharp: ['images/decode/open-sharp.ts'],
  'prom-client': ['cli/terminal/metrics-server.ts', 'serve/batches/metrics.ts'],
  'ml-matrix': ['tensor/vectors/principal-components.ts'],
  'umap-js': ['pages/report/collect/umap.ts'],
  // base/http/http.ts has its types only.
  undici: ['base/http/http-agents.ts', 'base/http/http.ts'],
  'hyparquet-writer': ['datasets/formats/metadata.ts', 'datasets/formats/saved-columns.ts'],
  'apache-arrow': ['tensor/arrow/library.ts'],
};

const LOADED_LAZILY = ['onnxruntime-node', 'koffi', 'sharp', 'undici'];

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

/** The room of a file; undefined for the face of the main job. */
function roomOf(path: string): string | undefined {
  return path === 'index.ts' ? undefined : path.slice(0, path.indexOf('/'));
}

/** Whether a file is the face of an entry: it hands names on to users, and no file imports it. */
function isDoor(path: string): boolean {
  return /^(?:\w+\/)?index\.ts$/.test(path);
}

/** The folder of a file inside its room. */
function folderOf(path: string): string {
  return dirname(path).slice(roomOf(path)!.length + 1) || '.';
}

const below = new Map<string, ReadonlySet<string>>();

/** All rooms that a room may import. */
function roomsBelow(room: string, above: readonly string[] = []): ReadonlySet<string> {
  if (above.includes(room)) throw new Error(`rooms in a circle: ${[...above, room].join(' → ')}`);
  const known = below.get(room);
  if (known) return known;
  const on = HOUSE[room]!.on;
  const reached = new Set([...on, ...on.flatMap((next) => [...roomsBelow(next, [...above, room])])]);
  below.set(room, reached);
  return reached;
}

function floorOf(path: string): number {
  return HOUSE[roomOf(path)!]!.floors.findIndex((floor) => floor.includes(folderOf(path)));
}

/** Why a file may not import another; undefined if it may. */
function whyNot(path: string, target: string): string | undefined {
  if (!files.has(target)) return 'no such file';
  const [room, other] = [roomOf(path), roomOf(target)];
  if (isDoor(target)) return 'faces are for users: import the file itself';
  if (room === undefined || dirname(path) === dirname(target)) return undefined;
  if (room !== other) return roomsBelow(room).has(other!) ? undefined : `${room} does not stand on ${other}`;
  return isDoor(path) || floorOf(path) > floorOf(target) ? undefined : 'not a lower floor of the room';
}

describe('architecture', () => {
  it('has floors: imports, those of types included, lead down, and never in a circle', () => {
    const folders = new Set([...files.keys()].filter((path) => !isDoor(path)).map((path) => dirname(path)));
    const inTable = Object.entries(HOUSE).flatMap(([room, { floors }]) =>
      floors.flat().map((folder) => posix.join(room, folder)),
    );
    expect([...folders].toSorted()).toEqual(inTable.toSorted());
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
    expect(Object.entries(HOUSE).filter(([, { floors }]) => floors.length > MOST_FLOORS)).toEqual([]);
  });

  it('keeps what belongs to one place there', () => {
    const importers = (name: string): string[] =>
      [...files.values()]
        .filter(({ packages }) => packages.includes(name))
        .map(({ path }) => path)
        .toSorted();
    for (const [name, allowed] of Object.entries(IMPORTED_BY)) expect(importers(name), name).toEqual(allowed);
    expect(importers('commander').filter((path) => roomOf(path) !== 'cli')).toEqual([]);
    const isEager = new RegExp(`^import (?!type).*'(${LOADED_LAZILY.join('|')})'`, 'm');
    expect([...files.values()].filter(({ text }) => isEager.test(text))).toEqual([]);
    const talks = /console\.|process\.(argv|stdout|stderr|exit\(|exitCode)|process\.on\('SIG/;
    const talkers = [...files.values()].filter(({ text }) => talks.test(withoutComments(text)));
    expect(talkers.map(({ path }) => path).filter((path) => roomOf(path) !== 'cli')).toEqual([]);
  });

  it('knows engines by what they can do: their names are compared nowhere', () => {
    const name = `'(?:${ENGINES.join('|')})'`;
    const compares = new RegExp(`[!=]==?\\s*${name}|${name}\\s*[!=]==?|case ${name}|includes\\(${name}`);
    const comparesBinding = /binding\S* [!=]==? '|choice [!=]==? '/i;
    const isEngine = (path: string): boolean => path.startsWith('runtime/engines/');
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
    const untested = Object.keys(HOUSE).filter(
      (room) => !tests.some((path) => path.startsWith(`${room}/`) && path.endsWith('.test.ts')),
    );
    expect(untested).toEqual([]);
  });
});

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
}
