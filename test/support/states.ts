/** Files of weights for tests. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { StateTensor } from '../../src/learn/parameters/state/state-tensor.js';
import type { Tensor } from '../../src/onnx/tensor/tensor.js';
import { fixturePath } from './fixtures.js';

/** A file of test/fixtures/parameters. Those that are compressed are unpacked into the scratch folder. */
export function stateFixture(name: string, scratch: string): string {
  const path = fixturePath(`parameters/${name}`);
  if (existsSync(path)) return path;
  const unpacked = join(scratch, basename(name));
  if (!existsSync(unpacked)) writeFileSync(unpacked, gunzipSync(readFileSync(`${path}.gz`)));
  return unpacked;
}

/** All tensors of a state dict, in its order. */
export async function readAll(state: ReadonlyMap<string, StateTensor>): Promise<[string, Tensor][]> {
  const tensors: [string, Tensor][] = [];
  for (const [key, tensor] of state) tensors.push([key, await tensor.read()]);
  return tensors;
}

/** The bytes of a safetensors file. */
export function safetensorsBytes(header: unknown, data: Uint8Array): Buffer {
  const text = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, data]);
}

/** A tensor for {@link tensorPickle}. */
interface TensorToPickle {
  readonly elements: number;
  readonly offset?: number;
  readonly dims: readonly number[];
  readonly strides: readonly number[];
  readonly type?: string;
  /** Key of the storage. */
  readonly key?: string;
  /** The first element of a view of the storage, as torch before 0.4 wrote it. */
  readonly first?: number;
  /** An element type of torch: the storage has none then. */
  readonly dtype?: string;
  /** A mark that torch sets on the tensor. */
  readonly mark?: 'conj' | 'neg';
}

/** The opcodes of a pickle that gives a tensor, as torch.save writes it; without the end. */
export function tensorOpcodes({
  elements,
  offset = 0,
  dims,
  strides,
  type = 'FloatStorage',
  key = '0',
  first,
  dtype,
  mark,
}: TensorToPickle): Buffer {
  const integer = (value: number): Buffer => {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32LE(value);
    return Buffer.concat([Buffer.from('J'), bytes]);
  };
  const tuple = (items: readonly Buffer[]): Buffer =>
    Buffer.concat([Buffer.from('('), ...items, Buffer.from('t')]);
  const opcodes = (text: string): Buffer => Buffer.from(text, 'latin1');
  const id = [
    pickledText('storage'),
    opcodes(dtype === undefined ? `ctorch\n${type}\n` : 'ctorch.storage\nUntypedStorage\n'),
    pickledText(key),
    pickledText('cpu'),
    integer(elements),
    ...(first === undefined ? [] : [tuple([pickledText('view'), integer(first), integer(elements - first)])]),
  ];
  const storage = Buffer.concat([tuple(id), opcodes('Q')]);
  const sizes = [dims, strides].map((values) => tuple(values.map(integer)));
  const args = [
    storage,
    integer(offset),
    ...sizes,
    opcodes('\x89'),
    opcodes('ccollections\nOrderedDict\n)R'),
    ...(dtype === undefined ? [] : [opcodes(`ctorch\n${dtype}\n`)]),
    ...(mark === undefined ? [] : [Buffer.concat([opcodes('}'), pickledText(mark), opcodes('\x88s')])]),
  ];
  const version = dtype === undefined ? 2 : 3;
  return Buffer.concat([opcodes(`ctorch._utils\n_rebuild_tensor_v${version}\n`), tuple(args), opcodes('R')]);
}

/** A pickle of a tensor. */
export function tensorPickle(tensor: TensorToPickle): Buffer {
  return Buffer.concat([Buffer.from('\x80\x02', 'latin1'), tensorOpcodes(tensor), Buffer.from('.')]);
}

/** The opcode of a short text. */
export function pickledText(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([Buffer.of(0x58, bytes.length, 0, 0, 0), bytes]);
}

/** A pickle of a dict. */
export function dictPickle(items: readonly (readonly [string, Buffer])[]): Buffer {
  const pairs = items.flatMap(([key, value]) => [pickledText(key), value]);
  return Buffer.concat([Buffer.from('\x80\x02}(', 'latin1'), ...pairs, Buffer.from('u.')]);
}

/** The pickles of a file that torch before 1.6 wrote: all that stands in front of the storages. */
export function legacyPickles(object: Buffer, keys: readonly string[]): Buffer {
  return Buffer.concat([
    Buffer.from('\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.', 'latin1'),
    Buffer.from('\x80\x02M\xe9\x03.', 'latin1'),
    Buffer.from('\x80\x02}.', 'latin1'),
    object,
    Buffer.from('\x80\x02](', 'latin1'),
    ...keys.map(pickledText),
    Buffer.from('e.'),
  ]);
}

/** A storage as torch before 1.6 wrote it. */
export function legacyStorage(elements: number, bytes: Uint8Array): Buffer {
  const count = Buffer.alloc(8);
  count.writeBigInt64LE(BigInt(elements));
  return Buffer.concat([count, bytes]);
}
