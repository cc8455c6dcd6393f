/** What the page asks of a model: its sizes, cuts, and what photos give. Each answer is computed when it is first asked for. */
import { planTiles } from '../../../photos/images/transform/tile-options.js';
import { readClassLabels } from '../../../extract/class-labels.js';
import type { PhotoOptions } from '../../../photos/feeds/photo-options.js';
import { invalidOption } from '../../../base/checks.js';
import { isTapirError, reasonOf, TapirError } from '../../../base/errors.js';
import { shown } from '../../../base/printable.js';
import { floatsOf } from '../../../onnx/tensor/widen.js';
import { makeTensor, type Tensor } from '../../../onnx/tensor/tensor.js';
import { takeRow } from '../../../onnx/tensor/rows.js';
import { toBytes } from '../../maps/principal-colours.js';
import type { Size } from '../../maps/maps.js';
import { countNodes, describeModel } from './structure/describe-model.js';
import { describeNode } from './structure/describe-node.js';
import { measureModel } from './structure/measure-model.js';
import type { ModelMeasure, ModelStructure, NodeDetail } from './structure/model-structure.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import { openModel, type ModelSource, type OnnxModel } from '../../../run/model/open/open-model.js';
import { pruneModel } from '../../../run/model/oracle/prune-model.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import type { Extractor } from '../../../extract/extractor.js';
import type { ImageSource } from '../../../photos/images/formats/image-source.js';
import type { PrunedModel } from '../../../run/model/prune/pruned-model.js';
import { createAttribution, type Attribution } from '../../explain/attribution.js';
import { encodeNumbers } from '../../../base/html/html.js';
import { describeScores } from '../describe-scores.js';
import type { PageCut, PageFeatures, PageHeat, PagePhoto, PhotoCode } from './page/data.js';
import { ModelGraph, type Id } from './page/graph.js';
import { Photos, type HeldPhoto } from './photos.js';
import { describeAttention, describeMaps, topClasses } from './see/describe-maps.js';
import { Shelf } from './shelf.js';

/** How an explorer computes. */
export interface ExplorerSetup extends Pick<PhotoOptions, 'transform'>, Partial<Pick<PhotoOptions, 'tiles'>> {
  /** Of the classes, in their order; undefined for those in the model's metadata. */
  readonly labels: readonly string[] | undefined;
  readonly device: Device;
}

/** What a name stands for on the page. */
export interface Picked {
  readonly id: Id;
  /** The name that the page asks by. */
  readonly request: string;
}

/** Sessions that stay open, for nodes that are looked at in turn. */
const MOST_SESSIONS = 4;
const CLASSES_SHOWN = 5;

/** A page of 200,000 nodes takes 7 to 15 s; one of a million, more memory than Node has. */
const MOST_NODES = 250_000;

/** Answers the questions of a page. Sessions stay open until {@link Explorer.close}. */
export class Explorer {
  readonly page: ModelStructure;
  /** Why the model takes no photo; null if it does. */
  readonly noPhotos: string | null;
  readonly #model: OnnxModel;
  readonly #device: Device;
  readonly #labels: readonly string[] | undefined;
  readonly #photos: Photos | undefined;
  readonly #extractors = new Shelf<Extractor>(MOST_SESSIONS);
  readonly #attributions = new Shelf<Attribution>(1);
  readonly #measures = new Map<boolean, Promise<ModelMeasure>>();

  private constructor(model: OnnxModel, path: string, setup: ExplorerSetup) {
    this.#model = model;
    this.#device = setup.device;
    this.#labels = setup.labels;
    this.page = describeModel(model, path);
    const tiles = setup.tiles && planTiles(setup.tiles);
    let problem: string | null = null;
    try {
      this.#photos = new Photos(model, setup.transform, tiles);
    } catch (error) {
      if (!isTapirError(error)) throw error;
      problem = shown(reasonOf(error));
    }
    this.noPhotos = problem;
  }

  /** Opens a model. No session opens yet. Throws those of {@link openModel}. */
  static async open(source: ModelSource, path: string, setup: ExplorerSetup): Promise<Explorer> {
    const model = await openModel(source);
    const length = countNodes(model);
    if (length <= MOST_NODES) return new Explorer(model, path, setup);
    const reason = `${length} nodes are more than the ${MOST_NODES} that a page shows`;
    const problem = `"${path}" cannot be explored: ${reason}; cut it first (tapir extract)`;
    throw new TapirError('GRAPH_INVALID', problem, { details: { reason, where: [] } });
  }

  /** The photos that were added. */
  get photos(): readonly PagePhoto[] {
    return this.#photos?.all.map(({ page }) => page) ?? [];
  }

  /** How photos are prepared, in a sentence; empty if the model takes none. */
  get photoNote(): string {
    return this.#photos?.note ?? '';
  }

  /** How code prepares a photo; see {@link Photos.code}. */
  get photoCode(): PhotoCode {
    return this.#photos?.code ?? { input: null, transform: '', isTensor: false };
  }

