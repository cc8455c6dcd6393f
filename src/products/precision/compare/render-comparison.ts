/** A comparison → one page to look at. */
import { tryThumbnail } from '../../../photos/images/thumbnail.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import { shown } from '../../../base/printable.js';
import { renderPage } from '../../../base/html/document.js';
import { renderNumbers, renderProblems, renderSection, renderTable } from '../../../base/html/components.js';
import { renderBins } from '../../../base/html/histogram.js';
import { factsOf, type Fact } from '../../../base/html/facts.js';
import { markup, type Markup } from '../../../base/html/html.js';
import {
  formatBytes,
  formatCount,
  formatShare,
  formatShareOf,
  formatValue,
} from '../../../base/html/numbers.js';
import type { ComparedModel, ComparedOutput, ModelComparison } from './comparison.js';
import type { Agreement, ComparedImage } from './compare-outputs.js';
import { describeAgreement, describePixels, describeVerdict, formatCosine } from './describe-comparison.js';

const PICTURE_SIDE = 96;

/** Writes the page, with pictures of the images of the least cosine. */
export async function renderComparison(
  comparison: ModelComparison,
  items: readonly SourceItem[],
): Promise<Uint8Array> {
  const { a, b, outputs, seen, sampled, failures } = comparison;
  const sections: Markup[] = [];
  for (const [place, output] of outputs.entries()) sections.push(await renderOutput(output, place, items));
  return renderPage({
    kind: 'compare',
    title: `${shown(a.file)} and ${shown(b.file)}`,
    subtitle: markup`${formatCount(sampled)} of ${formatCount(seen)} images`,
    skip: { target: 'outputs', text: 'Skip to the outputs' },
    main: markup`<p class="lead">${describeVerdict(outputs)}</p>${renderNumbers([
      ...headline(outputs),
      ['photos compared', formatCount(sampled - failures.length)],
      ...(failures.length === 0 ? [] : [['failed', formatCount(failures.length), 'bad'] as const]),
    ])}
<div id="outputs">${sections}</div>
${renderSection(
  'pixels',
  'Pixels',
  describePixels(comparison).map((line) => markup`<p>${line}</p>`),
)}
${renderSection('models', 'Models', markup`<div class="sides grid">${[renderModel('A', a), renderModel('B', b)]}</div>`)}
${renderProblems(
  'Failures',
  failures.map(({ path, error }) => ({ path, message: error.message })),
)}`,
  });
}

/** What a reader wants first, of the output that agrees least. */
function headline(outputs: readonly ComparedOutput[]): Fact[] {
  const [worst] = outputs
    .filter(({ cosine }) => cosine !== null)
    .toSorted((a, b) => a.cosine!.least - b.cosine!.least);
  if (!worst) return [];
  const { cosine, recall, top1, images } = worst;
  return [
    ['mean cosine', formatCosine(cosine!.mean)],
    ['least cosine', formatCosine(cosine!.least)],
    ...(recall ? [[`recall@${recall.neighbours}`, formatShare(recall.mean)] as const] : []),
    ...(top1 === null ? [] : [['same class on top', formatShareOf(top1, images)] as const]),
  ];
}

async function renderOutput(
  output: ComparedOutput,
  place: number,
  items: readonly SourceItem[],
): Promise<Markup> {
  const { key, worst, onPixelsOfA } = output;
  const tables = renderAgreement('Each model on its own pixels', output);
  if (onPixelsOfA) tables.push(...renderAgreement('Both models on A’s pixels', onPixelsOfA));
  const tiles: Markup[] = [];
  for (const image of worst) tiles.push(await renderTile(image, items[image.index]));
  return renderSection(
    `output-${place}`,
    markup`<bdi>${shown(key)}</bdi>`,
    markup`<div class="sides grid">${tables}${
      tiles.length > 0 ? markup`<div><h3>Least alike</h3><ul class="tiles">${tiles}</ul></div>` : null
    }</div>`,
  );
}

/** A table, and beside it how the cosines lie, where that can be read. */
function renderAgreement(title: string, agreement: Agreement): Markup[] {
  const { cosine, cosines, recall, maxDifference, top1, images } = agreement;
  const facts: Fact[] = [
    ['mean cosine', cosine ? formatCosine(cosine.mean) : '–'],
    ['least cosine', cosine ? formatCosine(cosine.least) : '–'],
    ['largest difference', maxDifference === null ? '–' : formatValue(maxDifference)],
    [
      recall ? `recall@${recall.neighbours}` : 'recall',
      recall ? formatShare(recall.mean) : 'needs vectors of more images',
    ],
    ...(top1 === null ? [] : [['same class on top', formatShareOf(top1, images)] as const]),
  ];
  const table = markup`<div><h3>${title}</h3><p class="note">${withFlags(describeAgreement(agreement))}</p>${renderTable(facts)}</div>`;
  if (!cosines || formatValue(cosines.min) === formatValue(cosines.max)) return [table];
  return [table, renderBins(cosines, 'Cosine of each image', 'between its two vectors', 'images')];
}

/** A sentence, with its flags as code, which does not break. */
function withFlags(sentence: string): Markup[] {
  return sentence
    .split(/(--[\w-]+)/)
    .map((part) => (part.startsWith('--') ? markup`<code class="flag">${part}</code>` : markup`${part}`));
}

function renderModel(
  side: string,
  { file, bytes, sha256, device, engine, precision, transform }: ComparedModel,
): Markup {
  const facts: Fact[] = [
    ['file', file],
    ['size', formatBytes(bytes)],
    ['SHA-256', sha256],
    ['device', device],
    ['engine', engine],
    ['precision', precision],
    ...factsOf(transform),
  ];
  return markup`<div><h3>${side}</h3>${renderTable(facts)}</div>`;
}

async function renderTile({ path, index, cosine }: ComparedImage, item?: SourceItem): Promise<Markup> {
  const webp = item && (await tryThumbnail(item.image, PICTURE_SIDE));
  const picture = webp ? markup`<img class="picture" src="data:image/webp;base64,${webp}" alt="">` : null;
  const name = path === null ? `(image ${index}, given as bytes)` : shown(path);
  return markup`<li class="tile">${picture}<span>${formatCosine(cosine)}</span><bdi class="note">${name}</bdi></li>`;
}
