/** The house: which room may import which, two levels deep, and what belongs to one file alone. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectPath } from './support/fixtures.js';

const SRC = projectPath('src');
const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.replaceAll('\\', '/'));

/** What a room stands on directly. It may import these rooms, what they stand on, and itself. */
const STANDS_ON: Readonly<Record<string, readonly string[]>> = {
  base: [],
  'base/files': [],
  onnx: ['base'],
  graph: ['onnx'],
  'graph/names': ['graph'],
  'graph/parameters': ['graph/names'],
  'graph/rewrite': ['graph'],
  'graph/rewrite/precision': ['graph/rewrite'],
  'graph/partition': ['graph/rewrite'],
  'graph/gradient/backward': ['graph/rewrite'],
  'graph/gradient/rules': ['graph/gradient/backward'],
  'graph/gradient': ['graph/gradient/rules'],
  'graph/training': ['graph/gradient/backward'],
  tensor: ['base'],
  'tensor/arrow': ['tensor'],
  runtime: ['tensor'],
  'runtime/devices': ['runtime'],
  'runtime/engines': ['runtime/devices'],
  model: ['graph/parameters', 'graph/rewrite', 'runtime'],
  'model/oracle': ['model', 'graph/gradient', 'graph/partition'],
  'model/parameters': ['model/parameters/folding', 'base/files'],
  'model/parameters/folding': ['model', 'hub/zoo/families'],
  'model/precision': ['model/oracle', 'graph/rewrite/precision'],
  extract: ['model/parameters', 'model/precision', 'runtime/devices'],
  'extract/attribution': ['extract'],
  'extract/stages': ['extract'],
  'extract/train': ['extract/statistics', 'extract/train/losses', 'extract/train/optimizers'],
  'extract/train/losses': ['graph/training', 'tensor'],
  'extract/train/optimizers': ['base'],
  'extract/statistics': ['extract'],
  text: ['extract'],
  'image/file': ['base'],
  'image/pixels': ['base'],
  'image/simd': ['base'],
  'image/bmp': ['image/pixels'],
  'image/jpeg': ['image/pixels', 'image/simd'],
  'image/resample': ['image/pixels', 'image/simd'],
  'image/formats': ['image/bmp', 'image/jpeg'],
  'image/decode': ['image/file', 'image/formats'],
  image: ['image/decode', 'image/resample', 'tensor'],
  'image/configs': ['image'],
  'image/lanes': ['image'],
  'sources/items': ['image/decode', 'base/files'],
  'sources/folders': ['sources/items'],
  'sources/archives': ['sources/folders'],
  'sources/lists': ['sources/items'],
  'sources/records': ['sources/lists', 'tensor/arrow'],
  'sources/sampling': ['sources/items'],
  sources: ['sources/archives', 'sources/records', 'sources/sampling', 'image'],
  'dataset/formats': ['tensor/arrow', 'base/files'],
  dataset: ['dataset/formats'],
  embed: ['extract', 'sources', 'dataset', 'image/configs', 'image/lanes'],
  'embed/measure': ['embed'],
  'embed/streams': ['embed'],
  'apps/pages/browser': ['base'],
  'apps/pages': ['base', 'apps/pages/browser'],
  'apps/pages/vectors': ['base'],
  'apps/search': ['embed', 'text'],
  'apps/dedupe': ['apps/search'],
  'apps/probe': ['apps/search'],
  'apps/attribution': ['embed', 'extract/attribution', 'apps/pages'],
  'apps/learn': ['embed', 'extract/statistics'],
  'apps/report/collect': ['dataset', 'apps/pages/vectors'],
  'apps/report/page': ['apps/pages/browser'],
  'apps/report': [
    'apps/attribution',
    'apps/dedupe',
    'apps/pages',
    'apps/probe',
    'apps/report/collect',
    'apps/report/page',
  ],
  'apps/compare/page': ['apps/pages/browser'],
  'apps/compare': ['embed', 'apps/pages', 'apps/pages/vectors', 'apps/compare/page'],
  'apps/train/page': ['apps/pages/browser'],
  'apps/train': ['embed', 'extract/train', 'apps/pages', 'apps/train/page'],
  'apps/explore/page': ['apps/pages', 'apps/pages/browser'],
  'apps/explore/describe': ['model/oracle', 'apps/pages', 'apps/explore/page'],
  'apps/explore/see': ['model', 'tensor', 'apps/pages', 'apps/explore/page'],
  'apps/explore': ['embed', 'extract/attribution', 'apps/pages', 'apps/explore/describe', 'apps/explore/see'],
  'apps/serve/http': ['base'],
  'apps/serve': ['embed', 'text', 'apps/serve/http'],
  hub: ['onnx'],
  'hub/wheels': ['hub', 'base/files'],
  'hub/zoo/network': ['onnx'],
  'hub/zoo/families': ['hub/zoo/network'],
  'hub/zoo': ['hub/zoo/families', 'hub', 'model/parameters'],
  'cli/terminal': ['embed', 'apps/pages', 'apps/train'],
  'cli/flags': ['cli/terminal', 'embed', 'extract/stages', 'hub', 'text'],
  'cli/commands': [
    'cli/flags',
    'hub/wheels',
    'hub/zoo',
    'embed/measure',
    'embed/streams',
    'apps/attribution',
    'apps/compare',
    'apps/dedupe',
    'apps/explore',
    'apps/learn',
    'apps/report',
    'apps/search',
    'apps/serve',
    'apps/train',
  ],
  'cli/commands/bench': ['cli/flags', 'embed/measure', 'apps/compare'],
  'cli/commands/embed': ['cli/flags', 'embed/measure', 'embed/streams'],
  'cli/commands/dataset': ['cli/flags', 'apps/dedupe', 'apps/report'],
  'cli/commands/probe': ['cli/flags', 'apps/probe'],
  cli: [
    'cli/commands',
    'cli/commands/bench',
    'cli/commands/dataset',
    'cli/commands/embed',
    'cli/commands/probe',
  ],
  index: [
    'extract/attribution',
    'extract/stages',
    'extract/train',
    'embed/measure',
    'embed/streams',
    'apps/attribution',
    'apps/compare',
    'apps/dedupe',
    'apps/explore',
    'apps/learn',
    'apps/probe',
    'apps/report',
    'apps/search',
    'apps/serve',
    'apps/train',
    'hub/wheels',
    'hub/zoo',
  ],
};

