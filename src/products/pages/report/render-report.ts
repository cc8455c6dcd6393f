/** The report's page: its parts in their order. */
import { shown } from '../../../base/printable.js';
import type { Duplicates } from '../../features/dedupe/find-duplicates.js';
import { renderPage } from '../../../base/html/document.js';
import { renderSection } from '../../../base/html/components.js';
import { markup, type Markup } from '../../../base/html/html.js';
import { formatCount } from '../../../base/html/numbers.js';
import { nounOf, type Inputs } from './collect/collect-inputs.js';
import type { CollectedOutput } from './collect/collect-output.js';
import type { Facts } from './sections/facts.js';
import type { FeaturePictures } from './sections/feature-pictures.js';
import type { Heatmaps } from './sections/heatmaps.js';
import type { PageData } from './page/data.js';
import { renderProbe, type ProbePart } from './sections/probe-section.js';
import { renderSearch } from './sections/search-section.js';
import {
  renderDuplicates,
  renderFailures,
  renderFeaturePictures,
  renderHeatmaps,
  renderOrigin,
  renderStatistics,
} from './sections/sections.js';

/** What a report is made of. */
export interface ReportParts {
  /** The name of the dataset's folder. */
  readonly title: string;
  readonly facts: Facts;
  readonly inputs: Inputs;
  readonly outputs: readonly CollectedOutput[];
  readonly data: PageData;
  readonly heatmaps: Heatmaps | undefined;
  /** What the outputs see that have places. */
  readonly seen: readonly FeaturePictures[];
  readonly probe: ProbePart | undefined;
  /** Those of the whole dataset, for each output; empty if nobody asked. */
  readonly duplicates: readonly Duplicates[];
  /** What the page does not show, and why. */
  readonly notes: readonly string[];
}

/** Writes the page. */
export function renderReport(parts: ReportParts): Promise<Uint8Array> {
  const { title, facts, inputs, outputs, data, heatmaps, seen, probe, duplicates, notes } = parts;
  const statistics = markup`<p class="lead">Over all ${formatCount(inputs.ok)} rows.</p>${outputs.map(renderStatistics)}`;
  const script = markup`<div id="duplicates"><p class="note">This part needs the page’s script.</p></div>`;
  const main = markup`<section id="map-section" aria-label="Map">${renderMap(inputs, data)}</section>
${data.server ? renderSearch(data.server, inputs.ok) : null}
${probe ? renderProbe(probe) : null}
${heatmaps ? renderHeatmaps(heatmaps, inputs.ok) : null}
${seen.length > 0 ? renderFeaturePictures(seen, inputs.ok) : null}
${renderSection('duplicates', 'Near-duplicates', [script, ...duplicates.map(renderDuplicates)])}
${renderSection('statistics', 'Statistics', statistics)}
${renderSection('failures', 'Failures', renderFailures(inputs))}
${renderSection('facts', 'Settings', renderOrigin(facts))}`;
  return renderPage({
    kind: 'report',
    title,
    subtitle: renderSubtitle(facts, inputs),
    controls: renderSelector(outputs),
    skip: { target: 'map-section', text: 'Skip to the map' },
    main,
    notes,
    data,
    isServed: data.server !== null,
  });
}

function renderSubtitle({ model, requests, createdAt }: Facts, { ok, failed, images }: Inputs): Markup {
  const names = requests.map((name) => markup`<bdi>${name}</bdi> · `);
  const file = model === '' ? null : markup`<bdi>${shown(model)}</bdi> · `;
  const failures =
    failed === 0 ? null : markup`, <a href="#failures-section">${formatCount(failed)} failed</a>`;
  const day = /^\d{4}-\d{2}-\d{2}/.exec(createdAt)?.[0] ?? '';
  return markup`${file}${names}${formatCount(ok)} ${nounOf(images)}${failures}${day === '' ? '' : ` · ${day}`}`;
}

function renderSelector(outputs: readonly CollectedOutput[]): Markup | null {
  if (outputs.length < 2) return null;
  const options = outputs.map(({ key }, index) => markup`<option value="${index}">${shown(key)}</option>`);
  return markup`<label class="small">Output <select id="output">${options}</select></label>`;
}

function renderMap({ ok }: Inputs, { images }: PageData): Markup {
  const count = images.names.length;
  const sampled = count < ok ? `${formatCount(count)} of ${formatCount(ok)} images, drawn at random. ` : '';
  return markup`<h2 class="visually-hidden">Map</h2>
  <noscript><p class="note">The map needs the page’s script, which this browser does not run.</p></noscript>
  <div class="map-frame">
      <div class="toolbar tools line" role="toolbar" aria-label="Map">
        <div class="segments" role="group" aria-label="Projection">
          <button type="button" data-projection="umap" aria-pressed="false">UMAP</button>
          <button type="button" data-projection="pca" aria-pressed="true">PCA</button>
        </div>
        <div class="segments" role="group" aria-label="Drawn as">
          <button type="button" data-marks="pictures" aria-pressed="false">Pictures</button>
          <button type="button" data-marks="dots" aria-pressed="true">Dots</button>
        </div>
        <label class="small line">Colour by <select id="colour-by"></select></label>
        <label class="small line">Show <select id="filter"></select></label>
        <button type="button" class="toggle" data-gather="on" aria-pressed="false" title="Draw around images with the pointer; with Shift held, it always does">Draw around</button>
        <input id="find-image" type="search" autocomplete="off" spellcheck="false" placeholder="Find by name" aria-label="Find images by name">
        <div class="segments zoom" role="group" aria-label="Zoom">
          <button type="button" data-zoom="out" aria-label="Zoom out">−</button>
          <button type="button" data-zoom="reset" aria-label="Fit">Fit</button>
          <button type="button" data-zoom="in" aria-label="Zoom in">+</button>
        </div>
      </div>
      <div id="legend" class="legend line" role="group" aria-label="Colours"></div>
      <div id="map" class="map raised" role="application" tabindex="0" aria-roledescription="map of images" aria-label="Map of ${formatCount(count)} images" aria-describedby="map-help">
        <canvas id="canvas" aria-hidden="true"></canvas>
        <div id="tip" class="tip raised" hidden></div>
      </div>
      <p class="note">${sampled}Each picture or dot is an image; a dot is one whose picture has no room here, until you zoom in. Similar images lie together. Point at one to see it, click it for its neighbours. <span id="map-note"></span> <strong id="filtered" role="status"></strong></p>
      <p id="map-help" class="note keys"><kbd>←</kbd><kbd>↑</kbd><kbd>→</kbd><kbd>↓</kbd> next image · <kbd>Enter</kbd> its neighbours · <kbd>+</kbd><kbd>−</kbd><kbd>0</kbd> zoom · <kbd>Esc</kbd> back · <kbd>Shift</kbd> and drag: draw around images</p>
      <aside id="panel" class="panel" aria-label="Selected image"></aside>
      <div id="gathered"></div>
  </div>
  <p id="live" class="visually-hidden" role="status" aria-live="polite"></p>`;
}