  /** Adds a photo, or tiles of it. Throws `OPTION_INVALID` if the model takes none, and those of {@link loadImage}. */
  async addPhoto(source: ImageSource, name: string): Promise<readonly PagePhoto[]> {
    if (!this.#photos) throw invalidOption('photo', 'left out for this model', this.noPhotos);
    return (await this.#photos.add(source, name)).map(({ page }) => page);
  }

  /** Sizes and costs of a run; with times if asked for. */
  measure(isTimed: boolean): Promise<ModelMeasure> {
    const known = this.#measures.get(isTimed);
    if (known) return known;
    const measure = measureModel(this.#model, isTimed);
    this.#measures.set(isTimed, measure);
    // The next call measures again.
    measure.catch(() => this.#measures.delete(isTimed));
    return measure;
  }

  /** What the file holds for a node, by its index. */
  detail(node: number): Promise<NodeDetail> {
    return describeNode(this.#model, node);
  }

  /** What names need. */
  async cut(names: readonly string[]): Promise<PageCut> {
    const { kept, notes } = (await this.prune(names)).plan;
    return { bytes: kept.bytes, notes };
  }

  /** What the page shows of some names. Throws those of {@link pruneModel}; `OPTION_INVALID` for a weight, which has figures only. */
  async pick(names: readonly string[]): Promise<readonly Picked[]> {
    const { resolved } = (await this.prune(names)).plan;
    const graph = new ModelGraph(this.page);
    const { nodes, values, boxes } = this.page;
    const tensorOf = (id: Id): string | undefined => graph.tensorOf(id)?.tensor;
    const ids = new Map(Array.from({ length: nodes.length + values.length }, (_, id) => [tensorOf(id), id]));
    return resolved.map(({ request, tensor }) => {
      const written = new Set([shown(request), shown(request.replace(/^module:/, ''))]);
      const box = boxes.findIndex(({ value, name }) => value !== null && written.has(name));
      const id = box >= 0 && tensorOf(-1 - box) === tensor ? -1 - box : ids.get(tensor);
      const name = id === undefined ? undefined : graph.requestOf(id);
      if (id === undefined || name === undefined)
        throw invalidOption('returnNodes', 'names of modules, of outputs of nodes, and of inputs', request);
      return { id, request: name };
    });
  }

  /** The model cut down to what names need. */
  prune(names: readonly string[]): Promise<PrunedModel> {
    return pruneModel(this.#model, [...names]);
  }

  /** What a node gives for a photo. */
  async features(request: string, photo: string): Promise<PageFeatures> {
    const held = this.#photo(photo);
    const { extractor, tensor } = await this.#run(request, held);
    const { resolved } = extractor.model.plan;
    const isOutput = this.#model.outputs.some(({ name }) => name === resolved[0]!.tensor);
    return describeMaps(tensor, extractor.outputs[0]!.layout, sizeOf(held), isOutput);
  }

  /** The attention that a softmax gives; null if it is none. */
  async attention(request: string, photo: string): Promise<unknown> {
    const held = this.#photo(photo);
    const { tensor } = await this.#run(request, held);
    const found = describeAttention(tensor, sizeOf(held));
    return (
      found ?? { problem: `“${request}” is not the attention of patches: it is [${tensor.dims.join(', ')}]` }
    );
  }

  /** The classes with the highest scores. */
  async classes(photo: string): Promise<unknown> {
    const output = this.#model.outputs[0]!.name;
    const { tensor } = await this.#run(`tensor:${output}`, this.#photo(photo));
    const scores = floatsOf(tensor);
    if (!scores || tensor.dims.length !== 2 || scores.length < 2)
      return { problem: `its first output is no list of scores: “${output}” is [${tensor.dims.join(', ')}]` };
    const known = this.#labels ? { labels: this.#labels } : await readClassLabels(this.#model);
    const labels = 'labels' in known && known.labels.length === scores.length ? known.labels : null;
    return topClasses(scores, labels?.map(shown) ?? null, CLASSES_SHOWN);
  }

  /** Where the score of a class comes from: Grad-CAM of a layer. */
  async heat(layer: string, photo: string, target: number | string | undefined): Promise<PageHeat> {
    const { image } = this.#photo(photo);
    const attribution = await this.#attributions.take(layer, () =>
      createAttribution(this.#model, { layer, device: this.#device, labels: this.#labels }),
    );
    const result = await attribution.run(image.toTensor(), { target: target ?? 'predicted' });
    const { heatmap, classes, labels, scores } = result;
    const [height, width] = heatmap.dims.slice(-2) as [number, number];
    const label = labels[0] ?? null;
    return {
      layer,
      classIndex: classes[0]!,
      label: label === null ? null : shown(label),
      score: scores[0]!,
      about: describeScores(attribution),
      height,
      width,
      pixels: encodeNumbers(toBytes(heatmap.data, 0, 1)),
    };
  }

  /** Ends all sessions. */
  async close(): Promise<void> {
    await Promise.all([this.#extractors.close(), this.#attributions.close()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #photo(id: string): HeldPhoto {
    const held = this.#photos?.find(id);
    if (!held) throw invalidOption('photo', 'one that the page has', id);
    return held;
  }

  /** Runs the model up to a node. The model is cut once per node. */
  async #run(request: string, { feed }: HeldPhoto): Promise<{ extractor: Extractor; tensor: Tensor }> {
    const extractor = await this.#extractors.take(request, async () =>
      createFeatureExtractor(this.#model, [request], { device: this.#device, outputDtype: 'keep' }),
    );
    const others = extractor.inputs.filter(({ name }) => name !== this.#photos?.inputName);
    if (others.length > 0)
      throw invalidOption(
        'node',
        'one that needs the photo only',
        `${request}, which needs ${others.map(({ name }) => `“${name}”`).join(', ')}`,
      );
    const { [request]: tensor } = await extractor.run(feed);
    return { extractor, tensor: firstRow(tensor!, feed.dims[0]!) };
  }
}

/** Height and width of the image that the model sees. */
function sizeOf({ image }: HeldPhoto): Size {
  return [image.height, image.width];
}

/** The result for the first image of a batch, which holds one photo several times. */
function firstRow(tensor: Tensor, rows: number): Tensor {
  if (rows <= 1 || tensor.dims.length < 2 || tensor.dims[0] !== rows) return tensor;
  const { dtype, dims, data } = takeRow(tensor, 0);
  return makeTensor(dtype, [1, ...dims], data);
}
