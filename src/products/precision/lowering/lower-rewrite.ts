/** A rewrite in float32 → the same one in float16, where that is right, and a report. */
import { isTapirError } from '../../../base/errors.js';
import { tensorType, type Node, type Value } from '../../../onnx/graph/graph.js';
import { externalTensors } from '../../../onnx/graph/rewrite/describe.js';
import { layOutRewrite, type Naming } from '../../../onnx/graph/rewrite/lay-out.js';
import { constantTensor, isConstant } from '../graph/constants.js';
import { chooseNodes, type NodeChoice } from '../graph/choose-nodes.js';
import { elementTypes, type ElementTypeOf } from '../graph/element-types.js';
import { halfForm } from '../graph/half-forms.js';
import { constantsRead, withFloat16 } from '../graph/with-float16.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { readAttributes } from '../../../onnx/file/scan/attributes.js';
import { sizeOf, type Chunk } from '../../../onnx/file/wire/chunk.js';
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import { payloadBytes } from '../../../onnx/file/tensor-payload.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { bytesOf } from '../../../onnx/tensor/bits.js';
import { encodeFloat16InRange, type RangedFloat16 } from '../../../onnx/tensor/float16.js';
import { typeFrom } from '../../../run/model/prune/feature-info.js';
import { inferTypes } from '../../../run/model/oracle/infer-types.js';
import type { SessionHolder } from '../../../run/model/oracle/session-holder.js';
import { modelInternals, type ModelState } from '../../../run/model/open/model-state.js';
import { readInitializerBytes } from '../../../run/model/open/read-initializer.js';
import { listKept, type LoweringReport } from './report.js';

/** Operators that are treated otherwise than the tables say. */
export interface OperatorChoice {
  readonly keep: ReadonlySet<string>;
  readonly convert: ReadonlySet<string>;
}

/** A lowered rewrite with the pieces of its file. */
export interface Lowered {
  readonly rewrite: Rewrite;
  readonly chunks: readonly Chunk[];
  readonly report: LoweringReport;
}

/** Lowers a rewrite to float16. Sessions are asked for types that neither the file nor its operators tell. */
export async function lowerRewrite(
  rewrite: Rewrite,
  naming: Naming,
  operators: OperatorChoice,
  sessions: SessionHolder,
): Promise<Lowered> {
  const state = modelInternals.of(sessions.model);
  const typeOf = await findTypes(state, rewrite, sessions);
  const { choice, weights } = await chooseAndRead(state, rewrite, typeOf, operators);
  const halves = new Map(
    constantsRead(choice.half, typeOf).map((value) => [value, bytesOf(weights.get(value)!.halves)]),
  );
  const made = withFloat16(rewrite, choice, typeOf, halves);
  const { casts, converted } = made;
  const note = `float16: ${choice.half.size} nodes compute in it, ${choice.kept.size} stay in float32, ${casts} casts between them`;
  const lowered = { ...made.rewrite, notes: [...made.rewrite.notes, note] };
  const { chunks, ...bytes } = await layOutLowered(state, rewrite, lowered, naming);
  const constants = [...rewrite.cut.values].filter(
    (value) => typeOf(value) === ELEMENT_TYPE.float32 && isConstant(value) && constantTensor(value),
  );
  const report: LoweringReport = {
    precision: 'float16',
    tensors: constants.length,
    converted: converted.length,
    nodes: choice.half.size,
    kept: listKept(choice.kept),
    overflows: [...weights].flatMap(([{ name: tensor }, { overflows: count, largest }]) =>
      count > 0 ? [{ tensor, count, largest }] : [],
    ),
    underflows: converted.flatMap((value) => {
      const { zeros, subnormals, halves: all } = weights.get(value)!;
      return zeros + subnormals > 0 ? [{ tensor: value.name, zeros, subnormals, elements: all.length }] : [];
    }),
    ...bytes,
    casts,
    measured: null,
  };
  return { rewrite: lowered, chunks, report };
}

/** Lays a lowered rewrite out, and says how large the file is with its external weights, before and after. */
export async function layOutLowered(
  { withSource }: ModelState,
  before: Rewrite,
  after: Rewrite,
  naming: Naming,
): Promise<Pick<Lowered, 'chunks'> & Pick<LoweringReport, 'bytesBefore' | 'bytesAfter'>> {
  const [old, chunks] = (await withSource((source) =>
    [before, after].map((one) => layOutRewrite(one, naming, new WireReader(source))),
  )) as [Chunk[], Chunk[]];
  return { chunks, bytesBefore: sizeWithWeights(before, old), bytesAfter: sizeWithWeights(after, chunks) };
}

function sizeWithWeights(rewrite: Rewrite, chunks: readonly Chunk[]): number {
  const external = externalTensors(rewrite).map(({ tensor }) => payloadBytes(tensor) ?? 0);
  return external.reduce((sum, bytes) => sum + bytes, sizeOf(chunks));
}

