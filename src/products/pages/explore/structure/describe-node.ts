/** What a file holds for one node: its attributes, and figures about its weights. */
import { isTapirError } from '../../../../base/errors.js';
import type { OnnxModel } from '../../../../run/model/open/open-model.js';
import { floatsOf } from '../../../../onnx/tensor/widen.js';
import { invalidOption } from '../../../../base/checks.js';
import { reasonOf } from '../../../../base/errors.js';
import { shown } from '../../../../base/printable.js';
import { binsFor, countInBins } from '../../../../base/histogram.js';
import { modelInternals } from '../../../../run/model/open/model-state.js';
import { readInitializer } from '../../../../run/model/open/read-initializer.js';
import { readAttributes, type Attribute } from '../../../../onnx/file/scan/attributes.js';
import type { ScannedTensor } from '../../../../onnx/file/scan/scan-value.js';
import { elementTypeName } from '../../../../onnx/file/wire/schema.js';
import { WireReader } from '../../../../onnx/file/wire/wire.js';
import type { NodeDetail, WeightDetail } from './model-structure.js';
import { measureFigures } from '../../../../onnx/tensor/measure-figures.js';

/** Describes a node by its index. Reads its weights. Throws `OPTION_INVALID` if there is no such node. */
export async function describeNode(model: OnnxModel, index: number): Promise<NodeDetail> {
  const state = modelInternals.of(model);
  const node = state.graph.nodes[index];
  if (!node) throw invalidOption('node', 'the index of a node', index);
  const attributes = state.readNow((source) => readAttributes(new WireReader(source), node.scanned));
  const weights: WeightDetail[] = [];
  for (const { name, initializer } of new Set(node.reads))
    // oxlint-disable-next-line no-await-in-loop -- one tensor at a time bounds the memory
    if (initializer) weights.push(await describeWeight(shown(name), initializer, state));
  return {
    attributes: [...attributes].map(([name, value]) => [shown(name), attributeText(value)]),
    weights,
  };
}

/** An attribute in words. Bodies, and lists of floats and texts, are named but not shown. */
function attributeText({ int, float, ints, text, tensor }: Attribute): string {
  if (tensor) return `tensor [${tensor.dims.join(', ')}]`;
  if (ints.length > 0) return `[${ints.join(', ')}]`;
  if (text !== undefined) return shown(text);
  return String(int ?? float ?? '…');
}

async function describeWeight(
  name: string,
  tensor: ScannedTensor,
  state: Parameters<typeof readInitializer>[0],
): Promise<WeightDetail> {
  const { dims } = tensor;
  const info = { name, dtype: elementTypeName(tensor.elemType) ?? `type ${tensor.elemType}`, dims };
  try {
    const values = floatsOf(await readInitializer(state, tensor));
    if (!values) return { ...info, problem: 'Texts have no figures.', figures: null, counts: [] };
    const figures = measureFigures(values);
    const finite = figures.notFinite === 0 ? values : values.filter(Number.isFinite);
    const counts = countInBins(finite, binsFor(finite.length))?.counts ?? [];
    return { ...info, problem: null, figures, counts };
  } catch (error) {
    if (!isTapirError(error)) throw error;
    return { ...info, problem: shown(reasonOf(error)), figures: null, counts: [] };
  }
}
