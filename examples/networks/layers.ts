/** Writes small untrained networks as ONNX, for the examples. In practice, torch.onnx.export or createModel gives the model. */
import onnxProto from 'onnx-proto';

const { onnx } = onnxProto;

interface Layer {
  readonly op: string;
  /** The module's name; layers without weights have none. */
  readonly name?: string;
  /** Sizes of the weight; the first one is that of the bias. */
  readonly weight?: readonly number[];
  /** Integers, or lists of them. */
  readonly attributes?: Readonly<Record<string, number | readonly number[]>>;
}

/** A chain of layers: input `x [N, …]`, output `y [N, out]`. Weights are spread evenly over ±1 / √(inputs), as torch starts layers. */
export function network(inputSizes: readonly number[], layers: readonly Layer[], out: number): Uint8Array {
  const node = layers.map(({ op, name, weight, attributes = {} }, i) => ({
    opType: op,
    name: name === undefined ? '' : `/${name}/${op}`,
    input: [i === 0 ? 'x' : `t${i}`, ...(weight ? [`${name}.weight`, `${name}.bias`] : [])],
    output: [i === layers.length - 1 ? 'y' : `t${i + 1}`],
    attribute: Object.entries(attributes).map(([key, value]) =>
      typeof value === 'number' ? { name: key, type: 2, i: value } : { name: key, type: 7, ints: [...value] },
    ),
  }));
  const initializer = layers.flatMap(({ name, weight }) =>
    weight
      ? [tensor(`${name}.weight`, weight, weight), tensor(`${name}.bias`, weight.slice(0, 1), weight)]
      : [],
  );
  const value = (name: string, sizes: readonly number[]) => {
    const dim = [{ dimParam: 'N' }, ...sizes.map((size) => ({ dimValue: size }))];
    return { name, type: { tensorType: { elemType: 1, shape: { dim } } } };
  };
  const graph = {
    name: 'network',
    node,
    initializer,
    input: [value('x', inputSizes)],
    output: [value('y', [out])],
  };
  return onnx.ModelProto.encode({ irVersion: 8, opsetImport: [{ domain: '', version: 17 }], graph }).finish();
}

function tensor(name: string, dims: readonly number[], [, ...inputs]: readonly number[]) {
  const product = (sizes: readonly number[]): number => sizes.reduce((a, b) => a * b, 1);
  const bound = 1 / Math.sqrt(product(inputs));
  const seed = Buffer.from(name).reduce((sum, byte) => (sum * 31 + byte) % 1000, 7);
  const data = Float32Array.from({ length: product(dims) }, (_, i) => bound * Math.sin(seed + i * 12.9898));
  return { name, dims: [...dims], dataType: 1, rawData: new Uint8Array(data.buffer) };
}