/** Chooses nodes until no chosen node reads a constant that float16 cannot hold. Each constant is read once. */
async function chooseAndRead(
  state: ModelState,
  rewrite: Rewrite,
  typeOf: ElementTypeOf,
  operators: OperatorChoice,
): Promise<{ choice: NodeChoice; weights: ReadonlyMap<Value, RangedFloat16> }> {
  const weights = new Map<Value, RangedFloat16>();
  const blocked = new Map<Node, string>();
  for (;;) {
    const choice = chooseNodes(rewrite, { typeOf, ...operators, blocked });
    for (const value of constantsRead(choice.half, typeOf))
      // oxlint-disable-next-line no-await-in-loop -- one tensor in float32 at a time
      if (!weights.has(value)) weights.set(value, await readHalves(state, value));
    const before = blocked.size;
    for (const node of choice.half) {
      const reason = whyBlocked(node, weights);
      if (reason !== undefined) blocked.set(node, reason);
    }
    if (blocked.size === before) return { choice, weights };
  }
}

/** Reads a float32 constant and rounds it. The float32 elements are released at once: one tensor of them is in memory at a time. */
async function readHalves(state: ModelState, value: Value): Promise<RangedFloat16> {
  const { buffer } = await readInitializerBytes(state, constantTensor(value)!);
  return encodeFloat16InRange(new Float32Array(buffer));
}

/** The slot of a BatchNormalization that it divides by the root of. */
const VARIANCE_SLOT = 4;

function whyBlocked(
  { opType, inputs }: Node,
  weights: ReadonlyMap<Value, RangedFloat16>,
): string | undefined {
  for (const [slot, value] of inputs.entries()) {
    const weight = value && weights.get(value);
    const isDivisor =
      (opType === 'BatchNormalization' && slot === VARIANCE_SLOT) || (opType === 'Div' && slot === 1);
    const reason = weight && whyNotHalf(value, weight, isDivisor);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

/** Why a constant cannot be float16 where a node reads it; undefined if it can. A divisor (the variance of a norm) must keep all digits. */
function whyNotHalf(
  { name }: Value,
  { overflows, zeros, subnormals, nonZeros, largest }: RangedFloat16,
  isDivisor: boolean,
): string | undefined {
  const lost = zeros + subnormals;
  if (overflows > 0)
    return `${overflows} of the values of "${name}" overflow above 65,504 (up to ${largest.toPrecision(3)})`;
  if (lost > 0 && lost === nonZeros)
    return `all values of "${name}" are too small for float16 (up to ${largest.toPrecision(3)})`;
  return isDivisor && lost > 0 ? `${lost} variances in "${name}" are too small for float16` : undefined;
}

/** The element types of a rewrite's values. ONNX Runtime is asked only for those that operators in float16 touch. */
async function findTypes(
  state: ModelState,
  rewrite: Rewrite,
  sessions: SessionHolder,
): Promise<ElementTypeOf> {
  const { cut } = rewrite;
  const attributes = await readTypeAttributes(state, cut.nodes);
  const fed = new Map(rewrite.inputs.map(({ name, elemType }) => [name, elemType]));
  const stated: ElementTypeOf = (value) => {
    const elemType = tensorType(value)?.elemType ?? fed.get(value.name);
    return elemType === 0 ? undefined : elemType;
  };
  const attributeOf = (node: Node): number | undefined => attributes.get(node);
  const typeOf = elementTypes(cut, stated, attributeOf);
  const unknown = new Set<Value>();
  for (const { domain, opType, inputs, outputs } of cut.nodes)
    if (domain === '' && halfForm(opType) !== undefined)
      for (const value of [...inputs, ...outputs])
        if (value && typeOf(value) === undefined) unknown.add(value);
  if (unknown.size === 0) return typeOf;
  try {
    const inferred = await inferTypes([...unknown], undefined, sessions);
    const known: ElementTypeOf = (value) => {
      const type = inferred.get(value);
      return stated(value) ?? (type && typeFrom(value, type)?.elemType);
    };
    return elementTypes(cut, known, attributeOf);
  } catch (error) {
    // Nodes with unknown types stay as they are. What is wrong with the model itself shows when it is opened.
    if (isTapirError(error, 'SESSION_FAILED')) return typeOf;
    throw error;
  }
}

/** The types that attributes state: the target of a Cast, the tensor of a Constant. */
function readTypeAttributes(
  { withSource }: ModelState,
  nodes: ReadonlySet<Node>,
): Promise<ReadonlyMap<Node, number>> {
  return withSource((source) => {
    const reader = new WireReader(source);
    const types = new Map<Node, number>();
    for (const node of nodes) {
      const { opType, scanned } = node;
      if (opType === 'Constant' || opType === 'ConstantOfShape') {
        const elemType = scanned.tensors[0]?.tensor.elemType ?? listType(reader, scanned);
        if (elemType !== undefined) types.set(node, elemType);
      } else if (opType === 'Cast') {
        const to = readAttributes(reader, scanned).get('to')?.int;
        if (to !== undefined) types.set(node, to);
      }
    }
    return types;
  });
}

function listType(reader: WireReader, scanned: Node['scanned']): number | undefined {
  const [name] = readAttributes(reader, scanned).keys();
  if (name?.startsWith('value_float')) return ELEMENT_TYPE.float32;
  if (name?.startsWith('value_string')) return ELEMENT_TYPE.string;
  return name?.startsWith('value_int') ? ELEMENT_TYPE.int64 : undefined;
}
