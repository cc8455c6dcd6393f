/** Nodes that are added after a requested tensor: a part of its tokens, tokens to a map, pooling, normalisation, another element type. */
import { TapirError } from '../../../base/errors.js';
import type { ImageAxes } from '../image-axes.js';
import type { Layout } from '../layout.js';
import type { TokenPlaces } from '../places.js';
import { takeTokenPart, type TokenPart, type TokenParts } from '../token-parts.js';
import { ELEMENT_TYPE, elementTypeName, isFloatType, type Dim } from '../../file/wire/schema.js';
import {
  describeTokens,
  findGrid,
  movedPatches,
  placedGrid,
  provenGrid,
  reshapeToMap,
  type MeasuredTokens,
  type TokenGrid,
} from './token-grid.js';
import { opsetOf } from '../operator-sets.js';
import { NodeBuilder } from './node-builder.js';
import { replaceOutput, type Rewrite, type RewriteOutput } from './rewrite.js';

/** How a map or a list of tokens becomes one vector. */
export type Pool = 'none' | 'avg' | 'max' | 'cls' | 'mean-tokens';

/** The parts to add after one output, in this order. */
export interface FeatureParts {
  /** Keep only some of the tokens `[N, L, C]`. */
  readonly part: 'all' | TokenPart;
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
  /** The image input, if it is fed. */
  readonly image: ImageAxes | undefined;
  /** The tokens, if they are proven. */
  readonly tokens: TokenParts | null;
  /** Where the patches are among the tokens, for a photo of one size; `moved` if something may have moved them that cannot be read. */
  readonly placesOf: () => TokenPlaces | 'moved' | null;
  /** The tokens as runs of the graph show them, if they are not proven and the file leaves their number open. */
  readonly measured: MeasuredTokens | undefined;
}

/** A tensor on its way through the parts. */
interface State extends Pick<FeatureFacts, 'elemType' | 'dims' | 'layout' | 'tokens'> {
  readonly tensor: string;
  /** Which of the tokens it holds. */
  readonly part: FeatureParts['part'];
}

const EPSILON = 1e-12;
/** Operator sets since which operators broadcast. */
const DIV_BROADCASTS = 7;
const MAX_BROADCASTS = 8;
/** Whether the parts compute anything. */
export function isPlain({ part, tokensToMap, pool, l2Normalize, dtype }: FeatureParts): boolean {
  return part === 'all' && !tokensToMap && pool === 'none' && !l2Normalize && dtype === 'keep';
}

/**
 * Adds parts after an output, which then holds their result. Throws `OUTPUT_MISFIT` if its tensor or the operator set does not suit
 * them, `FEATURE_AMBIGUOUS` if it is not proven which tokens are meant.
 */
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
  let state: State = { tensor: output.tensor, ...facts, dims: tokenDims(facts), part: 'all' };
  if (parts.part !== 'all') state = takePart(nodes, state, parts.part, facts, output.request, refuse);
  if (parts.tokensToMap) state = tokensToMap(nodes, state, facts, output.request, refuse);
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
  const { tokens } = state;
  const made = {
    ...output,
    tensor,
    type,
    layout,
    tokens,
    computed: [...output.computed, ...describeParts(parts)],
  };
  const notes = facts.measured ? [describeTokens(output.request, facts.measured)] : [];
  return { ...replaceOutput(rewrite, output, made, nodes), notes: [...rewrite.notes, ...notes] };
}

function describeParts({ part, tokensToMap: isMap, pool, l2Normalize, dtype }: FeatureParts): string[] {
  return [
    ...(part === 'all' ? [] : [`part ${part}`]),
    ...(isMap ? ['tokensToMap'] : []),
    ...(pool === 'none' ? [] : [`pool ${pool}`]),
    ...(l2Normalize ? ['l2Normalize'] : []),
    ...(dtype === 'keep' ? [] : [dtype]),
  ];
}

/** The dims, completed by measured tokens. */
function tokenDims({ dims, measured }: FeatureFacts): readonly Dim[] {
  if (!measured) return dims;
  const [batch = null, count = null, channels] = dims;
  return [batch, count, typeof channels === 'number' ? channels : measured.channels];
}

type Refuse = (reason: string) => TapirError;

function refusal(request: string, { elemType, dims }: FeatureFacts): Refuse {
  const actual = `${elementTypeName(elemType) ?? '?'} [${dims.map((size) => size ?? '?').join(', ')}]`;
  return (reason) =>
    new TapirError('OUTPUT_MISFIT', `"${request}" is ${actual}: ${reason}`, {
      details: { output: request, actual, reason },
    });
}

/** The tokens of one part, which stay tokens `[N, L, C]`. */
function takePart(
  nodes: NodeBuilder,
  state: State,
  part: TokenPart,
  { tokens, measured, dims, placesOf }: FeatureFacts,
  request: string,
  refuse: Refuse,
): State {
  if (dims.length !== 3 && dims.length > 0) throw refuse('only tokens [N, L, C] have parts');
  const isMeasured = part === 'patches' && !tokens && measured?.follows !== undefined;
  const places = isMeasured ? placesOf() : null;
  if (places === 'moved' || (places && placedGrid(places).tokens)) throw movedPatches(request);
  const follows = isMeasured ? measured.follows : undefined;
  const [start, end] = tokens?.[part] ?? (follows ? [follows.prefix, null] : []);
  if (start === undefined) throw ambiguous(request, part);
  if (start === end) throw refuse(`it has no ${part === 'class' ? 'class token' : 'register tokens'}`);
  const isToEnd = part === 'patches';
  const tensor = isToEnd
    ? nodes.sliceFrom(state.tensor, 1, start)
    : nodes.sliceFrom(state.tensor, 1, start, end!);
  const [batch = null, , channels = null] = state.dims;
  const count = typeof end === 'number' ? end - start : null;
  return {
    ...state,
    tensor,
    part,
    dims: [batch, count, channels],
    tokens: tokens && takeTokenPart(tokens, part),
  };
}

