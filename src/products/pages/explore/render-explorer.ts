/** A described model → its page. */
import { shown } from '../../../base/printable.js';
import { renderPage } from '../../../base/html/document.js';
import { markup, type Markup } from '../../../base/html/html.js';
import { formatBytes, formatCount, formatLarge } from '../../../base/html/numbers.js';
import type { Explorer } from './explorer.js';
import type { PageData } from './page/data.js';
import type { ModelStructure } from './structure/model-structure.js';

/** Writes the page of an explorer. */
export function renderExplorer(
  { page: model, photos, noPhotos, photoNote, photoCode }: Explorer,
  own: Pick<PageData, 'key' | 'recorded' | 'picked'>,
): Promise<Uint8Array> {
  const data: PageData = { model, photos, noPhotos, photoNote, photoCode, ...own };
  return renderPage({
    kind: 'explore',
    title: shown(model.title),
    subtitle: subtitleOf(model),
    skip: { target: 'path', text: 'Skip to the model' },
    main: MAIN,
    data,
    isServed: own.key !== null,
  });
}

function subtitleOf({ nodes, weights, parameterTypes, sizeBytes, outputs }: ModelStructure): Markup {
  const parameters = weights.reduce((sum, [elements]) => sum + elements, 0);
  const types = parameterTypes.length > 0 ? `, ${parameterTypes.join(' and ')}` : '';
  const outs = outputs.length === 1 ? '1 output' : `${formatCount(outputs.length)} outputs`;
  return markup`${formatLarge(parameters)} parameters${types} · ${formatBytes(sizeBytes)} · ${formatCount(nodes.length)} nodes · ${outs}<span id="at"></span>`;
}

const MAIN = markup`<noscript><p class="note">This page needs its script, which this browser does not run.</p></noscript>
<details id="facts" class="facts"><summary>What the exporter did</summary><ul id="fact-list" class="muted"></ul></details>
<div class="desk">
<section class="path-side" aria-label="The model">
  <div class="tools line">
    <div class="find" role="search">
      <input id="find" type="search" role="combobox" aria-expanded="false" aria-controls="found" aria-autocomplete="list" autocomplete="off" spellcheck="false" placeholder="Find a name" aria-label="Find a name">
      <kbd aria-hidden="true">/</kbd>
      <ul id="found" role="listbox" aria-label="Names" class="raised" hidden></ul>
    </div>
    <div class="segments" role="group" aria-label="Colour by cost">
      <button type="button" data-cost="macs" aria-pressed="true">MACs</button>
      <button type="button" data-cost="parameters" aria-pressed="false">Weights</button>
      <button type="button" data-cost="bytes" aria-pressed="false">Memory</button>
      <button type="button" data-cost="milliseconds" aria-pressed="false">Time</button>
    </div>
    <div class="segments" role="group" aria-label="Open and close">
      <button type="button" data-fold="open">Open all</button>
      <button type="button" data-fold="close">Close all</button>
    </div>
    <label class="small line"><input type="checkbox" id="aside"> constants and sizes</label>
  </div>
  <div id="path" class="path raised" role="tree" tabindex="0" aria-label="Modules and nodes, in the order in which data passes them" aria-describedby="keys"></div>
  <p class="keys note" id="keys"><kbd>↑</kbd><kbd>↓</kbd> move <kbd>→</kbd><kbd>←</kbd> open, close <kbd>Space</kbd> pick <kbd>Enter</kbd> look <kbd>/</kbd> find</p>
</section>
<section class="node-side" aria-label="The chosen node"><div id="node" class="card raised"></div></section>
<section class="cut-side" aria-label="The cut"><div id="cut" class="card raised"></div></section>
<section class="see-side" aria-label="Photos"><div id="see" class="card raised"></div></section>
</div>
<p id="live" class="visually-hidden" aria-live="polite"></p>`;
