/** Small files that would take much memory: a typed error, or at most four times the file's size. */
import { closeSync, ftruncateSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { encodeFieldHead } from '../../../src/onnx/file/wire/wire.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { someOf } from '../../support/rounds.js';
import { runNode } from '../../support/run.js';

const scratch = scratchFolder();
const MEGABYTE = 2 ** 20;
/** What the process itself takes when it opens any file. */
const BASE_BYTES = 40 * MEGABYTE;

interface Outcome {
  readonly code: string | null;
  readonly grownBytes: number;
}

async function open(path: string): Promise<Outcome> {
  const { stdout, stderr } = await runNode([projectPath('test/support/open-model.mjs'), path]);
  expect(stderr).toBe('');
  return JSON.parse(stdout) as Outcome;
}

const field = (number: number, ...body: readonly Uint8Array[]): Uint8Array => {
  const bytes = Buffer.concat(body);
  return Buffer.concat([encodeFieldHead(number, bytes.length), bytes]);
};
const text = (number: number, value: string): Uint8Array => field(number, Buffer.from(value));
const repeat = (piece: Uint8Array, bytes: number): Uint8Array => Buffer.alloc(bytes, piece);

/** Writes a model whose graph ends with the given bytes, followed by some number of zeros. */
function write(name: string, graph: Uint8Array, zeros = 0): string {
  const path = join(scratch, name);
  const file = openSync(path, 'w');
  const head = Buffer.concat([Uint8Array.of(8, 8), encodeFieldHead(7, graph.length + zeros), graph]);
  writeSync(file, head);
  ftruncateSync(file, head.length + zeros);
  closeSync(file);
  return path;
}

/** A node with the graph as one of its bodies, to a depth. */
function nest(graph: Uint8Array, depth: number): Uint8Array {
  const body = field(5, text(1, 'then_branch'), field(6, graph));
  const outer = field(1, text(4, 'If'), body);
  return depth === 1 ? outer : nest(outer, depth - 1);
}

/** Nodes with names of their own, until they take some number of bytes. */
function nodes(bytes: number, make: (i: number) => Uint8Array): Uint8Array {
  const list: Uint8Array[] = [];
  for (let i = 0, size = 0; size < bytes; size += list[i++]!.length) list.push(make(i));
  return Buffer.concat(list);
}

const add = (i: number, prefix = ''): Uint8Array =>
  field(1, text(1, `${prefix}a${i}`), text(1, 'b'), text(2, `${prefix}c${i}`), text(4, 'Add'));

describe('files made to take memory', () => {
  it('a name of 600 MB is refused', async () => {
    const length = 600 * MEGABYTE;
    const name = encodeFieldHead(3, length);
    const outcome = await open(
      write('text.onnx', Buffer.concat([encodeFieldHead(1, name.length + length), name]), length),
    );
    expect(outcome.code).toBe('MODEL_MALFORMED');
    expect(outcome.grownBytes).toBeLessThan(BASE_BYTES);
  });

  const size = 10 * MEGABYTE;
  const deep = (prefix: string): Uint8Array =>
    Array.from({ length: 30 }).reduce<Uint8Array>(
      (inner, _, level) =>
        Buffer.concat([
          nodes(size / 30, (i) => add(i, `${prefix}${level}_`)),
          inner.length === 0 ? inner : nest(inner, 1),
        ]),
      Buffer.alloc(0),
    );
  const kinds: [what: string, make: () => Uint8Array][] = [
    ['a name of bytes that are not UTF-8', () => field(1, field(3, repeat(Uint8Array.of(0xff), size)))],
    ['packed dims', () => field(5, field(1, repeat(Uint8Array.of(1), size)))],
    ['dims one by one', () => field(5, repeat(Uint8Array.of(8, 1), size))],
    [
      'a shape of many axes',
      () => field(11, field(2, field(1, field(2, repeat(Uint8Array.of(10, 0), size))))),
    ],
    [
      'the axes of a Transpose',
      () => field(1, field(5, text(1, 'perm'), field(8, repeat(Uint8Array.of(1), size)))),
    ],
    ['empty nodes', () => repeat(Uint8Array.of(10, 0), size)],
    ['empty nodes in nested bodies', () => nest(repeat(Uint8Array.of(10, 0), size), 30)],
    ['empty bodies', () => field(1, repeat(field(5, field(6)), size))],
    ['fields that nothing knows', () => repeat(Uint8Array.of(0xfa, 1, 0), size)],
    ['nodes of short names in nested bodies', () => deep('')],
    ['nodes of long names in nested bodies', () => deep('/encoder/layers.0/attention/self/Mul/')],
    [
      'captured names',
      () =>
        nest(
          field(
            1,
            nodes(size, (i) => text(1, `n${i}`)),
          ),
          30,
        ),
    ],
    ['many nodes with bodies', () => nodes(size, () => nest(add(0), 1))],
    ['initializers without values', () => nodes(size, (i) => field(5, text(8, `w${i}`)))],
    ['value infos without types', () => nodes(size, (i) => field(13, text(1, `w${i}`)))],
  ];
  it.each(someOf(kinds, 2))('%s', async (_, make) => {
    const path = write('hostile.onnx', make());
    const { code, grownBytes } = await open(path);
    expect([null, 'MODEL_MALFORMED']).toContain(code);
    expect(grownBytes).toBeLessThan(4 * statSync(path).size + BASE_BYTES);
  });
});
