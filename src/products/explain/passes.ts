/** The forward and the backward pass of a model, each with a session that opens when it is first needed. */
import { findEnds, findPlaces } from '../../run/model/oracle/find-ends.js';
import { inputsOf, type PrunedModel } from '../../run/model/prune/pruned-model.js';
import { readPoolingHead, type PoolingWeights } from '../../run/model/read-pooling-head.js';
import type { LaneOptions } from '../../run/runtime/lanes/lane-options.js';
import { invalidOption, type Options } from '../../base/checks.js';
import { mismatch, type NamedTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import { differentiate } from '../../learn/gradients/differentiate.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import { describeFeatures } from '../../run/model/oracle/describe-features.js';
import { pruneModel } from '../../run/model/oracle/prune-model.js';
import { TapirError } from '../../base/errors.js';
import type { Extractor } from '../../extract/extractor.js';
import type { FeatureExtractorOptions } from '../../extract/extractor-options.js';
import type { FeatureInfo } from '../../run/model/prune/feature-info.js';
import type { InputSizes } from '../../run/model/open/input-sizes.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { hasGradient, isLayerMethod } from './methods.js';
import type { AttributionOptions } from './options.js';
import { pooledGradient } from './pooled-gradient.js';
import { checkScores, noScores } from './targets.js';

/** What a pass computes of a batch. */
export interface Pass {
  readonly logits: Tensor<'float32'>;
  /** The layer of a CAM method. */
  readonly layer: Tensor | undefined;
  /** The gradient of the scores with respect to the layer or to the image. */
  readonly gradient: Tensor | undefined;
}

/** Where a session runs. */
type Place = Options<
  LaneOptions & Pick<FeatureExtractorOptions, 'device' | 'devices' | 'parallel' | 'session'>
>;

/** What the passes are of. */
interface PassPlan {
  /** The name of the image input. */
  readonly image: string;
  readonly imageLayout: FeatureInfo['layout'];
  readonly layerLayout: FeatureInfo['layout'];
  /** The value whose elements are the scores, and the operator after it that makes probabilities of them. */
  readonly scores: { readonly output: string; readonly skipped: string | null };
  /** The layer of a CAM method. */
  readonly layer: string | undefined;
  /** The number of classes, if the file states it. */
  readonly classes: number | undefined;
  readonly forward: PrunedModel;
  /** Undefined where the gradients need no such pass. */
  readonly backward: PrunedModel | undefined;
  /** The head after the layer, if it makes the backward pass unnecessary. */
  readonly head: PoolingWeights | undefined;
  readonly place: Place;
}

/** The passes of a model. */
export class Passes {
  /** The inputs of the model. */
  readonly inputs: readonly TensorInfo[];
  readonly plan: PassPlan;
  readonly #sessions = new Map<PrunedModel, Promise<Extractor>>();
  #isClosed = false;

  constructor(plan: PassPlan) {
    this.inputs = inputsOf(plan.forward);
    this.plan = plan;
  }

  /** Opens the session that every run needs. */
  async open(): Promise<void> {
    await this.#open(this.plan.backward ?? this.plan.forward);
  }

  /** The logits, and the layer. */
  forward(feeds: readonly NamedTensor[], signal: AbortSignal | undefined): Promise<Pass> {
    return this.#run(this.plan.forward, feeds, signal);
  }

  /** The same, and the gradient of the scores that the seeds state; `known` is the forward pass of these feeds, if it was run. */
  async backward(
    feeds: readonly NamedTensor[],
    seeds: Tensor<'float32'>,
    signal: AbortSignal | undefined,
    known?: Pass,
  ): Promise<Pass> {
    const { scores, backward, head } = this.plan;
    if (backward)
      return await this.#run(backward, [...feeds, { ...seeds, name: `gradient/${scores.output}` }], signal);
    const pass = known ?? (await this.forward(feeds, signal));
    return { ...pass, gradient: pooledGradient(head!, pass.layer!.dims, seeds) };
  }

  async #run(
    model: PrunedModel,
    feeds: readonly NamedTensor[],
    signal: AbortSignal | undefined,
  ): Promise<Pass> {
    const { layer, image, scores } = this.plan;
    const extractor = await this.#open(model);
    const needed = new Set(extractor.inputs.map(({ name }) => name));
    const fed = feeds.filter(({ name }) => needed.has(name)).map((feed) => [feed.name, feed] as const);
    const results: Readonly<Record<string, Tensor>> = await extractor.run(Object.fromEntries(fed), {
      signal,
    });
    const rows = feeds.find(({ name }) => name === image)!.dims[0]!;
    return {
      logits: checkScores(scores.output, results[scores.output]!, rows),
      layer: layer === undefined ? undefined : results[layer],
      gradient: results[`gradient/${layer ?? `tensor:${image}`}`],
    };
  }

  #open(model: PrunedModel): Promise<Extractor> {
    if (this.#isClosed)
      throw new TapirError('CLOSED', 'the attribution is closed', { details: { what: 'attribution' } });
    let opened = this.#sessions.get(model);
    if (!opened) {
      opened = createFeatureExtractor(model, undefined, { ...this.plan.place, outputDtype: 'keep' });
      this.#sessions.set(model, opened);
      // A session that fails to open is tried again by the next run.
      opened.catch(() => this.#sessions.delete(model));
    }
    return opened;
  }

  /** Waits for the runs in flight, and ends the sessions. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const opened = await Promise.allSettled(this.#sessions.values());
    const extractors = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    await Promise.all(extractors.map((extractor) => extractor.close()));
  }
}

/** Cuts and differentiates the model. Opens the session that every run needs. */
export async function createPasses(
  model: OnnxModel,
  { method, layer: givenLayer, output: givenOutput, inputSizes }: AttributionOptions,
  place: Place,
): Promise<Passes> {
  const { image, scores: ends } = findEnds(model, givenOutput);
  if (!image) {
    const actual = `inputs ${model.inputs.map(({ name }) => `"${name}"`).join(', ')} without four axes`;
    const expected = 'an image [N, C, H, W]';
    const details = { input: model.inputs[0]?.name ?? '', expected, actual };
    throw new TapirError('INPUT_MISMATCH', `attribution needs ${expected}, the model has ${actual}`, {
      details,
    });
  }
  const { output } = ends;
  const isChosen = isLayerMethod(method) && givenLayer === undefined;
  const layer = isChosen ? await chooseLayer(model, output, method, inputSizes) : givenLayer;
  const returnNodes = layer === undefined ? [output] : [layer, output];
  const [scores, places] = await describeFeatures(model, layer === undefined ? [output] : [output, layer]);
  if (scores?.dims && scores.dims.length !== 2) throw noScores(output, scores);
  const classes = scores?.dims?.[1];
  // It runs here and is not written, so its session tells the types of its outputs.
  const forward = await pruneModel(model, returnNodes, { inputSizes, fillTypes: false });
  const withRespectTo = [layer ?? `tensor:${image.name}`];
  const isDifferentiated = hasGradient(method);
  const head = isDifferentiated && places ? await readPoolingHead(model, places, scores!) : undefined;
  const backward =
    isDifferentiated && !head
      ? await differentiate(model, { of: [output], withRespectTo, returnNodes, inputSizes })
      : undefined;
  const passes = new Passes({
    image: image.name,
    imageLayout: image.layout,
    layerLayout: places?.layout ?? null,
    scores: ends,
    layer,
    classes: typeof classes === 'number' ? classes : undefined,
    forward,
    backward,
    head,
    place,
  });
  const { dtype } = passes.inputs.find(({ name }) => name === image.name) ?? {};
  if (dtype !== 'float32') {
    const actual = dtype === undefined ? 'one that it does not read' : `${dtype} in this model`;
    throw mismatch(image.name, `a float32 image that "${output}" depends on`, actual);
  }
  await passes.open();
  return passes;
}

/** The most names that an error lists. */
const MOST_NAMED = 5;

/** The last value with places that the scores depend on. Throws `OPTION_INVALID` with candidates if the file proves no such value. */
async function chooseLayer(
  model: OnnxModel,
  output: string,
  method: string,
  inputSizes: InputSizes,
): Promise<string> {
  const found = await findPlaces(model, output, inputSizes);
  if (typeof found === 'string') return found;
  const shown = found.slice(0, MOST_NAMED).map((name) => `"${name}"`);
  const list = shown.length > 0 ? `, such as ${shown.join(', ')}` : ' (the file proves no such layer)';
  const what = 'a layer that is a map [N, C, H, W] or tokens of patches';
  throw invalidOption('layer', `the name of ${what}, for method "${method}"${list}`, undefined);
}
