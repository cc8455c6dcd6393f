/** Joins the outputs of several runs, as the gather of torch.nn.parallel does. Where torch silently drops or mixes outputs, this throws. */
import { TapirError } from '../../base/errors.js';
import { copyInTurns, type Span } from './copy.js';
import { createData, elementCount, makeTensor, nameTensor, type NamedTensor, type Tensor } from './tensor.js';

/**
 * Joins the outputs of runs along an axis, in the order of the runs, which have the same names in the same order. Scalars become a vector
 * with one element per run; a single run is returned without a copy. Throws `OUTPUT_NOT_GATHERABLE` if an output is missing in some runs,
 * or if its dtype, its rank or a size of another axis differs, or if it has no such axis.
 */
export async function gather(
  runs: readonly (readonly NamedTensor[])[],
  axis: number,
): Promise<NamedTensor[]> {
  const [first = [], ...others] = runs;
  if (others.length === 0) return [...first];
  const names = first.map(({ name }) => name);
  for (const run of others) checkNames(names, run);
  const results = names.map((name, i) => {
    const parts = runs.map((run) => run[i]!);
    const { dtype } = parts[0]!;
    const dims = joinedDims(name, parts, axis);
    return { name, parts, dims, dtype, data: createData(dtype, elementCount(dims)) };
  });
  await copyInTurns(
    results.flatMap(({ parts, dims, data }) =>
      parts.map((part, i) => ({ source: part.data, target: data, spans: spansOf(parts, i, dims, axis) })),
    ),
  );
  return results.map(({ name, dtype, dims, data }) => nameTensor(name, makeTensor(dtype, dims, data)));
}

function checkNames(names: readonly string[], run: readonly NamedTensor[]): void {
  const given = run.map(({ name }) => name);
  const odd = names.find((name) => !given.includes(name)) ?? given.find((name) => !names.includes(name));
  if (odd !== undefined) throw ungatherable(odd, 'some devices returned it and others did not');
  if (names.some((name, i) => name !== given[i]))
    throw ungatherable(names[0]!, 'devices returned outputs in different order');
}

function joinedDims(name: string, parts: readonly Tensor[], axis: number): number[] {
  const [first] = parts;
  const shapes = (): string => parts.map(({ dims }) => `[${dims.join(', ')}]`).join(', ');
  const { dtype, dims } = first!;
  const odd = parts.find((part) => part.dtype !== dtype);
  if (odd) throw ungatherable(name, `its dtype is ${dtype} on one device and ${odd.dtype} on another`);
  if (parts.some((part) => part.dims.length !== dims.length))
    throw ungatherable(name, `its rank differs: ${shapes()}`);
  if (dims.length === 0 && axis === 0) return [parts.length];
  if (axis >= dims.length) throw ungatherable(name, `it has no axis ${axis}: ${shapes()}`);
  if (parts.some((part) => part.dims.some((size, at) => at !== axis && size !== dims[at])))
    throw ungatherable(name, `sizes of axes other than ${axis} differ: ${shapes()}`);
  const size = parts.reduce((sum, part) => sum + part.dims[axis]!, 0);
  return dims.with(axis, size);
}

/** Where the elements of one part go: one span per index of the axes before the joined one. */
function* spansOf(
  parts: readonly Tensor[],
  index: number,
  dims: readonly number[],
  axis: number,
): Generator<Span> {
  const sizeOf = (part: Tensor): number => part.dims[axis] ?? 1;
  const inner = elementCount(dims.slice(axis + 1));
  const outer = elementCount(dims.slice(0, axis));
  const before = parts.slice(0, index).reduce((sum, part) => sum + sizeOf(part), 0);
  const length = sizeOf(parts[index]!) * inner;
  for (let i = 0; i < outer; i++) yield { from: i * length, to: (i * dims[axis]! + before) * inner, length };
}

function ungatherable(output: string, reason: string): TapirError<'OUTPUT_NOT_GATHERABLE'> {
  return new TapirError('OUTPUT_NOT_GATHERABLE', `output "${output}" cannot be joined: ${reason}`, {
    details: { output, reason },
  });
}
