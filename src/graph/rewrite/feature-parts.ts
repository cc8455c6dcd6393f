/** Nodes that are added after a requested tensor: tokens to a map, pooling, normalisation, another element type. */
import { TapirError } from '../../base/errors.js';
import type { Layout } from '../layout.js';
import { ELEMENT_TYPE, elementTypeName, isFloatType, type Dim } from '../../onnx/wire/schema.js';
import { describeTokens, findGrid, reshapeToMap, type MeasuredTokens, type TokenGrid } from './token-grid.js';
import { opsetOf } from '../operator-sets.js';
import { NodeBuilder } from './node-builder.js';
import { replaceOutput, type Rewrite, type RewriteOutput } from './rewrite.js';

/** How a map or a list of tokens becomes one vector. */
export type Pool = 'none' | 'avg' | 'max' | 'cls' | 'mean-tokens';

/** The parts to add after one output, in this order. */
export interface FeatureParts {
  /** Turn patch tokens `[N, L, C]` into a map `[N, C, H, W]`, without the tokens before them. */
  readonly tokensToMap: boolean;
  readonly pool: Pool;
  /**
   * Divide by the Euclidean norm over the channels, at least 1e-12, as torch's `F.normalize`. Operator sets before 7 cannot express
   * that least norm: there, shorter vectors get unit length, and zeros stay zeros.
   */
  readonly l2Normalize: boolean;
  readonly dtype: 'keep' | 'float32' | 'float16';
}

/** Facts about the tensor that the parts need. */
export interface FeatureFacts {
  readonly elemType: number;
  readonly dims: readonly Dim[];
  readonly layout: Layout | null;
  /** Height and width of the model's image input, for the grid of patch tokens. */
  readonly imageSize: readonly [height: number, width: number] | undefined;
  /** The tokens as runs of the graph show them, if the file leaves their number open. */
  readonly tokens: MeasuredTokens | undefined;
}

/** A tensor on its way through the parts. */
interface State extends Pick<FeatureFacts, 'elemType' | 'dims' | 'layout'> {
  readonly tensor: string;
}

const EPSILON = 1e-12;
/** Operator sets since which operators broadcast. */
const DIV_BROADCASTS = 7;
const MAX_BROADCASTS = 8;
/** Whether the parts compute anything. */
export function isPlain({ tokensToMap, pool, l2Normalize, dtype }: FeatureParts): boolean {
  return !tokensToMap && pool === 'none' && !l2Normalize && dtype === 'keep';
}

/** Adds parts after an output, which then holds their result. Throws `OUTPUT_MISFIT` if its tensor or the operator set does not suit them. */
export function withFeatureParts(
  rewrite: Rewrite,
  output: RewriteOutput,
  parts: FeatureParts,
  facts: FeatureFacts,
): Rewrite {
  const opset = opsetOf(rewrite.cut.graph);
  const refuse = refusal(output.request, facts);
  if (!isFloatType(facts.elemType))
    throw refuse(
      'only floats can be pooled or normalised; for a quantised tensor, request the output of its DequantizeLinear',
    );
  const nodes = new NodeBuilder(rewrite.names, output.key, opset, refuse);
  let state: State = { tensor: output.tensor, ...facts, dims: tokenDims(facts) };
  if (parts.tokensToMap) state = tokensToMap(nodes, state, facts, refuse);
  if (parts.pool !== 'none') state = pooled(nodes, state, parts.pool, facts, refuse);
  if (parts.l2Normalize) state = normalized(nodes, state, refuse);
  const wanted = parts.dtype === 'keep' ? facts.elemType : ELEMENT_TYPE[parts.dtype];
  if (state.elemType !== wanted)
    state = { ...state, elemType: wanted, tensor: nodes.add('Cast', [state.tensor], { to: wanted }) };
  const tensor = rewrite.names.claim(output.key);
  const last = nodes.nodes.at(-1);
  if (!last) return rewrite; // The tensor has the wanted type already.
  nodes.nodes[nodes.nodes.length - 1] = { ...last, outputs: [tensor] };
  const type = { elemType: state.elemType, dims: state.dims };
  const layout = state.layout ?? undefined;
  const made = { ...output, tensor, type, layout, computed: describeParts(parts) };
  const notes = facts.tokens ? [describeTokens(output.request, facts.tokens)] : [];
  return { ...replaceOutput(rewrite, output, made, nodes), notes: [...rewrite.notes, ...notes] };
}

function describeParts({ tokensToMap: isMap, pool, l2Normalize, dtype }: FeatureParts): string[] {
  return [
    ...(isMap ? ['tokensToMap'] : []),
    ...(pool === 'none' ? [] : [`pool ${pool}`]),
    ...(l2Normalize ? ['l2Normalize'] : []),
    ...(dtype === 'keep' ? [] : [dtype]),
  ];
}

/** The dims, completed by measured tokens. */
function tokenDims({ dims, tokens }: FeatureFacts): readonly Dim[] {
  if (!tokens) return dims;
  const [batch = null, count = null, channels] = dims;
  return [batch, count, typeof channels === 'number' ? channels : tokens.channels];
}

