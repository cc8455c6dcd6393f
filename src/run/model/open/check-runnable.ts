/** What onnxruntime-node cannot run, found before a session opens: its own messages do not say what to do. */
import { TapirError } from '../../../base/errors.js';
import { ELEMENT_TYPE, elementTypeName } from '../../../onnx/file/wire/schema.js';
import { tensorType, type Value } from '../../../onnx/graph/graph.js';
import { measureExpansion } from '../../../onnx/graph/rewrite/expansion.js';
import { addedNodes, keptInputs, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { deviceName, type ResolvedDevice } from '../../runtime/lanes/device.js';
import { isDType } from '../../../onnx/tensor/tensor.js';

/** The newest IR version that ONNX Runtime 1.30 reads. */
const MAX_IR_VERSION = 13;

/** Types that ONNX Runtime accepts in a session although they can neither be fed nor fetched. */
const ACCEPTED: ReadonlySet<string> = new Set(['int4', 'uint4']);

/**
 * Checks that onnxruntime-node can run a rewritten model. Throws `SESSION_FAILED` for a newer IR version, and for inputs and outputs whose
 * type has no array in JavaScript, such as bfloat16; for functions that expand to more nodes than ONNX Runtime opens.
 */
export function checkRunnable(rewrite: Rewrite, device: ResolvedDevice): void {
  const { irVersion } = rewrite.cut.graph.model;
  if (irVersion > MAX_IR_VERSION) {
    throw refuse(
      device,
      `it has IR version ${irVersion}, and ONNX Runtime reads up to ${MAX_IR_VERSION}`,
      `save it with that version: python -c "import onnx; m = onnx.load('model.onnx'); m.ir_version = ${MAX_IR_VERSION}; onnx.save(m, 'model-ir${MAX_IR_VERSION}.onnx')"`,
    );
  }
  checkExpansion(rewrite, device);
  const check = (what: string, elemType: number | undefined, whyNot: string, remedy: string): void => {
    const type = nameStrange(elemType);
    if (type !== undefined) throw refuse(device, `its ${what} is ${type}, which cannot be ${whyNot}`, remedy);
  };
  for (const value of keptInputs(rewrite)) {
    const remedy = 'cut the graph after its first Cast (option "inputs"), or export it with a float32 input';
    check(`input "${value.name}"`, typeOf(rewrite, value), 'fed', remedy);
  }
  for (const { name, elemType } of rewrite.inputs) {
    const remedy = 'choose tensors of another type as "inputs", such as those after a Cast';
    check(`input "${name}"`, elemType, 'fed', remedy);
  }
  for (const { request, type, value } of rewrite.outputs) {
    const elemType = type?.elemType ?? typeOf(rewrite, value);
    const remedy =
      elemType === ELEMENT_TYPE.bfloat16
        ? 'request it with outputDtype "float32", which adds a Cast (tapir: --output-dtype float32)'
        : 'request a tensor of another type, such as the result of the Cast or DequantizeLinear that reads it';
    check(`output "${request}"`, elemType, 'fetched', remedy);
  }
}

/**
 * The names of nodes that onnxruntime's WebGPU provider claims when a session opens, and refuses when it runs them (1.30). A lane runs
 * them on the CPU, as onnxruntime does with nodes that the provider does not claim.
 */
export function listHostNodes(rewrite: Rewrite): string[] {
  return [...rewrite.cut.nodes, ...addedNodes(rewrite)]
    .filter(({ name, opType, outputs }) => opType === 'MaxPool' && outputs[1] && name)
    .map(({ name }) => name);
}

/**
 * The most nodes that functions may expand to. ONNX Runtime 1.30 takes 20 s of CPU to put 120,000 nodes in the place of calls, and four
 * times as long for twice as many.
 */
const MOST_EXPANDED = 100_000;
/** ONNX Runtime 1.30 crashes on functions that call each other 4,000 deep, and in threads earlier. Exporters nest them ten deep. */
const MOST_DEPTH = 256;

function checkExpansion({ cut }: Rewrite, device: ResolvedDevice): void {
  if (cut.graph.functions.size === 0) return;
  const { nodes, depth } = measureExpansion(cut);
  const remedy = 'export the model without functions, or cut it first (tapir extract)';
  if (depth > MOST_DEPTH)
    throw refuse(
      device,
      `its functions call each other ${depth} deep, and ${MOST_DEPTH} are possible`,
      remedy,
    );
  if (nodes <= MOST_EXPANDED) return;
  const [count, most] = [nodes, MOST_EXPANDED].map((number) => number.toLocaleString('en-US'));
  const reason = `its functions expand to ${count} nodes, more than ${most}: ONNX Runtime would take minutes or for ever`;
  throw refuse(device, reason, remedy);
}

function typeOf({ restated }: Rewrite, value: Value): number | undefined {
  return restated.get(value)?.elemType ?? tensorType(value)?.elemType;
}

/** The name of a type that no input or output of a session can have; `undefined` for all others. */
function nameStrange(elemType: number | undefined): string | undefined {
  const name = elemType === undefined ? undefined : elementTypeName(elemType);
  return name === undefined || name === 'undefined' || isDType(name) || ACCEPTED.has(name) ? undefined : name;
}

function refuse(device: ResolvedDevice, reason: string, remedy: string): TapirError<'SESSION_FAILED'> {
  const name = deviceName(device);
  return new TapirError('SESSION_FAILED', `the model cannot run on ${name}: ${reason}; ${remedy}`, {
    details: { device: name, reason },
  });
}