function ambiguous(output: string, part: TokenPart): TapirError {
  const which = part === 'class' ? 'which one is the class token' : `which ones are ${part}`;
  const reason = `its graph and its config.json do not prove ${which}`;
  return new TapirError(
    'FEATURE_AMBIGUOUS',
    `"${output}" has tokens, but ${reason}; put the config.json of transformers (num_register_tokens) beside the model, export it with the names of its weights, or take part "all" and choose the tokens yourself`,
    { details: { output, part, reason } },
  );
}

/** The grid of a value's tokens. `request`: throws `FEATURE_AMBIGUOUS` for this output if the order of its patches is not known. */
function gridOf(
  { dims, layout }: State,
  { imageSize, image, tokens, measured, placesOf, ...whole }: FeatureFacts,
  refuse: Refuse,
  request?: string,
): TokenGrid {
  if (dims.length !== 3 || layout === 'NCL') throw refuse('tokens are [N, L, C]');
  const proven = tokens && provenGrid(tokens, imageSize, image);
  if (proven) return proven;
  const places = placesOf();
  const placed = places && places !== 'moved' ? placedGrid(places) : undefined;
  const isUnknown = places === 'moved' || (placed?.tokens && measured?.follows);
  if (request !== undefined && isUnknown) throw movedPatches(request);
  if (placed && !measured?.follows) return placed;
  const grid = findGrid(whole.dims[1], imageSize, measured);
  if (typeof grid === 'string') throw refuse(grid);
  return grid;
}

/** The patches of a value, in rows. */
function patchesOf(nodes: NodeBuilder, { tensor, part }: State, { prefix, tokens }: TokenGrid): string {
  if (tokens) return nodes.add('Gather', [tensor, nodes.integers(tokens)], { axis: 1 });
  return part === 'patches' || prefix === 0 ? tensor : nodes.sliceFrom(tensor, 1, prefix);
}

function tokensToMap(
  nodes: NodeBuilder,
  state: State,
  facts: FeatureFacts,
  request: string,
  refuse: Refuse,
): State {
  if (state.layout !== null && PLACES[state.layout] !== undefined)
    throw refuse(`it is a map already (${state.layout}); leave out option "tokensToMap"`);
  if (state.part === 'class' || state.part === 'registers')
    throw refuse('only patches make a map; take part "all" or "patches"');
  const grid = gridOf(state, facts, refuse, request);
  const [batch = null, , channels = null] = state.dims;
  const patches = patchesOf(nodes, state, grid);
  const turned = nodes.add('Transpose', [patches], { perm: [0, 2, 1] });
  const tensor = reshapeToMap(nodes, turned, grid);
  return {
    ...state,
    tensor,
    dims: [batch, channels, ...(grid.size ?? [null, null])],
    layout: 'NCHW',
    tokens: null,
  };
}

/** The axes of places, by layout. */
const PLACES: Partial<Readonly<Record<Layout, readonly number[]>>> = {
  NCTHW: [2, 3, 4],
  NTHWC: [1, 2, 3],
  NCHW: [2, 3],
  NHWC: [1, 2],
};

function pooled(nodes: NodeBuilder, state: State, pool: Pool, facts: FeatureFacts, refuse: Refuse): State {
  const { dims, layout, tensor, part } = state;
  const batch = dims[0] ?? null;
  if (pool === 'cls' || pool === 'mean-tokens') {
    if (dims.length !== 3 || layout === 'NCL')
      throw refuse(`pool "${pool}" needs tokens [N, L, C]; for a map use "avg" or "max"`);
    const vector: Pick<State, 'dims' | 'layout' | 'tokens'> = {
      dims: [batch, dims[2] ?? null],
      layout: 'NC',
      tokens: null,
    };
    if (pool === 'cls' && part !== 'all' && part !== 'class')
      throw refuse(`pool "cls" needs the class token, which is no part of the ${part}; use "mean-tokens"`);
    if (pool === 'cls')
      return { ...state, ...vector, tensor: nodes.add('Gather', [tensor, nodes.integers(0)], { axis: 1 }) };
    const averaged = part === 'all' ? patchesOf(nodes, state, gridOf(state, facts, refuse)) : tensor;
    return { ...state, ...vector, tensor: nodes.reduce('ReduceMean', averaged, [1], false) };
  }
  const axes = layout === null ? undefined : PLACES[layout];
  if (axes === undefined)
    throw refuse(
      dims.length === 4 || dims.length === 5
        ? `pool "${pool}" needs to know which axis holds the channels; request the output of a convolution or linear layer`
        : `pool "${pool}" needs a map [N, C, H, W] or [N, C, T, H, W]; for tokens use "cls" or "mean-tokens"`,
    );
  const channels = dims[axes[0] === 1 ? dims.length - 1 : 1];
  const vector = nodes.reduce(pool === 'avg' ? 'ReduceMean' : 'ReduceMax', tensor, axes, false);
  return { ...state, dims: [batch, channels ?? null], layout: 'NC', tensor: vector };
}

function normalized(nodes: NodeBuilder, state: State, refuse: Refuse): State {
  if (state.layout === null)
    throw refuse(
      'it is not known which axis holds its channels; request the output of a convolution or linear layer',
    );
  const isLast = state.layout === 'NHWC' || state.layout === 'NTHWC' || state.layout === 'NLC';
  const axis = isLast ? state.dims.length - 1 : 1;
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