type Refuse = (reason: string) => TapirError;

function refusal(request: string, { elemType, dims }: FeatureFacts): Refuse {
  const actual = `${elementTypeName(elemType) ?? '?'} [${dims.map((size) => size ?? '?').join(', ')}]`;
  return (reason) =>
    new TapirError('OUTPUT_MISFIT', `"${request}" is ${actual}: ${reason}`, {
      details: { output: request, actual, reason },
    });
}

function gridOf({ dims, layout }: State, { imageSize, tokens }: FeatureFacts, refuse: Refuse): TokenGrid {
  if (dims.length !== 3 || layout === 'NCL') throw refuse('tokens are [N, L, C]');
  const grid = findGrid(dims[1], imageSize, tokens);
  if (typeof grid === 'string') throw refuse(grid);
  return grid;
}

function tokensToMap(nodes: NodeBuilder, state: State, facts: FeatureFacts, refuse: Refuse): State {
  const grid = gridOf(state, facts, refuse);
  const { prefix } = grid;
  const [batch, , channels] = state.dims;
  if (typeof channels !== 'number') throw refuse('the number of channels is not known');
  const patches = prefix === 0 ? state.tensor : nodes.sliceFrom(state.tensor, 1, prefix);
  const turned = nodes.add('Transpose', [patches], { perm: [0, 2, 1] });
  const tensor = reshapeToMap(nodes, turned, channels, grid);
  return {
    ...state,
    tensor,
    dims: [batch ?? null, channels, ...(grid.size ?? [null, null])],
    layout: 'NCHW',
  };
}

function pooled(nodes: NodeBuilder, state: State, pool: Pool, facts: FeatureFacts, refuse: Refuse): State {
  const { dims, layout, tensor } = state;
  const batch = dims[0] ?? null;
  if (pool === 'cls' || pool === 'mean-tokens') {
    if (dims.length !== 3 || layout === 'NCL')
      throw refuse(`pool "${pool}" needs tokens [N, L, C]; for a map use "avg" or "max"`);
    const vector: Pick<State, 'dims' | 'layout'> = { dims: [batch, dims[2] ?? null], layout: 'NC' };
    if (pool === 'cls')
      return { ...state, ...vector, tensor: nodes.add('Gather', [tensor, nodes.integers(0)], { axis: 1 }) };
    const { prefix } = gridOf(state, facts, refuse);
    const patches = prefix === 0 ? tensor : nodes.sliceFrom(tensor, 1, prefix);
    return { ...state, ...vector, tensor: nodes.reduce('ReduceMean', patches, [1], false) };
  }
  if (dims.length !== 4 || (layout !== 'NCHW' && layout !== 'NHWC'))
    throw refuse(
      dims.length === 4
        ? `pool "${pool}" needs to know which axis holds the channels; request the output of a convolution or linear layer`
        : `pool "${pool}" needs a map [N, C, H, W]; for tokens use "cls" or "mean-tokens"`,
    );
  const [channels, axes] = layout === 'NCHW' ? [dims[1], [2, 3]] : [dims[3], [1, 2]];
  const vector = nodes.reduce(pool === 'avg' ? 'ReduceMean' : 'ReduceMax', tensor, axes, false);
  return { ...state, dims: [batch, channels ?? null], layout: 'NC', tensor: vector };
}

function normalized(nodes: NodeBuilder, state: State, refuse: Refuse): State {
  if (state.layout === null)
    throw refuse(
      'it is not known which axis holds its channels; request the output of a convolution or linear layer',
    );
  const axis = state.layout === 'NHWC' ? 3 : state.layout === 'NLC' ? 2 : 1;
  const { float32, float64 } = ELEMENT_TYPE;
  // Half precision cannot hold the least norm.
  const elemType = state.elemType === float64 ? float64 : float32;
  const tensor =
    state.elemType === elemType ? state.tensor : nodes.add('Cast', [state.tensor], { to: elemType });
  // Div does not broadcast in older operator sets.
  if (nodes.opset < DIV_BROADCASTS)
    return { ...state, elemType, tensor: nodes.add('LpNormalization', [tensor], { axis, p: 2 }) };
  const norm = nodes.reduce('ReduceL2', tensor, [axis], true);
  return { ...state, elemType, tensor: nodes.add('Div', [tensor, atLeast(nodes, norm, elemType)]) };
}

/** Adds the maximum of a tensor and the least norm. */
function atLeast(nodes: NodeBuilder, norm: string, elemType: number): string {
  const isDouble = elemType === ELEMENT_TYPE.float64;
  // Max does not broadcast in older operator sets, and ONNX Runtime's Clip takes only float32 there.
  if (nodes.opset < MAX_BROADCASTS && !isDouble)
    return nodes.add('Clip', [norm], { min: { float: EPSILON } });
  const epsilon = isDouble ? Float64Array.of(EPSILON) : Float32Array.of(EPSILON);
  return nodes.add('Max', [norm, nodes.tensor(elemType, [], epsilon)]);
}
