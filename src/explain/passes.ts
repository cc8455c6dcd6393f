/** The forward and the backward pass of a model, each with a session that opens when it is first needed. */
import type { Options } from '../base/checks.js';
import { TapirError } from '../base/errors.js';
import { resolveNames } from '../graph/names/resolve-names.js';
import { imageInput } from '../graph/image-axes.js';
import type { Layout } from '../graph/layout.js';
import { modelInternals } from '../model/open/model-state.js';
import type { OnnxModel } from '../model/open/open-model.js';
import { differentiate } from '../gradients/differentiate.js';
import { describeInputs } from '../model/open/value-info.js';
import { describeFeatures } from '../model/oracle/describe-features.js';
import { pruneToRun } from '../model/oracle/prune-model.js';
import { prunedInternals, type PrunedModel } from '../model/prune/pruned-model.js';
import type { LaneOptions } from '../runtime/lanes/lane-options.js';
import type { TensorInfo } from '../tensor/tensor-info.js';
import { mismatch, type NamedTensor, type Tensor } from '../tensor/tensor.js';
import { createFeatureExtractor } from '../extract/create-feature-extractor.js';
import type { Extractor } from '../extract/extractor.js';
import type { FeatureExtractorOptions } from '../extract/extractor-options.js';
import { chooseLayer, chooseScores, type ChosenScores } from './chosen-ends.js';
import { hasGradient, isLayerMethod } from './methods.js';
import type { AttributionOptions } from './options.js';
import { pooledGradient, readPoolingHead, type PoolingWeights } from './pooled-gradient.js';
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
  readonly imageLayout: Layout;
  readonly layerLayout: Layout | null;
  readonly scores: ChosenScores;
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
    this.inputs = describeInputs(prunedInternals.of(plan.forward).rewrite);
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
  const { graph } = modelInternals.of(model);
  const image = imageInput(graph);
  if (!image) {
    const actual = `inputs ${graph.inputs.map(({ name }) => `"${name}"`).join(', ')} without four axes`;
    const expected = 'an image [N, C, H, W]';
    const details = { input: graph.inputs[0]?.name ?? '', expected, actual };
    throw new TapirError('INPUT_MISMATCH', `attribution needs ${expected}, the model has ${actual}`, {
      details,
    });
  }
  const ends = givenOutput === undefined ? chooseScores(model) : { output: givenOutput, skipped: null };
  const { output } = ends;
  const isChosen = isLayerMethod(method) && givenLayer === undefined;
  const [resolved] = resolveNames(graph, [output]);
  const layer = isChosen ? await chooseLayer(model, resolved!.value, method, inputSizes) : givenLayer;
  const returnNodes = layer === undefined ? [output] : [layer, output];
  const [scores, places] = await describeFeatures(model, layer === undefined ? [output] : [output, layer]);
  if (scores?.dims && scores.dims.length !== 2) throw noScores(output, scores);
  const classes = scores?.dims?.[1];
  const forward = await pruneToRun(model, returnNodes, { inputSizes });
  const withRespectTo = [layer ?? `tensor:${image.value.name}`];
  const isDifferentiated = hasGradient(method);
  const head = isDifferentiated && places ? await readPoolingHead(model, places, scores!) : undefined;
  const backward =
    isDifferentiated && !head
      ? await differentiate(model, { of: [output], withRespectTo, returnNodes, inputSizes })
      : undefined;
  const passes = new Passes({
    image: image.value.name,
    imageLayout: image.axis === 1 ? 'NHWC' : 'NCHW',
    layerLayout: places?.layout ?? null,
    scores: ends,
    layer,
    classes: typeof classes === 'number' ? classes : undefined,
    forward,
    backward,
    head,
    place,
  });
  const { dtype } = passes.inputs.find(({ name }) => name === image.value.name) ?? {};
  if (dtype !== 'float32') {
    const actual = dtype === undefined ? 'one that it does not read' : `${dtype} in this model`;
    throw mismatch(image.value.name, `a float32 image that "${output}" depends on`, actual);
  }
  await passes.open();
  return passes;
}
