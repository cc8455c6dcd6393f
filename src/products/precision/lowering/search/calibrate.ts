/** Runs a model in float32 on samples: ranges of activations, sizes of tensors, and the vectors to compare with. */
import { fetchesOf, type Rewrite, type RewriteOutput } from '../../../../onnx/graph/rewrite/rewrite.js';
import type { SessionHolder } from '../../../../run/model/oracle/session-holder.js';
import { wholePart } from '../../../../onnx/tensor/tensor-part.js';
import { scaleChannels } from '../../graph/quantize/smoothing.js';
import { ActivationRange, ChannelRange } from './activation-range.js';
import type { Sample } from '../run-samples.js';
import { rowsOf, type Vectors } from './photo-rows.js';

/** What float32 gives on samples. */
export interface Calibration {
  /** By the name of the tensor. Tensors that are not float32 are missing. */
  readonly ranges: ReadonlyMap<string, ActivationRange>;
  /** The channels of tensors of which they are wanted. */
  readonly channels: ReadonlyMap<string, ChannelRange>;
  /** What the channels of tensors are multiplied by in `ranges`, and then in the model. */
  readonly factors: ReadonlyMap<string, Float32Array>;
  /** The sizes of tensors in the first run. */
  readonly dims: ReadonlyMap<string, readonly number[]>;
  /** The vectors of each sample. */
  readonly exact: readonly Vectors[];
}

/** What to look at. */
export interface CalibrationRequest {
  /** Names of tensors whose ranges are wanted. */
  readonly tensors: ReadonlySet<string>;
  /** Those of which the channels are wanted as well. */
  readonly channels: ReadonlySet<string>;
  readonly factors: Calibration['factors'];
  /** Names of tensors whose sizes are wanted. */
  readonly results: readonly string[];
  /** Whether a sample gives ranges; all give vectors. */
  readonly isForRanges: (sample: number) => boolean;
  readonly signal: AbortSignal | undefined;
}

/** Runs every sample once. Activations are released after each run. */
export async function calibrate(
  rewrite: Rewrite,
  samples: readonly Sample[],
  { tensors, channels: ofChannels, factors, results, isForRanges, signal }: CalibrationRequest,
  sessions: SessionHolder,
): Promise<Calibration> {
  const asked = fetchesOf(rewrite);
  const inner = new Set([...tensors, ...results]);
  const fed = new Set(samples[0]!.map(({ name }) => name));
  const more = [...inner].filter((name) => !asked.includes(name) && !fed.has(name));
  const replica = await sessions.open({ rewrite: withOutputs(rewrite, more), graphOptimizationLevel: 'all' });
  const ranges = new Map<string, ActivationRange>();
  const channels = new Map<string, ChannelRange>();
  const dims = new Map<string, readonly number[]>();
  const exact: Vectors[] = [];
  for (const [k, sample] of samples.entries()) {
    const names = isForRanges(k) ? [...asked, ...more] : asked;
    // oxlint-disable-next-line no-await-in-loop -- a session runs one batch at a time
    const outputs = await replica.run(sample.map(wholePart), names, { signal });
    exact.push(rowsOf(outputs.slice(0, asked.length)));
    if (!isForRanges(k)) continue;
    for (const tensor of [...sample, ...outputs]) {
      if (!dims.has(tensor.name)) dims.set(tensor.name, tensor.dims);
      if (tensor.dtype !== 'float32' || !tensors.has(tensor.name)) continue;
      const range = ranges.get(tensor.name) ?? new ActivationRange();
      ranges.set(tensor.name, range);
      const data = tensor.data as Float32Array;
      const scales = factors.get(tensor.name);
      range.add(scales ? scaleChannels(data, scales) : data);
      if (!ofChannels.has(tensor.name)) continue;
      const perChannel = channels.get(tensor.name) ?? new ChannelRange(tensor.dims.at(-1)!);
      channels.set(tensor.name, perChannel);
      perChannel.add(data);
    }
  }
  return { ranges, channels, factors, dims, exact };
}

/** Adds tensors to the outputs of a rewrite. */
export function withOutputs(rewrite: Rewrite, names: readonly string[]): Rewrite {
  const { values } = rewrite.cut.graph;
  const added = names.map((name): RewriteOutput => {
    const value = values.get(name) ?? rewrite.cut.outputs[0]!.value;
    const named = { request: name, key: name, tensor: name };
    return {
      ...named,
      value,
      why: 'range',
      type: undefined,
      layout: undefined,
      tokens: undefined,
      computed: [],
    };
  });
  return { ...rewrite, outputs: [...rewrite.outputs, ...added] };
}
