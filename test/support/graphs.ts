/** Small ONNX files, written down by the tests themselves, and the corpus's index. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import onnxProto from 'onnx-proto';
import type { TensorLike } from 'onnx-tapir';
import { readNpy } from './npy.js';
import { someOf } from './rounds.js';

const { onnx } = onnxProto;

/** A node: operator, inputs, outputs, and what else it has. */
export interface NodeSpec {
  readonly op: string;
  readonly inputs?: readonly string[];
  readonly outputs: readonly string[];
  readonly name?: string;
  readonly domain?: string;
  /** Bodies by attribute. */
  readonly bodies?: Readonly<Record<string, GraphSpec>>;
  /** Integer attributes: one number, or a list. */
  readonly ints?: Readonly<Record<string, number | readonly number[]>>;
  /** Float attributes. */
  readonly floats?: Readonly<Record<string, number>>;
  /** Text attributes. */
  readonly texts?: Readonly<Record<string, string>>;
  /** Tensor attributes, such as the `value` of a Constant. */
  readonly tensors?: Readonly<Record<string, WeightSpec>>;
}

/** A declared value: a float32 vector `[n]` if only named. */
export type ValueSpec =
  string | { readonly name: string; readonly dims: readonly (number | string)[]; readonly elemType?: number };

/** A weight: a float32 vector, or a tensor of dims; int64 if asked for. */
export type WeightSpec =
  | readonly number[]
  | {
      readonly dims: readonly number[];
      readonly values: readonly number[];
      readonly elemType?: 'float32' | 'int64';
    }
  /** float32 in another file. */
  | { readonly dims: readonly number[]; readonly external: Readonly<Record<string, string>> };

export interface GraphSpec {
  readonly inputs?: readonly ValueSpec[];
  readonly outputs: readonly ValueSpec[];
  /** Types of tensors between. */
  readonly valueInfos?: readonly ValueSpec[];
  readonly nodes: readonly NodeSpec[];
  readonly initializers?: Readonly<Record<string, WeightSpec>>;
}

type GraphProto = InstanceType<typeof onnx.GraphProto>;

function valueInfo(spec: ValueSpec): InstanceType<typeof onnx.ValueInfoProto> {
  const { name, dims, elemType = 1 } = typeof spec === 'string' ? { name: spec, dims: ['n'] } : spec;
  const dim = dims.map((size) => (typeof size === 'number' ? { dimValue: size } : { dimParam: size }));
  return onnx.ValueInfoProto.create({ name, type: { tensorType: { elemType, shape: { dim } } } });
}

function weightOf(name: string, spec: WeightSpec): InstanceType<typeof onnx.TensorProto> {
  if ('external' in spec) {
    const externalData = Object.entries(spec.external).map(([key, value]) => ({ key, value }));
    return onnx.TensorProto.create({
      name,
      dims: [...spec.dims],
      dataType: 1,
      dataLocation: 1,
      externalData,
    });
  }
  const { dims, values, elemType = 'float32' } = 'dims' in spec ? spec : vectorOf(spec);
  const data = elemType === 'int64' ? BigInt64Array.from(values.map(BigInt)) : Float32Array.from(values);
  const rawData = new Uint8Array(data.buffer);
  return onnx.TensorProto.create({ name, dims: [...dims], dataType: elemType === 'int64' ? 7 : 1, rawData });
}

function vectorOf(values: readonly number[]): {
  dims: readonly number[];
  values: readonly number[];
  elemType?: undefined;
} {
  return { dims: [values.length], values };
}

