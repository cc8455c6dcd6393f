/** The parts of the page that are text. A reader needs no script for them. */
import { shown } from '../../../../base/printable.js';
import { colourOf, INFERNO } from '../../../maps/colour-map.js';
import type { Duplicates } from '../../../features/dedupe/find-duplicates.js';
import type { CollectedOutput } from '../collect/collect-output.js';
import type { FailureGroup, Inputs } from '../collect/collect-inputs.js';
import type { Facts } from './facts.js';
import { renderSection, renderTable } from '../../../../base/html/components.js';
import type { Fact } from '../../../../base/html/facts.js';
import { markup, type Markup } from '../../../../base/html/html.js';
import { formatCount, formatValue } from '../../../../base/html/numbers.js';
import { renderHistogram } from '../../../../base/html/histogram.js';
import type { FeaturePicture, FeaturePictures } from './feature-pictures.js';
import type { HeatmapPair, Heatmaps } from './heatmaps.js';

/** Channels that are listed by number. */
const MAX_CHANNELS_LISTED = 24;

/** How the dataset was made, by chapter. */
export function renderOrigin({ chapters }: Facts): Markup {
  return markup`<div class="chapters">${chapters.map(({ title, facts }) => markup`<section class="chapter"><h3>${title}</h3>${renderTable(facts)}</section>`)}</div>`;
}

/** The statistics of an output. */
export function renderStatistics({ key, layout, statistics }: CollectedOutput, index: number): Markup {
  const { rows, values, nan, infinite, mean, std, min, max, norms, channelStd, zero, constant } = statistics;
  const facts: Fact[] = [
    ['rows', formatCount(rows)],
    ['numbers per row', `${layout.dims.join(' × ') || '1'}`],
    ['mean', formatValue(mean)],
    ['standard deviation', formatValue(std)],
    ['smallest', formatValue(min)],
    ['largest', formatValue(max)],
    ['NaN', shareOf(nan, values), nan > 0 ? 'bad' : undefined],
    ['infinite', shareOf(infinite, values), infinite > 0 ? 'bad' : undefined],
  ];
  return markup`<div class="statistics" data-output="${index}">
    <h3 class="output-name"><bdi>${shown(key)}</bdi></h3>
    <div class="statistics-grid">
      ${renderTable(facts)}
      ${renderHistogram(norms, 'Length of each vector', 'Euclidean norm', 'rows')}
      ${renderHistogram(channelStd.filter(Number.isFinite), 'Spread of each channel', 'standard deviation over all rows', 'channels')}
    </div>
    ${renderDead(zero, constant, layout.channels, rows)}
  </div>`;
}

function shareOf(count: number, of: number): string {
  return count === 0 ? 'none' : `${formatCount(count)} of ${formatCount(of)}`;
}

function renderDead(
  zero: readonly number[],
  constant: readonly number[],
  channels: number,
  rows: number,
): Markup {
  if (rows < 2) return markup`<p class="note">Dead channels show only with two rows or more.</p>`;
  if (zero.length + constant.length === 0)
    return markup`<p class="note">No dead channels: each of the ${formatCount(channels)} takes more than one value.</p>`;
  const kinds: (readonly [string, readonly number[]])[] = [
    ['zero in every row', zero],
    ['another constant in every row', constant],
  ];
  const lines = kinds
    .filter(([, found]) => found.length > 0)
    .map(([what, found]) => {
      const more = found.length - MAX_CHANNELS_LISTED;
      const listed = found.slice(0, MAX_CHANNELS_LISTED).join(', ');
      return markup`<li><strong>${formatCount(found.length)}</strong> of ${formatCount(channels)} channels are ${what}: <span class="muted">${listed}${more > 0 ? ` and ${formatCount(more)} more` : ''}</span></li>`;
    });
  return markup`<div class="dead"><h4>Dead channels</h4><ul>${lines}</ul></div>`;
}

/** The failures by code, with a search field. */
export function renderFailures({ failed, failures }: Inputs): Markup {
  if (failed === 0) return markup`<p class="note">Every image was embedded.</p>`;
  return markup`<label class="failure-search tools small">Search paths and reasons<input id="failure-search" type="search" autocomplete="off" spellcheck="false"></label>
    <p id="failure-count" class="note" role="status"></p>
    ${failures.map((group, index) => renderGroup(group, index === 0))}`;
}

function renderGroup({ code, count, listed }: FailureGroup, isOpen: boolean): Markup {
  const rows = listed.map(
    ({ path, message }) =>
      markup`<li><bdi class="path">${path === null ? '(given as bytes)' : shown(path)}</bdi><bdi class="muted">${shown(message)}</bdi></li>`,
  );
  const more = count - listed.length;
  return markup`<details class="failures"${isOpen ? markup` open` : null}>
    <summary><code>${shown(code)}</code> <span class="muted">${formatCount(count)}</span></summary>
    <ul>${rows}</ul>
    ${more > 0 ? markup`<p class="note">and ${formatCount(more)} more; the dataset’s metadata lists all of them (status = 'error')</p>` : null}
  </details>`;
}

/** Groups that are listed. */
const MOST_GROUPS = 50;
/** Copies of a group that are listed. */
const MOST_COPIES = 8;