/** A room with more files than this needs sub-rooms. */
const MOST_FILES = 26;

function roomOf(file: string): string {
  return dirname(file) === '.' ? 'index' : dirname(file);
}

/** All rooms that a room may import. */
function below(room: string): Set<string> {
  const reached = new Set([room]);
  for (const one of reached) for (const next of STANDS_ON[one] ?? []) reached.add(next);
  return reached;
}

/** What a file imports, types included, as the files of this package or the names of others. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), 'utf8');
  return [...text.matchAll(/(?:from|import\()\s*'([^']+)'/g)].map((match) => match[1]!);
}

function filesImportedBy(file: string): string[] {
  return importsOf(file)
    .filter((path) => path.startsWith('.'))
    .map((path) => posix.join(dirname(file), path).replace(/\.js$/, '.ts'));
}

describe('architecture', () => {
  it('has rooms, and knows each of them', () => {
    expect(new Set(files.map(roomOf))).toEqual(new Set(Object.keys(STANDS_ON)));
  });

  it('has floors: no room stands on itself', () => {
    for (const room of Object.keys(STANDS_ON)) {
      const others = STANDS_ON[room]!.flatMap((next) => Array.from(below(next)));
      expect(others, room).not.toContain(room);
      for (const next of others) expect(Object.keys(STANDS_ON), room).toContain(next);
    }
  });

  it.each(files)('%s imports only lower floors', (file) => {
    const allowed = below(roomOf(file));
    for (const target of filesImportedBy(file)) {
      expect(files, `${file} imports ${target}`).toContain(target);
      expect([...allowed], `${file} imports ${target}`).toContain(roomOf(target));
    }
  });

  it('has no circle of files, type-only imports included', () => {
    const settled = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
      if (settled.has(file)) return;
      expect(path, `circle: ${[...path, file].join(' → ')}`).not.toContain(file);
      for (const target of filesImportedBy(file)) visit(target, [...path, file]);
      settled.add(file);
    };
    for (const file of files) visit(file, []);
  });

  it(`has no room of more than ${MOST_FILES} files`, () => {
    for (const room of Object.keys(STANDS_ON))
      expect(files.filter((file) => roomOf(file) === room).length, room).toBeLessThanOrEqual(MOST_FILES);
  });

  it.each([
    ['onnxruntime-node', ['runtime/engines/onnxruntime.ts']],
    ['koffi', ['runtime/engines/openvino.ts']],
    ['onnx-proto', ['onnx/write-model.ts']],
    ['protobufjs/minimal.js', ['onnx/wire.ts']],
    ['sharp', ['image/decode/open-sharp.ts']],
    ['prom-client', ['apps/serve/metrics.ts', 'cli/terminal/metrics-server.ts']],
    ['umap-js', ['apps/pages/vectors/umap.ts']],
    // base/http.ts has its types only.
    ['undici', ['base/http-agents.ts', 'base/http.ts']],
    ['hyparquet-writer', ['dataset/formats/metadata.ts']],
    ['apache-arrow', ['tensor/arrow/library.ts']],
  ])('%s is imported in %j only', (name, allowed) => {
    expect(files.filter((file) => importsOf(file).includes(name)).toSorted()).toEqual(allowed);
  });

  it('commander is imported in cli/ only', () => {
    const importers = files.filter((file) => importsOf(file).includes('commander'));
    expect(importers).toContain('cli/program.ts');
    expect(importers.filter((file) => !file.startsWith('cli/'))).toEqual([]);
  });

  it('loads native code and the HTTP client lazily', () => {
    for (const name of ['onnxruntime-node', 'koffi', 'sharp', 'undici']) {
      for (const file of files) {
        const text = readFileSync(join(SRC, file), 'utf8');
        expect(text, file).not.toMatch(new RegExp(`^import (?!type).*'${name}'`, 'm'));
      }
    }
  });

  it('prints and exits only in cli/', () => {
    const inside = /console\.|process\.(argv|stdout|stderr|exit\(|exitCode)|process\.on\('SIG/;
    const offenders = files.filter((file) => !file.startsWith('cli/') && inside.test(withoutComments(file)));
    expect(offenders).toEqual([]);
  });

  it('keeps files short: 350 lines at most, a thread entry 60', () => {
    const lengths = files.map(
      (file) => [file, readFileSync(join(SRC, file), 'utf8').split('\n').length] as const,
    );
    expect(lengths.filter(([, lines]) => lines > 350)).toEqual([]);
    expect(lengths.filter(([file, lines]) => /-(thread|process)\.ts$/.test(file) && lines > 60)).toEqual([]);
  });

  it('mirrors src/ in test/', () => {
    const tests = readdirSync(projectPath('test'), { recursive: true, encoding: 'utf8' });
    const rooms = Object.keys(STANDS_ON).filter((room) => room !== 'index');
    for (const room of rooms) {
      expect(
        tests.some((file) => file.startsWith(`${room}/`) && file.endsWith('.test.ts')),
        room,
      ).toBe(true);
    }
  });
});

function withoutComments(file: string): string {
  return readFileSync(join(SRC, file), 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
}
