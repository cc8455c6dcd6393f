/** The house: which floor may import which, and what belongs to one file alone. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectPath } from './support/fixtures.js';

const SRC = projectPath('src');
const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.replaceAll('\\', '/'));

/** Rooms a room may import, besides itself. */
const FLOORS: Readonly<Record<string, readonly string[]>> = {
  base: [],
  onnx: ['base'],
  graph: ['base', 'onnx'],
  rewrite: ['base', 'onnx', 'graph'],
  runtime: ['base'],
  image: ['base'],
  extract: ['base', 'onnx', 'graph', 'rewrite', 'runtime'],
  embed: ['base', 'rewrite', 'runtime', 'extract', 'image'],
  report: ['base', 'runtime', 'image', 'embed'],
  search: ['base', 'onnx', 'rewrite', 'runtime', 'extract', 'image', 'embed'],
  serve: ['base', 'runtime', 'extract', 'image', 'embed'],
  hub: ['base'],
  cli: ['base', 'runtime', 'extract', 'image', 'embed', 'report', 'search', 'serve', 'hub'],
  index: ['base', 'rewrite', 'runtime', 'extract', 'image', 'embed', 'search', 'serve'],
};

function roomOf(file: string): string {
  const [first = '', ...rest] = file.split('/');
  return rest.length > 0 ? first : file === 'index.ts' ? 'index' : 'base';
}

function importsOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), 'utf8');
  return [...text.matchAll(/(?:from|import\()\s*'([^']+)'/g)].map((match) => match[1]!);
}

describe('architecture', () => {
  it('has rooms, and knows each of them', () => {
    expect(new Set(files.map(roomOf))).toEqual(new Set(Object.keys(FLOORS)));
  });

  it.each(files)('%s imports only lower floors', (file) => {
    const room = roomOf(file);
    const targets = importsOf(file)
      .filter((path) => path.startsWith('.'))
      .map((path) => posix.join(dirname(file), path).replace(/\.js$/, '.ts'));
    for (const target of targets) {
      expect(files, `${file} imports ${target}`).toContain(target);
      const other = roomOf(target);
      expect([room, ...FLOORS[room]!], `${file} imports ${target}`).toContain(other);
    }
  });

  it.each([
    ['onnxruntime-node', ['runtime/session.ts']],
    ['onnx-proto', ['onnx/schema.ts']],
    ['protobufjs/minimal.js', ['onnx/wire.ts']],
    ['sharp', ['image/decode.ts']],
    ['prom-client', ['cli/metrics-server.ts', 'serve/metrics.ts']],
    ['umap-js', ['report/umap.ts']],
    ['hyparquet-writer', ['embed/sinks/metadata.ts']],
    ['apache-arrow', ['embed/arrow/library.ts']],
  ])('%s is imported in %j only', (name, allowed) => {
    expect(files.filter((file) => importsOf(file).includes(name))).toEqual(allowed);
  });

  it('commander is imported in cli/ only', () => {
    const importers = files.filter((file) => importsOf(file).includes('commander'));
    expect(importers).toContain('cli/program.ts');
    expect(importers.filter((file) => !file.startsWith('cli/'))).toEqual([]);
  });

  it('loads native code lazily', () => {
    for (const name of ['onnxruntime-node', 'sharp']) {
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
    expect(lengths.filter(([file, lines]) => /lane-(thread|process)/.test(file) && lines > 60)).toEqual([]);
  });

  it('mirrors src/ in test/', () => {
    const tests = readdirSync(projectPath('test'), { recursive: true, encoding: 'utf8' });
    const rooms = Object.keys(FLOORS).filter((room) => room !== 'base' && room !== 'index');
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