/** The groups of an output; the largest come first. */
export function renderDuplicates({ key, cosine, groups, compared }: Duplicates): Markup {
  const copies = groups.reduce((sum, group) => sum + group.copies.length, 0);
  const largest = groups.toSorted((a, b) => b.copies.length - a.copies.length).slice(0, MOST_GROUPS);
  const more = groups.length - largest.length;
  const items = largest.map(({ best, copies: others }) => {
    const listed = others
      .slice(0, MOST_COPIES)
      .map(
        (copy) => markup`<li>${pathOf(copy.path)} <span class="note">${copy.cosine.toFixed(4)}</span></li>`,
      );
    const rest = others.length - listed.length;
    return markup`<details class="failures"><summary>${pathOf(best.path)} <span class="note">${formatCount(others.length)} ${others.length === 1 ? 'copy' : 'copies'}</span></summary><ul>${listed}${rest > 0 ? markup`<li class="note">${formatCount(rest)} more</li>` : null}</ul></details>`;
  });
  return markup`<h3>Among all images</h3><p class="lead"><bdi>${shown(key)}</bdi>: every pair of ${formatCount(compared)} images was compared. ${formatCount(groups.length)} ${groups.length === 1 ? 'group holds' : 'groups hold'} ${formatCount(copies)} ${copies === 1 ? 'copy' : 'copies'} with a cosine of ${String(cosine)} and more.</p>
  ${items}
  ${more > 0 ? markup`<p class="note">${formatCount(more)} more groups: “tapir dedupe --json” lists them.</p>` : null}`;
}

function pathOf(path: string | null): Markup {
  return path === null ? markup`<span class="note">given as bytes</span>` : markup`<bdi>${shown(path)}</bdi>`;
}

/** The section. Without pictures it says so; the notes of the page say why. */
export function renderHeatmaps({ method, layer, scores, pairs }: Heatmaps, images: number): Markup {
  const of = layer === null ? markup`` : markup` of <code>${shown(layer)}</code>`;
  const lead = markup`<p class="lead">Where the score of the predicted class comes from: <code>${method}</code>${of}, for ${formatCount(pairs.length)} of ${formatCount(images)} images. ${scores} Each photo is as the model sees it; the map is scaled to its own largest value.</p>`;
  const body =
    pairs.length === 0
      ? markup`<p class="note">None of the chosen photos could be read.</p>`
      : markup`${lead}${renderScale()}<div class="heatmaps grid">${pairs.map(renderPair)}</div>`;
  return renderSection('heatmaps', 'Heat maps', body);
}

function renderPair({ path, photo, overlay, classIndex, label, score }: HeatmapPair): Markup {
  const name = label === null ? `class ${classIndex}` : shown(label);
  const file = shown(path);
  const right = markup`<img src="${webp(overlay)}" alt="heat map of ${name} over ${file}">`;
  const caption = markup`<bdi>${name}</bdi><span>score ${score.toFixed(2)}</span>`;
  return renderBeside(file, photo, right, caption);
}

/** A photo, and beside it what a model makes of it. */
function renderBeside(name: string, photo: string | null, right: Markup, caption: Markup | null): Markup {
  const left =
    photo === null
      ? markup`<p class="note">There is no picture.</p>`
      : markup`<img src="${webp(photo)}" alt="${name}">`;
  return markup`<figure class="heatmap">
    <div>${left}${right}</div>
    <figcaption>${caption}<bdi class="path muted">${name}</bdi></figcaption>
  </figure>`;
}

function webp(base64: string): string {
  return `data:image/webp;base64,${base64}`;
}

/** What outputs with places see. */
export function renderFeaturePictures(outputs: readonly FeaturePictures[], images: number): Markup {
  const parts = outputs.map(({ key, pictures }) => {
    const lead = markup`<p class="lead">What <code>${shown(key)}</code> sees in ${formatCount(pictures.length)} of ${formatCount(images)} images: places that look alike to the model have like colours, which mean the same in all pictures.</p>`;
    return markup`${lead}<div class="heatmaps grid">${pictures.map(renderFeatures)}</div>`;
  });
  return renderSection('features', 'What the layers see', parts);
}

function renderFeatures({ name, photo, colours }: FeaturePicture): Markup {
  const right = markup`<img class="places" src="data:image/png;base64,${colours}" alt="features of ${name} as colours">`;
  return renderBeside(name, photo, right, null);
}

const STOPS = 9;

/** The colours from 0 to 1. */
function renderScale(): Markup {
  const stops = Array.from({ length: STOPS }, (_, i) => {
    const share = i / (STOPS - 1);
    const [red, green, blue] = colourOf(share, INFERNO).map(Math.round);
    return markup`<stop offset="${share}" stop-color="rgb(${red!},${green!},${blue!})"/>`;
  });
  return markup`<div class="heat-scale line tiny"><span>0</span><svg viewBox="0 0 100 8" role="img" aria-label="scale from 0 to the largest value" preserveAspectRatio="none"><defs><linearGradient id="heat">${stops}</linearGradient></defs><rect width="100" height="8" fill="url(#heat)"/></svg><span>largest</span></div>`;
}
