/** A comparison → one page to look at. */
import { shown } from '../../base/printable.js';
import { isTapirError } from '../../base/errors.js';
import { packageVersion } from '../../base/package.js';
import { makeThumbnail } from '../../images/thumbnail.js';
import type { SourceItem } from '../../datasets/sources/items/source-item.js';
import { readPageFiles, renderPage } from '../../html/document.js';
import { markup, type Markup } from '../../html/html.js';
import { formatBytes, formatCount, formatValue } from '../../html/numbers.js';
import type { ComparedModel, ComparedOutput, ModelComparison } from './comparison.js';
import type { Agreement, ComparedImage } from './compare-outputs.js';
import {
  describeAgreement,
  describePixels,
  formatCosine,
  formatOption,
  formatShare,
} from './describe-comparison.js';

const PICTURE_SIDE = 96;

type Fact = readonly [name: string, text: string];

/** Writes the page, with pictures of the images of the least cosine. */
export async function renderComparison(
  comparison: ModelComparison,
  items: readonly SourceItem[],
): Promise<Uint8Array> {
  const { a, b, outputs, seen, sampled, failures } = comparison;
  const sections: Markup[] = [];
  for (const output of outputs) sections.push(await renderOutput(output, items));
  const numbers: Fact[] = [
    ['compared', formatCount(sampled - failures.length)],
    ['in the source', formatCount(seen)],
    ['failed', formatCount(failures.length)],
  ];
  const page = renderPage({
    kind: 'compare',
    title: `${shown(a.file)} and ${shown(b.file)}`,
    subtitle: markup`${formatCount(sampled)} of ${formatCount(seen)} images`,
    controls: null,
    skip: { target: 'outputs', text: 'Skip to the outputs' },
    main: markup`<dl class="numbers">${numbers.map(([name, text]) => markup`<div><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>
<section id="outputs" aria-label="Outputs">${sections}</section>
<section aria-labelledby="pixels-title">
  <h2 id="pixels-title">Pixels</h2>
  ${describePixels(comparison).map((line) => markup`<p>${line}</p>`)}
</section>
<section aria-labelledby="models-title">
  <h2 id="models-title">Models</h2>
  <div class="sides">${[renderModel('A', a), renderModel('B', b)]}</div>
</section>
${renderFailures(comparison)}`,
    notes: [],
    data: {},
    version: packageVersion(),
    files: await readPageFiles('compare'),
  });
  return Buffer.from(page);
}

async function renderOutput(output: ComparedOutput, items: readonly SourceItem[]): Promise<Markup> {
  const { key, worst, onPixelsOfA } = output;
  const tables = [renderAgreement('Each model on its own pixels', output)];
  if (onPixelsOfA) tables.push(renderAgreement('Both models on A’s pixels', onPixelsOfA));
  const tiles: Markup[] = [];
  for (const image of worst) tiles.push(await renderTile(image, items[image.index]));
  return markup`<h2><bdi>${shown(key)}</bdi></h2>
  <div class="sides">${tables}</div>
  ${tiles.length > 0 ? markup`<h3>Least alike</h3><ul class="tiles">${tiles}</ul>` : null}`;
}

function renderAgreement(title: string, agreement: Agreement): Markup {
  const { cosine, recall, maxDifference } = agreement;
  const facts: Fact[] = [
    ['mean cosine', cosine ? formatCosine(cosine.mean) : '–'],
    ['least cosine', cosine ? formatCosine(cosine.least) : '–'],
    ['largest difference', maxDifference === null ? '–' : formatValue(maxDifference)],
    [
      recall ? `recall@${recall.neighbours}` : 'recall',
      recall ? formatShare(recall.mean) : 'needs more images',
    ],
  ];
  return markup`<div><h3>${title}</h3><p class="note">${describeAgreement(agreement)}</p>${renderTable(facts)}</div>`;
}

function renderTable(facts: readonly Fact[]): Markup {
  const rows = facts.map(
    ([name, text]) => markup`<div><dt>${name}</dt><dd><bdi>${shown(text)}</bdi></dd></div>`,
  );
  return markup`<dl class="table">${rows}</dl>`;
}

function renderModel(side: string, { file, bytes, sha256, device, transform }: ComparedModel): Markup {
  const options = Object.entries(transform).filter(([, value]) => value !== null);
  const facts: Fact[] = [
    ['file', file],
    ['size', formatBytes(bytes)],
    ['SHA-256', sha256],
    ['device', device],
    ...options.map(([name, value]): Fact => [name, formatOption(value)]),
  ];
  return markup`<div><h3>${side}</h3>${renderTable(facts)}</div>`;
}

async function renderTile({ path, index, cosine }: ComparedImage, item?: SourceItem): Promise<Markup> {
  const source = item && (await readPicture(item));
  const picture = source ? markup`<img class="picture" src="${source}" alt="">` : null;
  const name = path === null ? `(image ${index}, given as bytes)` : shown(path);
  return markup`<li>${picture}<span>${formatCosine(cosine)}</span><bdi class="note">${name}</bdi></li>`;
}

/** Undefined for an image that can no longer be read. */
async function readPicture({ image }: SourceItem): Promise<string | undefined> {
  try {
    const file = typeof image === 'function' ? await image() : image;
    const { mime, bytes } = await makeThumbnail(file, PICTURE_SIDE);
    return `data:${mime};base64,${Buffer.from(bytes).toString('base64')}`;
  } catch (error) {
    if (isTapirError(error) && error.code.startsWith('IMAGE_')) return undefined;
    throw error;
  }
}

function renderFailures({ failures }: ModelComparison): Markup | null {
  if (failures.length === 0) return null;
  const rows = failures.map(
    ({ path, error }) =>
      markup`<li><bdi>${path === null ? '(given as bytes)' : shown(path)}</bdi> <span class="note">${shown(error.message)}</span></li>`,
  );
  return markup`<section aria-labelledby="failures-title"><h2 id="failures-title">Failures</h2><ul>${rows}</ul></section>`;
}
