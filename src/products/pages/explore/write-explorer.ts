/** A model → one page in one file. */
import { basename, resolve } from 'node:path';
import { checkLabels } from '../../../extract/class-labels.js';
import { DEVICE, type Device } from '../../../run/runtime/lanes/device.js';
import { photoFields, type PhotoOptions } from '../../../photos/feeds/photo-options.js';
import {
  boolean,
  callback,
  optional,
  readOptions,
  signal,
  text,
  texts,
  type Fields,
} from '../../../base/options.js';
import { checkText, type Options } from '../../../base/checks.js';
import { countSteps, type Progress, type Tell } from '../../../base/progress.js';
import { writeAtomically } from '../../../base/atomic-file.js';
import { checkReplaceable } from '../../../base/html/check-replaceable.js';
import { Explorer } from './explorer.js';
import type { ModelMeasure } from './structure/model-structure.js';
import { ModelGraph } from './page/graph.js';
import { mostCostly } from './page/rows.js';
import { writeQuestion } from './page/source.js';
import { answerQuestion } from './questions.js';
import { renderExplorer } from './render-explorer.js';

/** Options of {@link writeExplorer}. Of `tiles`, it looks at some, at most 12, from all over a picture. It refuses `clips`. */
export interface ExplorerOptions extends PhotoOptions {
  /**
   * HTML file to write. It may replace an older page of a model, but no other file.
   * @default 'explore.html'
   */
  readonly out: string;
  /**
   * Paths of photos to look at.
   * @default []
   */
  readonly photos: readonly string[];
  /**
   * Names of nodes whose features the page shows for each photo, and which it proposes to return. Without names, it shows those of the
   * module that it opens, which costs most.
   * @default []
   */
  readonly returnNodes: readonly string[];
  /**
   * Layer whose Grad-CAM the page shows for each photo, such as `layer4`.
   * @default undefined
   */
  readonly layer: string | undefined;
  /**
   * Class of that Grad-CAM: its index or its label.
   * @default undefined, which is the predicted one
   */
  readonly class: string | undefined;
  /**
   * Labels of the classes, in their order.
   * @default undefined, which is those in the model's metadata
   */
  readonly labels: readonly string[] | undefined;
  /**
   * Whether to time each node on the CPU, which runs the model eight times. The page can then colour by time.
   * @default false
   */
  readonly time: boolean;
  /**
   * Where the model runs, as for {@link createFeatureExtractor}.
   * @default 'cpu'
   */
  readonly device: Device;
  /**
   * Stops the work when it fires; the call rejects with its reason, and writes nothing.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Called with how much is done, and of what.
   * @default undefined
   */
  readonly onProgress: ((progress: Progress) => void) | undefined;
}

export const EXPLORER_FIELDS: Fields<ExplorerOptions> = {
  out: text('explore.html'),
  photos: texts(),
  returnNodes: texts([], 'pick this node; with --out, show its features for each photo; repeatable'),
  layer: optional(checkText, 'with --out: show Grad-CAM of this layer, such as layer4, for each photo'),
  class: optional(checkText, 'with --cam: index of the class, or its label (default: the predicted class)'),
  labels: optional(checkLabels),
  time: boolean(false, 'with --out: also time each node on the CPU'),
  ...photoFields({ clips: 'the page shows pictures' }),
  device: DEVICE,
  signal,
  onProgress: callback(),
};

/** What {@link writeExplorer} has written. */
export interface ExplorerSummary {
  /** The file, as an absolute path. */
  readonly path: string;
  readonly bytes: number;
  /** What the page cannot show, and why. */
  readonly problems: readonly string[];
}

/**
 * Writes a page about a model: its modules, shapes and costs, what a cut keeps, and what photos give at some nodes, in one HTML file
 * that loads nothing from elsewhere.
 *
 * @param model - Path of the model.
 * @param given - See {@link ExplorerOptions}.
 * @returns The path, the size, and what the page cannot show.
 * @throws {@link TapirError} those of {@link openModel} and {@link loadImage}; `OPTION_INVALID`, also for photos of a model that takes
 * none; `OUTPUT_EXISTS` if the file exists and is no such page; `OUTPUT_UNWRITABLE`; those of {@link pruneModel} for unknown names.
 *
 * @example
 * ```ts
 * import { writeExplorer } from 'onnx-tapir/pages';
 *
 * const { path } = await writeExplorer('resnet50.onnx', { photos: ['dog.jpg'], returnNodes: ['layer3', 'layer4'] });
 * console.log(path); // /home/me/explore.html
 * ```
 */
