/** Values as a histogram. */
import { binsFor, countInBins, type Histogram } from '../histogram.js';
import { markup, type Markup } from './html.js';
import { formatCount, formatValue } from './numbers.js';

const WIDTH = 360;
const HEIGHT = 120;

/** A bar chart, with a label that says the same in words. */
export function renderHistogram(
  values: ArrayLike<number>,
  title: string,
  axis: string,
  unit: string,
): Markup {
  const histogram = countInBins(values, binsFor(values.length));
  if (histogram) return renderBins(histogram, title, axis, unit);
  return markup`<figure class="histogram"><figcaption>${title}</figcaption><p class="note">No number is finite.</p></figure>`;
}

/** A histogram as a bar chart. */
export function renderBins(
  { min, max, counts }: Histogram,
  title: string,
  axis: string,
  unit: string,
): Markup {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const most = Math.max(...counts);
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
    <div class="axis tiny"><span>${formatValue(min)}</span><span>${formatValue(max)}</span></div>
  </figure>`;
}
