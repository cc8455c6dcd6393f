import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isTapirError } from '../../../../src/base/errors.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource, openFileSource } from '../../../../src/onnx/file/wire/source.js';
import { decodeText, encodeFieldHead, encodeText } from '../../../../src/onnx/file/wire/wire.js';
import { fixturePath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { chain, modelBytes } from '../../../support/graphs.js';

const scratch = scratchFolder();
const scan = (bytes: Uint8Array): ReturnType<typeof scanModel> => scanModel(memorySource(bytes));

/** A length-delimited field. */
function field(number: number, body: Uint8Array): Uint8Array {
  return Buffer.concat([encodeFieldHead(number, body.byteLength), body]);
}

describe('scanModel', () => {
  it('indexes names, operators, domains and dims without payloads', () => {
    const model = scan(tinyResNet());
    expect(model).toMatchObject({ irVersion: 8, producer: 'onnx-tapir' });
    expect(model.opsets.get('')).toBe(17);
    expect(model.graph.inputs[0]).toMatchObject({
      name: 'input',
      type: { kind: 'tensor', elemType: 1, dims: ['batch', 3, 64, 64] },
    });
    expect(model.graph.initializers[0]).toMatchObject({
      name: 'conv1.weight',
      dims: [4, 3, 7, 7],
      elemType: 1,
    });
    expect(model.graph.nodes[0]).toMatchObject({
      name: '/conv1/Conv',
      opType: 'Conv',
      inputs: ['input', 'conv1.weight'],
    });
  });

  it('reads a file as it reads memory, seeking past weights', () => {
    const path = join(scratch, 'tiny.onnx');
    writeFileSync(path, tinyResNet());
    const source = openFileSource(path);
    let read = 0;
    const counting = {
      ...source,
      read: (offset: number, length: number) => {
        read += length;
        return source.read(offset, length);
      },
    };
    expect(JSON.stringify(scanModel(counting).graph)).toBe(JSON.stringify(scan(tinyResNet()).graph));
    expect(read).toBeGreaterThan(0);
    source.close();
  });

  it('does not read weights of a large file', () => {
    const head = Buffer.concat([field(8, Buffer.from('w')), field(9, new Uint8Array(4_000_000))]);
    const path = join(scratch, 'large.onnx');
    writeFileSync(path, Buffer.concat([Uint8Array.of(8, 8), field(7, field(5, head))]));
    const source = openFileSource(path);
    let read = 0;
    scanModel({
      ...source,
      read: (offset, length) => {
        read += length;
        return source.read(offset, length);
      },
    });
    source.close();
    expect(read).toBeLessThan(100_000);
  });

  const looks: readonly (readonly [string, Uint8Array, RegExp])[] = [
    ['an empty file', new Uint8Array(0), /empty file/],
    [
      'a Git LFS pointer',
      Buffer.from('version https://git-lfs.github.com/spec/v1\noid sha256:00'),
      /git lfs pull/,
    ],
    ['an HTML page', Buffer.from('<!DOCTYPE html><html></html>'), /HTML page/],
    ['an ORT file', Buffer.from('\u0018\0\0\0ORTM........'), /ORT format/],
    ['a zip archive', Buffer.from('PK\u0003\u0004....'), /zip archive/],
    [
      'PyTorch weights',
      readFileSync(fixturePath('parameters/shared/shared.B.pth')),
      /it looks like a PyTorch file; these are weights without a network: .*tapir models create NAME --weights FILE/,
    ],
    [
      'safetensors',
      readFileSync(fixturePath('parameters/shared/shared.B.safetensors')),
      /a safetensors file; these are weights without a network: .*tapir models load MODEL --weights FILE/,
    ],
    [
      'weights of an old torch',
      gunzipSync(readFileSync(fixturePath('parameters/formats/legacy.pth.gz'))),
      /an old PyTorch file; these are weights without a network/,
    ],
    ['ONNX as text', Buffer.from('ir_version: 8\ngraph {\n}'), /text form/],
    ['plain text', Buffer.from('hello, this is not a model'), /plain text/],
  ];
  it.each(looks)('says that bytes look like %s', (_name, bytes, pattern) => {
    expect(() => scan(bytes)).toThrow(pattern);
    expect(malformed(bytes)).toMatchObject({ byteOffset: 0, looksLike: expect.any(String) });
  });

  const overlong = Uint8Array.of(0x08, ...Array.from({ length: 11 }, () => 0xff));
  const damaged: readonly (readonly [string, Uint8Array, RegExp])[] = [
    ['field 0', Uint8Array.of(0x08, 8, 0x02, 0), /number 0/],
    ['a group', Uint8Array.of(0x08, 8, 0x3b), /wire type 3/],
    ['wire type 6', Uint8Array.of(0x08, 8, 0x3e), /wire type 6/],
    ['an over-long varint', overlong, /varint/],
    ['a truncated varint', Uint8Array.of(0x08, 0x80), /middle of a field/],
    [
      'a negative length',
      Uint8Array.of(0x08, 8, 0x3a, ...Array.from({ length: 9 }, () => 0xff), 0x01),
      /length/,
    ],
    ['a huge length', Uint8Array.of(0x08, 8, 0x3a, 0xff, 0xff, 0xff, 0xff, 0x07), /past the end of the file/],
    [
      'a field beyond its message',
      Uint8Array.of(0x08, 8, 0x3a, 3, 0x0a, 5, 0, 0x08, 8, 0x08, 8),
      /past the end of its message/,
    ],
    ['a graph of the wrong wire type', Uint8Array.of(0x08, 8, 0x38, 1), /wire type 0, expected 2/],
    ['no graph', Uint8Array.of(0x08, 8), /no graph/],
    ['no ir_version', Uint8Array.of(0x3a, 0), /no ir_version/],
  ];
  it.each(damaged)('refuses %s, with the byte offset', (_name, bytes, pattern) => {
    expect(() => scan(bytes)).toThrow(pattern);
    expect(malformed(bytes)?.byteOffset).toBeGreaterThanOrEqual(0);
  });

  it('refuses nesting beyond what protobuf accepts, and takes a nesting below', () => {
    const nested = (depth: number): Uint8Array => {
      let graph: Uint8Array = new Uint8Array(0);
      for (let i = 0; i < depth; i++) graph = field(1, field(5, field(6, graph)));
      return Buffer.concat([Uint8Array.of(8, 8), field(7, graph)]);
    };
    expect(scan(nested(30)).graph.nodes).toHaveLength(1);
    expect(() => scan(nested(40))).toThrow(/nested more than 100/);
    expect(() => scan(nested(5000))).toThrow(/nested more than 100/);
  });

  it('merges a graph that is split over two fields', () => {
    const graph = (name: string): Uint8Array => field(7, field(1, field(3, Buffer.from(name))));
    const model = scan(Buffer.concat([Uint8Array.of(8, 8), graph('a'), graph('b')]));
    expect(model.graph.nodes.map((node) => node.name)).toEqual(['a', 'b']);
  });

  it('reads dims one by one as well as packed', () => {
    const packed = field(5, Buffer.concat([field(1, Uint8Array.of(2, 0x80, 1)), field(8, Buffer.from('w'))]));
    const single = field(5, Buffer.concat([Uint8Array.of(8, 2, 8, 0x80, 1), field(8, Buffer.from('w'))]));
    for (const tensor of [packed, single]) {
      const model = scan(Buffer.concat([Uint8Array.of(8, 8), field(7, tensor)]));
      expect(model.graph.initializers[0]?.dims).toEqual([2, 128]);
    }
  });

  it('ends every truncation and byte flip in a model or a typed error', () => {
    const files = [
      modelBytes(chain(3)),
      tinyResNet().subarray(0, 3000),
      readFileSync(fixturePath('graphs/generated/extract/if_capture.onnx')),
    ];
    fc.assert(
      fc.property(fc.constantFrom(...files), fc.nat(), fc.nat(255), fc.boolean(), (file, at, byte, cut) => {
        const bytes = cut ? file.slice(0, at % file.length) : file.slice();
        if (!cut) bytes[at % bytes.length] = byte;
        try {
          scan(bytes);
        } catch (error) {
          expect(isTapirError(error, 'MODEL_MALFORMED'), String(error)).toBe(true);
        }
      }),
      { numRuns: 2000, seed: 1 },
    );
  });
});

function malformed(bytes: Uint8Array): { byteOffset: number } | undefined {
  try {
    scan(bytes);
  } catch (error) {
    if (isTapirError(error, 'MODEL_MALFORMED')) return error.details;
    throw error;
  }
  return undefined;
}

describe('names', () => {
  it('round trip through text whatever their bytes are', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect(Buffer.from(encodeText(decodeText(bytes))).equals(Buffer.from(bytes))).toBe(true);
      }),
    );
  });

  it('stay different where their bytes differ', () => {
    expect(decodeText(Uint8Array.of(0xff))).not.toBe(decodeText(Uint8Array.of(0xfe)));
    expect(decodeText(Buffer.from('été'))).toBe('été');
  });
});
