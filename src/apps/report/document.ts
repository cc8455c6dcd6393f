/** The whole page as one file: text, style, script and data, and nothing from elsewhere. */
import { createHash } from 'node:crypto';
import type { CollectedOutput } from './collect-output.js';
import type { Inputs } from './collect-inputs.js';
import type { Facts } from './facts.js';
import { markup, Markup, shown, toScriptJson } from '../pages/html.js';
import { formatCount } from '../pages/numbers.js';
import type { PageData } from './page/data.js';
import { renderFacts, renderFailures, renderNumbers, renderStatistics } from './sections.js';

/** What a report's file begins with: it tells whether a file may be replaced by another report. */
export const REPORT_MARK = '<!doctype html>\n<!-- onnx-tapir report -->\n';

/** What a page is made of. */
export interface ReportParts {
  readonly facts: Facts;
  readonly inputs: Inputs;
  readonly outputs: readonly CollectedOutput[];
  readonly data: PageData;
  /** What is not shown, and why. */
  readonly notes: readonly string[];
  readonly version: string;
  readonly script: string;
  readonly style: string;
}

/** Writes the page as text. */
export function renderDocument(parts: ReportParts): string {
  const { facts, inputs, outputs, data, notes, version, script, style } = parts;
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const page = markup`<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="onnx-tapir ${version}">
<title>${facts.title} · tapir report</title>
<style>${new Markup(style)}</style>
</head>
<body>
<a class="skip" href="#map-section">Skip to the map</a>
<header class="top">
  <div>
    <p class="eyebrow">tapir report</p>
    <h1><bdi>${facts.title}</bdi></h1>
    <p class="subtitle">${subtitle(facts, inputs)}</p>
  </div>
  <div class="controls">
    ${renderSelector(outputs)}
    <button type="button" id="theme" class="quiet" aria-pressed="false">Dark</button>
  </div>
</header>
<main>
${renderNumbers(inputs, facts)}
${renderMap(inputs, data)}
<section id="duplicates-section" aria-labelledby="duplicates-title">
  <h2 id="duplicates-title">Near-duplicates</h2>
  <div id="duplicates"><p class="note">Needs the page’s script.</p></div>
</section>
<section aria-labelledby="statistics-title">
  <h2 id="statistics-title">Statistics</h2>
  <p class="lead">Over all ${formatCount(inputs.ok)} rows.</p>
  ${outputs.map((output, index) => renderStatistics(output, index))}
</section>
<section aria-labelledby="failures-title">
  <h2 id="failures-title">Failures</h2>
  ${renderFailures(inputs)}
</section>
<section aria-labelledby="facts-title">
  <h2 id="facts-title">How it was made</h2>
  ${renderFacts(facts)}
</section>
</main>
<footer>
  ${notes.map((note) => markup`<p>${note}</p>`)}
  <p>Made by onnx-tapir ${version}. This file is complete in itself: it loads nothing and sends nothing.</p>
</footer>
<script type="application/json" id="data">${new Markup(toScriptJson(data))}</script>
<script>${new Markup(script)}</script>
</body>
</html>
`;
  return REPORT_MARK + page.text;
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

function subtitle({ requests, createdAt }: Facts, { ok }: Inputs): Markup {
  const names = requests.map((name) => markup`<bdi>${name}</bdi> · `);
  const day = /^\d{4}-\d{2}-\d{2}/.exec(createdAt)?.[0] ?? '';
  return markup`${names}${formatCount(ok)} images${day === '' ? '' : ` · ${day}`}`;
}

function renderSelector(outputs: readonly CollectedOutput[]): Markup | null {
  if (outputs.length < 2) return null;
  const options = outputs.map(({ key }, index) => markup`<option value="${index}">${shown(key)}</option>`);
  return markup`<label class="select"><span>Output</span><select id="output">${options}</select></label>`;
}

function renderMap({ ok }: Inputs, data: PageData): Markup {
  const { images } = data;
  const shownCount = images.names.length;
  const sampled =
    shownCount < ok ? `${formatCount(shownCount)} of ${formatCount(ok)} images, drawn at random. ` : '';
  return markup`<section id="map-section" aria-labelledby="map-title">
  <h2 id="map-title">Map</h2>
  <p class="lead">${sampled}Each point is an image; images that the model finds alike lie together. Point at one to see it, click it for its neighbours.</p>
  <noscript><p class="note">The map needs the page’s script, which this browser does not run.</p></noscript>
  <div class="map-grid">
    <div class="map-frame">
      <div class="toolbar" role="toolbar" aria-label="Map">
        <div class="segments" role="group" aria-label="Projection">
          <button type="button" data-projection="pca" aria-pressed="true">PCA</button>
          <button type="button" data-projection="umap" aria-pressed="false">UMAP</button>
        </div>
        <div class="segments" role="group" aria-label="Drawn as">
          <button type="button" data-marks="dots" aria-pressed="true">Dots</button>
          <button type="button" data-marks="pictures" aria-pressed="false">Pictures</button>
        </div>
        <div class="segments zoom" role="group" aria-label="Zoom">
          <button type="button" data-zoom="out" aria-label="Zoom out">−</button>
          <button type="button" data-zoom="reset" aria-label="Show all">Fit</button>
          <button type="button" data-zoom="in" aria-label="Zoom in">+</button>
        </div>
      </div>
      <div id="map" class="map" role="application" tabindex="0" aria-roledescription="map of images" aria-label="Map of ${formatCount(shownCount)} images" aria-describedby="map-help">
        <canvas id="canvas" aria-hidden="true"></canvas>
        <div id="tip" class="tip" hidden></div>
      </div>
      <div id="legend" class="legend" role="group" aria-label="Folders"></div>
      <p id="map-note" class="note"></p>
      <p id="map-help" class="note keys"><kbd>←</kbd><kbd>↑</kbd><kbd>→</kbd><kbd>↓</kbd> next image · <kbd>Enter</kbd> its neighbours · <kbd>+</kbd><kbd>−</kbd><kbd>0</kbd> zoom · <kbd>Esc</kbd> back</p>
    </div>
    <aside id="panel" class="panel" aria-label="Selected image"></aside>
  </div>
  <p id="live" class="visually-hidden" role="status" aria-live="polite"></p>
</section>`;
}