export async function writeExplorer(
  model: string,
  given: Options<ExplorerOptions> = {},
): Promise<ExplorerSummary> {
  const options = readOptions(EXPLORER_FIELDS, given, 'writeExplorer');
  const { returnNodes, photos, layer, signal } = options;
  const path = resolve(options.out);
  await checkReplaceable(path, 'explore');
  await using explorer = await Explorer.open(checkText('model', model), basename(model), options);
  const picked = returnNodes.length === 0 ? [] : await explorer.pick(returnNodes);
  const [shownLayer] = layer === undefined ? [] : await explorer.pick([layer]);
  let added = 0;
  for (const photo of photos) {
    signal?.throwIfAborted();
    // oxlint-disable-next-line no-await-in-loop -- photos have their order
    added += (await explorer.addPhoto(photo, basename(photo))).length;
  }
  const recorded: Record<string, unknown> = {};
  const problems: string[] = [];
  const { length: held } = explorer.photos;
  if (held < added) problems.push(`photos: a page holds ${held}, so the first ${added - held} are left out`);
  const asked = {
    ...options,
    layer: shownLayer?.request,
    returnNodes: picked.map(({ request }) => request),
  };
  const begin = countSteps(options.onProgress);
  begin('measuring the model');
  // Where it fails, its own question records why.
  const measure = await explorer.measure(false).catch(() => undefined);
  for (const question of questionsOf(explorer, measure, asked)) {
    begin(nameOf(explorer, question));
    signal?.throwIfAborted();
    // oxlint-disable-next-line no-await-in-loop -- one run at a time bounds the memory
    const answer = await answerQuestion(explorer, question);
    recorded[question] = answer;
    const { problem } = answer as { readonly problem?: string };
    if (problem !== undefined) problems.push(`${nameOf(explorer, question)}: ${problem}`);
  }
  const tell = begin('reading weights', 'nodes', explorer.page.nodes.length);
  await recordDetails(explorer, recorded, tell, signal);
  const bytes = await renderExplorer(explorer, { key: null, recorded, picked: picked.map(({ id }) => id) });
  await writeAtomically(path, bytes);
  return { path, bytes: bytes.length, problems };
}

/** What a question is about, for people: `features of layer4, dog.jpg`. */
function nameOf({ photos }: Explorer, question: string): string {
  const { pathname, searchParams } = new URL(question, 'page:/');
  const kind = pathname.replace(/^\//, '').replace('heat', 'Grad-CAM');
  const node = searchParams.get('node');
  const photo = photos.find(({ id }) => id === searchParams.get('photo'));
  return `${kind}${node === null ? '' : ` of ${node}`}${photo ? `, ${photo.name}` : ''}`;
}

/** What the file holds for each node of data. */
async function recordDetails(
  explorer: Explorer,
  recorded: Record<string, unknown>,
  tell: Tell,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const [index, { role }] of explorer.page.nodes.entries()) {
    if (role !== 'data') continue;
    signal?.throwIfAborted();
    tell(index);
    // oxlint-disable-next-line no-await-in-loop -- one node at a time bounds the memory
    const detail = await explorer.detail(index);
    if (detail.attributes.length + detail.weights.length > 0) recorded[`detail?node=${index}`] = detail;
  }
}

/** What a written page can be asked. */
function questionsOf(
  { page, photos, photoCode }: Explorer,
  measure: ModelMeasure | undefined,
  { returnNodes, layer, class: target, time }: ExplorerOptions,
): string[] {
  const graph = new ModelGraph(page);
  if (measure) graph.setMeasure(measure);
  const softmax = graph.attentionOf(photoCode.input).at(-1);
  // Of two towers, the photo feeds one: their product is no list of classes.
  const needing = graph.needingMore(photoCode.input);
  const [output] = page.outputs;
  const hasClasses = output !== undefined && !needing.has(output[0]);
  const attention = softmax === undefined ? undefined : graph.requestOf(softmax);
  const opened = mostCostly(graph);
  const request = opened === undefined ? undefined : graph.requestOf(opened);
  const isShown = request !== undefined && !graph.nodesIn(opened!).some((node) => needing.has(node));
  const looked = returnNodes.length === 0 && isShown ? [request] : returnNodes;
  return [
    'measure',
    ...(time ? ['measure?times=1'] : []),
    ...photos.flatMap(({ id: photo }) => [
      ...(hasClasses ? [`classes?photo=${photo}`] : []),
      ...looked.map((node) => writeQuestion('features', { node, photo })),
      ...(attention === undefined ? [] : [writeQuestion('attention', { node: attention, photo })]),
      ...(layer === undefined
        ? []
        : [
            writeQuestion('heat', { node: layer, photo, ...(target === undefined ? {} : { class: target }) }),
          ]),
    ]),
  ];
}