function graphOf(spec: GraphSpec): GraphProto {
  return onnx.GraphProto.create({
    name: 'test',
    input: (spec.inputs ?? []).map(valueInfo),
    output: spec.outputs.map(valueInfo),
    valueInfo: (spec.valueInfos ?? []).map(valueInfo),
    initializer: Object.entries(spec.initializers ?? {}).map(([name, weight]) => weightOf(name, weight)),
    node: spec.nodes.map(({ op, inputs, outputs, name, domain, bodies, ints, floats, texts, tensors }) => ({
      opType: op,
      input: [...(inputs ?? [])],
      output: [...outputs],
      name: name ?? '',
      domain: domain ?? '',
      attribute: [
        ...Object.entries(bodies ?? {}).map(([attribute, body]) => ({
          name: attribute,
          type: 5,
          g: graphOf(body),
        })),
        ...Object.entries(ints ?? {}).map(([attribute, value]) =>
          typeof value === 'number'
            ? { name: attribute, type: 2, i: value }
            : { name: attribute, type: 7, ints: [...value] },
        ),
        ...Object.entries(floats ?? {}).map(([attribute, f]) => ({ name: attribute, type: 1, f })),
        ...Object.entries(texts ?? {}).map(([attribute, text]) => ({
          name: attribute,
          type: 3,
          s: Buffer.from(text),
        })),
        ...Object.entries(tensors ?? {}).map(([attribute, weight]) => ({
          name: attribute,
          type: 4,
          t: weightOf('', weight),
        })),
      ],
    })),
  });
}

/** The bytes of a model with a graph. */
export function modelBytes(
  spec: GraphSpec,
  more: {
    readonly functions?: readonly object[];
    readonly opset?: number;
    readonly irVersion?: number;
    readonly producer?: string;
  } = {},
): Uint8Array {
  const opsetImport = [
    { domain: '', version: more.opset ?? 17 },
    { domain: 'local', version: 1 },
  ];
  // The types of onnx-proto take only plain objects of its interfaces, which these are.
  const functions = (more.functions ?? []) as InstanceType<typeof onnx.FunctionProto>[];
  const { irVersion = 8, producer: producerName = '' } = more;
  const graph = graphOf(spec);
  return onnx.ModelProto.encode({ irVersion, producerName, opsetImport, graph, functions }).finish();
}

/** A model with more entries of metadata: protobuf messages that stand one after the other are one. */
export function withMetadata(model: Uint8Array, entries: Readonly<Record<string, string>>): Uint8Array {
  const metadataProps = Object.entries(entries).map(([key, value]) => ({ key, value }));
  return Buffer.concat([model, onnx.ModelProto.encode({ metadataProps }).finish()]);
}

/** A chain of Relu nodes `t0 → t1 → …`. */
export function chain(length: number): GraphSpec {
  const nodes = Array.from({ length }, (_, i) => ({
    op: 'Relu',
    inputs: [`t${i}`],
    outputs: [`t${i + 1}`],
    name: `n${i}`,
  }));
  return { inputs: ['t0'], outputs: [`t${length}`], nodes };
}

/** An entry of a corpus's index.json. */
export interface CorpusEntry {
  readonly name: string;
  readonly file: string;
  readonly external: readonly string[];
  readonly setup?: string;
  readonly policy?: string;
  readonly ort?: { readonly loads: boolean; readonly error: string | null };
  readonly inputs?: readonly { readonly name: string; readonly file: string; readonly dtype: string }[];
  readonly taps?: readonly Tap[];
}

export interface Tap {
  readonly request: readonly string[];
  readonly inputs: readonly string[];
  readonly nodes: number;
  readonly initializers: number;
  readonly functions: number;
  readonly expected: readonly {
    readonly name: string;
    readonly file: string | null;
    readonly dtype: string;
    readonly shape?: readonly number[];
    readonly mean?: number;
    readonly std?: number;
    readonly first8?: readonly number[];
  }[];
}

/** Reads the index of a corpus. */
export function readCorpus(folder: string): CorpusEntry[] {
  return JSON.parse(readFileSync(`${folder}/index.json`, 'utf8')) as CorpusEntry[];
}

/** What a check tries of the corpus: of whole networks, which take seconds each, one in three. */
export function inCheck(entries: readonly CorpusEntry[]): readonly CorpusEntry[] {
  const [networks, graphs] = [true, false].map((isNetwork) =>
    entries.filter(({ name }) => name.startsWith('light_') === isNetwork),
  );
  return [...graphs!, ...someOf(networks!, 3)];
}

/** Reads an input or an expected value of the corpus. */
export function readValue(source: string, file: string): TensorLike {
  if (!file.endsWith('.json')) return readNpy(join(source, file));
  const { dtype, shape, data } = JSON.parse(readFileSync(join(source, file), 'utf8')) as {
    dtype: string;
    shape: number[];
    data: string[];
  };
  return { dtype, dims: shape, data: data.flat(9) };
}
