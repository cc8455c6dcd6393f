/** Measures the tokens of an image if the file leaves their number open, by running the graph on images of several sizes. */
import { isTapirError } from '../../../base/errors.js';
import type { Value } from '../../../onnx/graph/graph.js';
import { fetchValues, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { FollowingTokens, MeasuredTokens } from '../../../onnx/graph/rewrite/token-grid.js';
import type { NamedTensor } from '../../../onnx/tensor/tensor.js';
import { wholePart } from '../../../onnx/tensor/tensor-part.js';
import { imageInput, type ImageAxes } from '../../../onnx/graph/image-axes.js';
import type { CheckedSizes } from '../open/input-sizes.js';
import { describeInputs } from '../open/value-info.js';
import { runMadeUp } from './run-made-up.js';
import { seededFeeds } from './seeded-feeds.js';
import type { SessionHolder } from './session-holder.js';

/** Sizes of one side, relative to the first run. */
const FACTORS = [2, 0.5];

/** Measures tokens `[N, L, C]`; undefined for another form, or if their number is not one per square patch plus a constant. */
export async function measureTokens(
  rewrite: Rewrite,
  value: Value,
  given: CheckedSizes,
  sessions: SessionHolder,
): Promise<MeasuredTokens | undefined> {
  const { graph } = rewrite.cut;
  const image = imageInput(graph);
  const inputs = describeInputs(rewrite);
  const at = inputs.findIndex(({ name }) => name === image?.value.name);
  if (!image || at < 0) return undefined;
  const replica = await sessions.open({ rewrite: fetchValues(rewrite, [value]) });
  const run = async (feeds: readonly NamedTensor[]): Promise<readonly number[]> =>
    (await replica.run(feeds.map(wholePart), [value.name]))[0]!.dims;
  const { result: dims, fed } = await runMadeUp({ rewrite, given }, run);
  if (dims.length !== 3) return undefined;
  const shape = fed[at]!.dims;
  const imageSize = [shape[image.axis]!, shape[image.axis + 1]!] as const;
  const first = { tokens: dims[1]!, channels: dims[2]!, imageSize };
  const sides: { readonly factor: number; readonly tokens: number }[] = [];
  for (const axis of [image.axis, image.axis + 1].filter(
    (side) => typeof inputs[at]!.dims?.[side] !== 'number',
  )) {
    for (const factor of FACTORS) {
      const resized = shape.map((size, i) => (i === axis ? Math.max(1, Math.round(size * factor)) : size));
      // oxlint-disable-next-line no-await-in-loop -- one run at a time bounds the memory
      const tokens = await tokensOf(
        run,
        seededFeeds(inputs, fed.with(at, { ...fed[at]!, dims: resized }), 0),
      );
      if (tokens === undefined) continue;
      sides.push({ factor, tokens });
      break;
    }
  }
  if (sides.length === 0) return { ...first, follows: undefined };
  const follows = solve(first, sides, image);
  return follows && { ...first, follows };
}

/** The tokens of a run; undefined if the graph does not take the size. */
async function tokensOf(
  run: (feeds: readonly NamedTensor[]) => Promise<readonly number[]>,
  feeds: readonly NamedTensor[],
): Promise<number | undefined> {
  try {
    return (await run(feeds))[1];
  } catch (error) {
    if (isTapirError(error, 'RUN_FAILED')) return undefined;
    throw error;
  }
}

/** The side of square patches and the number of tokens before them, if all runs agree. */
function solve(
  { tokens, imageSize: [height, width] }: Omit<MeasuredTokens, 'follows'>,
  sides: readonly { readonly factor: number; readonly tokens: number }[],
  { value, axis }: ImageAxes,
): FollowingTokens | undefined {
  const counts = new Set(sides.map((side) => (side.tokens - tokens) / (side.factor - 1)));
  const [patches] = counts;
  if (counts.size !== 1 || !(patches! > 0)) return undefined;
  const patch = Math.sqrt((height * width) / patches!);
  const prefix = tokens - patches!;
  if (!Number.isInteger(patch) || height % patch > 0 || width % patch > 0 || prefix < 0) return undefined;
  return { image: value.name, axis, patch, prefix };
}
