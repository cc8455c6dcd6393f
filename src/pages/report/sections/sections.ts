/** The parts of the page that are text. A reader needs no script for them. */
import { shown } from '../../../base/printable.js';
import type { CollectedOutput } from '../collect/collect-output.js';
import type { FailureGroup, Inputs } from '../collect/collect-inputs.js';
import type { Fact, Facts } from './facts.js';
import { markup, type Markup } from '../../../html/html.js';
import { formatCount, formatSeconds, formatValue } from '../../../html/numbers.js';
import { countInBins, type Histogram } from '../collect/statistics.js';

const BINS = 36;
/** Channels that are listed by number. */
const MAX_CHANNELS_LISTED = 24;

/** The numbers at the top. */
export function renderNumbers({ ok, failed }: Inputs, facts: Facts): Markup {
  const numbers: Fact[] = [
    ['images', formatCount(ok + failed)],
    ['embedded', formatCount(ok)],
    ['failed', formatCount(failed)],
  ];
  if (facts.imagesPerSecond !== undefined)
    numbers.push([
      'images per second',
      facts.imagesPerSecond.toFixed(facts.imagesPerSecond < 10 ? 2 : facts.imagesPerSecond < 100 ? 1 : 0),
    ]);
  if (facts.seconds !== undefined) numbers.push(['latest run', formatSeconds(facts.seconds)]);
  if (facts.device !== '') numbers.push(['device', facts.device]);
  const items = numbers.map(([name, text]) => {
    const mark = name === 'failed' && failed > 0 ? 'bad' : '';
    return markup`<div class="${mark}"><dt>${name}</dt><dd>${text}</dd></div>`;
  });
  return markup`<dl class="numbers">${items}</dl>`;
}

/** The facts by chapter. */
export function renderFacts({ chapters }: Facts): Markup {
  const blocks = chapters.map(({ title, facts }) => {
    const rows = facts.map(
      ([name, text]) => markup`<div><dt><bdi>${name}</bdi></dt><dd><bdi>${text}</bdi></dd></div>`,
    );
    return markup`<section class="chapter"><h3>${title}</h3><dl>${rows}</dl></section>`;
  });
  return markup`<div class="chapters">${blocks}</div>`;
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
    ['NaN', shareOf(nan, values)],
    ['infinite', shareOf(infinite, values)],
  ];
  const norm = countInBins(norms, BINS);
  const spread = countInBins(channelStd.filter(Number.isFinite), BINS);
  return markup`<div class="statistics" data-output="${index}">
    <h3 class="output-name"><bdi>${shown(key)}</bdi></h3>
    <div class="statistics-grid">
      <dl class="table">${facts.map(([name, text]) => markup`<div class="${isBad(name, text)}"><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>
      ${renderHistogram(norm, 'Length of each vector', 'Euclidean norm', 'rows')}
      ${renderHistogram(spread, 'Spread of each channel', 'standard deviation over all rows', 'channels')}
    </div>
    ${renderDead(zero, constant, layout.channels, rows)}
  </div>`;
}

function shareOf(count: number, of: number): string {
  return count === 0 ? 'none' : `${formatCount(count)} of ${formatCount(of)}`;
}

function isBad(name: string, text: string): string {
  return (name === 'NaN' || name === 'infinite') && text !== 'none' ? 'bad' : '';
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
      return markup`<li><strong>${formatCount(found.length)}</strong> of ${formatCount(channels)} channels are ${what}: <span class="channels">${listed}${more > 0 ? ` and ${formatCount(more)} more` : ''}</span></li>`;
    });
  return markup`<div class="dead"><h4>Dead channels</h4><ul>${lines}</ul></div>`;
}

const WIDTH = 360;
const HEIGHT = 120;

/** A bar chart, with a label that says the same in words. */
function renderHistogram(
  histogram: Histogram | undefined,
  title: string,
  axis: string,
  unit: string,
): Markup {
  if (!histogram)
    return markup`<figure class="histogram"><figcaption>${title}</figcaption><p class="note">No number is finite.</p></figure>`;
  const { min, max, counts } = histogram;
  const most = Math.max(...counts);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const step = WIDTH / counts.length;
  const bars = counts.map((count, bin) => {
    const height = count === 0 ? 0 : Math.max(1.5, (count / most) * HEIGHT);
    const from = formatValue(min + ((max - min) * bin) / counts.length);
    const to = formatValue(min + ((max - min) * (bin + 1)) / counts.length);
    const x = (bin * step + 0.75).toFixed(2);
    return markup`<rect x="${x}" y="${(HEIGHT - height).toFixed(2)}" width="${(step - 1.5).toFixed(2)}" height="${height.toFixed(2)}"><title>${from} to ${to}: ${formatCount(count)} ${unit}</title></rect>`;
  });
  const label = `${title}: ${formatCount(total)} ${unit} from ${formatValue(min)} to ${formatValue(max)}`;
  return markup`<figure class="histogram">
    <figcaption>${title}<span>${axis}</span></figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}" preserveAspectRatio="none">${bars}</svg>
    <div class="axis"><span>${formatValue(min)}</span><span>${formatValue(max)}</span></div>
  </figure>`;
}

/** The failures by code, with a search field. */
export function renderFailures({ failed, failures }: Inputs): Markup {
  if (failed === 0) return markup`<p class="note">Every image was embedded.</p>`;
  return markup`<label class="search"><span>Search paths and reasons</span><input id="failure-search" type="search" autocomplete="off" spellcheck="false"></label>
    <p id="failure-count" class="note" role="status"></p>
    ${failures.map((group, index) => renderGroup(group, index === 0))}`;
}

function renderGroup({ code, count, listed }: FailureGroup, isOpen: boolean): Markup {
  const rows = listed.map(
    ({ path, message }) =>
      markup`<li><bdi class="path">${path === null ? '(given as bytes)' : shown(path)}</bdi><bdi class="reason">${shown(message)}</bdi></li>`,
  );
  const more = count - listed.length;
  return markup`<details class="failures"${isOpen ? markup` open` : null}>
    <summary><code>${shown(code)}</code><span class="count">${formatCount(count)}</span></summary>
    <ul>${rows}</ul>
    ${more > 0 ? markup`<p class="note">and ${formatCount(more)} more; the dataset’s metadata lists all of them (status = 'error')</p>` : null}
  </details>`;
}
