/** Photos of a source, drawn at random, as tensors of a model in memory: for what measures on photos. */
import { availableParallelism } from 'node:os';
import type { TransformChoice } from '../../photos/feeds/choose-transform.js';
import type { LoadedItem } from '../../photos/feeds/feed-batches.js';
import type { SourceOptions } from '../../photos/feeds/items/source-options.js';
import { chooseModelTransform } from '../../photos/feeds/model-transform.js';
import { loadTensors } from '../../photos/feeds/open-feeds.js';
import { planPictures } from '../../photos/feeds/plan-feeds.js';
import type { ImageTaker } from '../../photos/feeds/plan-images.js';
import { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import type { Transform } from '../../photos/images/transform/transform.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { describeInputs } from '../../run/model/open/value-info.js';
import { prunedInternals, type PrunedModel } from '../../run/model/prune/pruned-model.js';
import type { NamedTensor } from '../../onnx/tensor/tensor.js';
import type { EmbedSource } from '../sources/open-source.js';
import { sampleSource } from '../sources/sample-source.js';

/** What to draw, and how to read it. */
interface SampleOptions extends SourceOptions, TransformChoice {
  /** The most photos. */
  readonly sample: number;
  /** Threads that decode photos; 0 uses all cores. */
  readonly decodeThreads: number;
  readonly signal: AbortSignal | undefined;
}

/** Photos that were drawn. */
export interface PhotoSample {
  readonly transform: Transform;
  readonly photos: number;
  /** Rows of a run, if the model has a fixed number of them; null if it takes any. */
  readonly fixedRows: number | null;
  /** Reads them, at most `rows` at a time. Feeds are empty where no photo could be read, or too few for a fixed number of rows. */
  read(
    rows: number,
  ): AsyncGenerator<{ readonly feeds: readonly NamedTensor[]; readonly items: readonly LoadedItem[] }>;
}

/** Draws photos for a model, whole or cut. Throws `OPTION_INVALID` if the transform does not fit the model; `SOURCE_INVALID`. */
export async function openPhotoSample(
  model: OnnxModel | PrunedModel,
  source: EmbedSource,
  { sample, decodeThreads, signal, ...reading }: SampleOptions,
): Promise<PhotoSample> {
  const { whole, ...taker } = describeTaker(model);
  const transform = chooseModelTransform(reading.transform, whole);
  const plan = planPictures(taker, transform);
  const { items } = await sampleSource(source, sample, reading, signal);
  return {
    transform,
    photos: items.length,
    fixedRows: plan.multiple,
    async *read(rows) {
      await using lanes = new DecodeLanes(transform, decodeThreads || availableParallelism());
      for await (const { input, items: loaded, rows: found } of loadTensors(items, plan, lanes, rows)) {
        const isWhole = plan.multiple === null ? found > 0 : found === rows;
        yield { feeds: isWhole ? Object.values(input) : [], items: loaded };
      }
    },
  };
}

/** How a model takes images, and the model that it was cut from. */
function describeTaker(model: OnnxModel | PrunedModel): ImageTaker & { readonly whole: OnnxModel } {
  if (!prunedInternals.has(model)) return { inputs: model.inputs, imageNormalization: null, whole: model };
  const { rewrite, request } = prunedInternals.of(model);
  return { inputs: describeInputs(rewrite), imageNormalization: request.image ?? null, whole: model.source };
}
