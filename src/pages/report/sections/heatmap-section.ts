/** The heat maps on the page: each photo beside its map. A reader needs no script for them. */
import { shown } from '../../../base/printable.js';
import { colourOf, INFERNO } from '../../../explain/photos/colour-map.js';
import { renderSection } from '../../../html/components.js';
import { markup, type Markup } from '../../../html/html.js';
import { formatCount } from '../../../html/numbers.js';
import type { HeatmapPair, Heatmaps } from './heatmaps.js';

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
  const source = (picture: string): string => `data:image/webp;base64,${picture}`;
  return markup`<figure class="heatmap">
    <div><img src="${source(photo)}" alt="${shown(path)}"><img src="${source(overlay)}" alt="heat map of ${name} over ${shown(path)}"></div>
    <figcaption><bdi>${name}</bdi><span>score ${score.toFixed(2)}</span><bdi class="path muted">${shown(path)}</bdi></figcaption>
  </figure>`;
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
