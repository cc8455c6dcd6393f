/** Small ONNX files, written down by the tests themselves, and the corpus's index. */
import { readFileSync } from 'node:fs';
import onnxProto from 'onnx-proto';

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
  readonly ints?: Readonly<Record<string, readonly number[]>>;
}

export interface GraphSpec {
  readonly inputs?: readonly string[];
  readonly outputs: readonly string[];
  readonly nodes: readonly NodeSpec[];
  /** float32 vectors. */
  readonly initializers?: Readonly<Record<string, readonly number[]>>;
}

type GraphProto = InstanceType<typeof onnx.GraphProto>;

function valueInfo(name: string): InstanceType<typeof onnx.ValueInfoProto> {
  const shape = { dim: [{ dimParam: 'n' }] };
  return onnx.ValueInfoProto.create({ name, type: { tensorType: { elemType: 1, shape } } });
}

function graphOf(spec: GraphSpec): GraphProto {
  return onnx.GraphProto.create({
    name: 'test',
    input: (spec.inputs ?? []).map(valueInfo),
    output: spec.outputs.map(valueInfo),
    initializer: Object.entries(spec.initializers ?? {}).map(([name, values]) => ({
      name,
      dims: [values.length],
      dataType: 1,
      rawData: new Uint8Array(Float32Array.from(values).buffer),
    })),
    node: spec.nodes.map(({ op, inputs, outputs, name, domain, bodies, ints }) => ({
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
        ...Object.entries(ints ?? {}).map(([attribute, values]) => ({
          name: attribute,
          type: 7,
          ints: [...values],
        })),
      ],
    })),
  });
}

/** The bytes of a model with a graph. */
export function modelBytes(
  spec: GraphSpec,
  more: { readonly functions?: readonly object[] } = {},
): Uint8Array {
  const opsetImport = [
    { domain: '', version: 17 },
    { domain: 'local', version: 1 },
  ];
  // The types of onnx-proto take only plain objects of its interfaces, which these are.
  const functions = (more.functions ?? []) as InstanceType<typeof onnx.FunctionProto>[];
  return onnx.ModelProto.encode({ irVersion: 8, opsetImport, graph: graphOf(spec), functions }).finish();
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
