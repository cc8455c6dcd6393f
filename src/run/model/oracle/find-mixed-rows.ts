/** Finds where the rows of a batch meet in a model: a session infers the sizes that tensors have for many rows. Nothing runs. */
import {
  findMixedRows as findInGraph,
  MANY_ROWS,
  type MixedRows,
} from '../../../onnx/graph/batch/mixed-rows.js';
import { tensorType, type Value } from '../../../onnx/graph/graph.js';
import { nodeRoles } from '../../../onnx/graph/roles.js';
import { keptInputs, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import { inferAnew } from './infer-types.js';
import { readFacts } from './measure-values.js';
import type { MeasuredShape, ModelCosts } from './model-costs.js';
import { SessionHolder } from './session-holder.js';

/**
 * Finds where rows meet. A model whose inputs state their batch is not looked at: it runs batch by batch.
 *
 * @param costs - Of the same model: they hold sizes that its inputs take.
 */
export async function findMixedRows(
  model: OnnxModel,
  { rewrite, shapes, batch }: Pick<ModelCosts, 'rewrite' | 'shapes' | 'batch'>,
): Promise<MixedRows> {
  const fed = withManyRows(rewrite, shapes);
  if (!fed) return { nodes: new Map(), outputs: [] };
  await using sessions = new SessionHolder(model);
  const computed = [...rewrite.cut.values].filter(({ producer }) => producer !== undefined);
  const known = new Map<Value, MeasuredShape>(fed);
  const roles = nodeRoles(rewrite.cut.graph);
  for (const [value, { isTensor, dims }] of await inferAnew(computed, sessions, fed)) {
    const shape = shapes.get(value)?.dims;
    const sizes = roles.get(value.producer!) === 'data' && shape ? withRows(dims, shape, batch) : dims;
    // Without sizes, it has no axes, or nobody knows how many.
    const isKnown = sizes.length > 0 ? sizes.every((size) => typeof size === 'number') : shape?.length === 0;
    if (isTensor && isKnown) known.set(value, { elemType: 0, dims: sizes as number[] });
  }
  const measured = new Map([...known].map(([value, shape]) => [value, { ...shape, integers: undefined }]));
  return modelInternals
    .of(model)
    .withSource((source) => findInGraph(rewrite, readFacts(new WireReader(source), measured)));
}

/** The types of the inputs with many rows where the file leaves their number open; undefined if it does so nowhere. */
function withManyRows(
  rewrite: Rewrite,
  shapes: ModelCosts['shapes'],
): ReadonlyMap<Value, MeasuredShape> | undefined {
  const fed = new Map<Value, MeasuredShape>();
  let hasOpen = false;
  for (const value of keptInputs(rewrite)) {
    const type = tensorType(value);
    const dims = shapes.get(value)?.dims ?? rewrite.restated.get(value)?.dims ?? type?.dims;
    if (!type || !dims?.every((size) => typeof size === 'number')) continue;
    const isOpen = typeof type.dims?.[0] !== 'number' && dims.length > 0;
    hasOpen ||= isOpen;
    fed.set(value, { elemType: type.elemType, dims: isOpen ? dims.with(0, MANY_ROWS) : dims });
  }
  return hasOpen ? fed : undefined;
}

/**
 * Puts the rows on the only axis whose size was not inferred, if no other axis has them: data does not lose them where a size is unknown.
 *
 * @param measured - The sizes for `batch` rows.
 */
function withRows(
  dims: readonly (number | string)[],
  measured: readonly number[],
  batch: number,
): readonly (number | string)[] {
  const [axis, ...others] = dims.flatMap((size, i) => (typeof size === 'string' ? [i] : []));
  const hasRows = dims.some((size) => typeof size === 'number' && size > 0 && size % MANY_ROWS === 0);
  if (axis === undefined || others.length > 0 || hasRows || measured.length !== dims.length) return dims;
  const each = measured[axis]! / batch;
  return Number.isInteger(each) ? dims.with(axis, each * MANY_ROWS) : dims;
}
