/** What onnxruntime-node cannot run, told before a session is opened: it would say so in words that help nobody. */
import { TapirError } from '../base/errors.js';
import { elementTypeName } from '../onnx/schema.js';
import { keptInputs, type Rewrite, type RewriteOutput } from '../graph/rewrite/rewrite.js';
import { deviceName, type ResolvedDevice } from '../runtime/device.js';
import { isDType } from '../tensor/tensor.js';

/** The newest IR version that ONNX Runtime 1.30 reads. */
const MAX_IR_VERSION = 13;

/** Types that it takes, though they can be neither fed nor fetched. */
const TAKEN: ReadonlySet<string> = new Set(['int4', 'uint4']);

/**
 * Checks that a rewritten model can be run at all.
 *
 * @throws {@link TapirError} `SESSION_FAILED` for a newer IR version, and for inputs and outputs of types without an array in
 * JavaScript, such as bfloat16.
 */
export function checkRunnable(rewrite: Rewrite, device: ResolvedDevice): void {
  const { irVersion } = rewrite.cut.graph.model;
  if (irVersion > MAX_IR_VERSION) {
    throw refuse(
      device,
      `it has IR version ${irVersion}, and ONNX Runtime reads up to ${MAX_IR_VERSION}`,
      `save it with that: python -c "import onnx; m = onnx.load('model.onnx'); m.ir_version = ${MAX_IR_VERSION}; onnx.save(m, 'model-ir${MAX_IR_VERSION}.onnx')"`,
    );
  }
  for (const value of keptInputs(rewrite)) {
    const type = strangeType(rewrite.restated.get(value)?.elemType ?? statedType(value));
    if (type === undefined) continue;
    const remedy = `cut the graph behind its first Cast (option "inputs"), or export it with a float32 input`;
    throw refuse(device, `its input "${value.name}" is ${type}, which cannot be fed`, remedy);
  }
  for (const { name, elemType } of rewrite.inputs) {
    const type = strangeType(elemType);
    if (type === undefined) continue;
    const remedy = 'choose tensors of another type as "inputs", such as those behind a Cast';
    throw refuse(device, `its input "${name}" is ${type}, which cannot be fed`, remedy);
  }
  for (const output of rewrite.outputs) {
    const type = strangeType(outputType(rewrite, output));
    if (type === undefined) continue;
    const remedy = `ask for it with outputDtype "float32", which adds a Cast (tapir: --output-dtype float32)`;
    throw refuse(device, `its output "${output.request}" is ${type}, which cannot be given out`, remedy);
  }
}

function outputType(rewrite: Rewrite, { type, value }: RewriteOutput): number | undefined {
  return type?.elemType ?? rewrite.restated.get(value)?.elemType ?? statedType(value);
}

function statedType({ type }: RewriteOutput['value']): number | undefined {
  return type?.kind === 'tensor' ? type.elemType : undefined;
}

/** The name of a type that no session can have as an input or output. */
function strangeType(elemType: number | undefined): string | undefined {
  const name = elemType === undefined ? undefined : elementTypeName(elemType);
  return name === undefined || name === 'undefined' || isDType(name) || TAKEN.has(name) ? undefined : name;
}

function refuse(device: ResolvedDevice, reason: string, remedy: string): TapirError<'SESSION_FAILED'> {
  const name = deviceName(device);
  return new TapirError('SESSION_FAILED', `the model cannot run on ${name}: ${reason}; ${remedy}`, {
    details: { device: name, reason },
  });
}
