/** Starts the page: connects the picture of the model, the search, and the three cards. */
import { printable } from '../../../../base/printable.js';
import {
  byId,
  make,
  makeChip,
  onPress,
  press,
  readPageData,
} from '../../../../base/html/browser/elements.js';
import { startTheme } from '../../../../base/html/browser/theme.js';
import { CutPanel } from './cut-panel.js';
import type { PageData } from './data.js';
import type { ModelMeasure } from '../structure/model-structure.js';
import { ModelGraph, ROOT, type Id, type Metric } from './graph.js';
import { keepFor } from './cut.js';
import { showNode, showRefusal } from './node-panel.js';
import { PathView } from './path-view.js';
import { mostCostly, openAtFirst } from './rows.js';
import { listNames, type Hit } from './search.js';
import { startSearch } from './search-box.js';
import { SeePanel } from './see-panel.js';
import { sourceOf, type Page } from './source.js';

/** Rows that are open at first. */
const FIRST_ROWS = 24;
/** Pixels from which the facts stand open. */
const WIDE = 1820;
/** Pixels below which the path begins at its top. */
const SMALL = 640;
/** The question for times. */
const TIMES = 'measure?times=1';

function start(): void {
  const data = readPageData<PageData>();
  const source = sourceOf(data);
  const graph = new ModelGraph(data.model);
  const page = { graph, source, data };
  const names = listNames(graph);
  const picks: Id[] = [];
  const isPicked = (id: Id): boolean => picks.includes(id);

  const showPicks = (): void => {
    const sources = picks.map((id) => graph.valueOf(id)![0]);
    const kept = keepFor(data.model, sources, graph.measure);
    view.showCut(new Set(picks), picks.length === 0 ? undefined : new Set([...kept.nodes, ...kept.inputs]));
    cut.show(picks, kept);
    showNode(byId('node'), graph, view.chosen, actions);
  };
  const pick = (id: Id): void => {
    if (graph.requestOf(id) === undefined) return;
    const at = picks.indexOf(id);
    if (at < 0) picks.push(id);
    else picks.splice(at, 1);
    byId('live').textContent = printable(
      `${graph.nameOf(id)} is ${at < 0 ? 'picked' : 'not picked any more'}.`,
    );
    showPicks();
  };
  const actions = { onPick: pick, onGo: (id: Id) => view.choose(id), isPicked, source };
  const goTo = (name: string): void => {
    const hit = names.find((one) => one.name === name);
    if (hit) find(hit);
  };
  const find = ({ id, name, about }: Hit): void => {
    if (id === undefined) {
      const instead = data.model.refusals.find((refusal) => refusal.name === name)?.instead;
      showRefusal(byId('node'), name, about, instead ? makeChip(instead, () => goTo(instead)) : undefined);
      byId('live').textContent = printable(`${name} is refused: ${about}`);
      return;
    }
    view.choose(id);
    view.focus();
  };

  const cut = new CutPanel(byId('cut'), page, pick);
  const see = new SeePanel(byId('see'), page, goTo);
  const view = new PathView(graph, byId('path'), openAtFirst(graph, FIRST_ROWS), {
    onChoose: (id) => {
      showNode(byId('node'), graph, id, actions);
      see.show(id);
    },
    onPick: pick,
    onLook: () => see.focus(),
  });

  for (const card of ['node', 'see', 'cut'])
    byId(card).addEventListener('keydown', ({ key, target }) => {
      if (key === 'Escape' && !(target as Element).closest('input, select')) view.focus();
    });
  startFacts(data.model.facts);
  startSearch(names, find);
  startControls(view, page, showPicks);
  picks.push(...new Set(data.picked));
  showPicks();
  see.show(undefined);
  if (picks.length > 0) view.choose(picks.at(-1)!);
  startTheme(() => undefined);
  byId('at').textContent = ' · measuring …';
  void measure(page, false)
    .then(() => {
      const hasWork = !graph.measure || graph.costOf(ROOT, 'macs') > 0;
      if (!hasWork) showCost(view, 'bytes');
      if (view.chosen === undefined) {
        view.chooseOpen(mostCostly(graph));
        // On a small screen the input is where a reader begins.
        if (innerWidth < SMALL) byId('path').scrollTop = 0;
      }
      showPicks();
      see.show(view.chosen);
    })
    .catch((error: unknown) => tellUnmeasured(false, String(error)));
  document.documentElement.dataset['ready'] = 'true';
}

/** The facts stand open where there is room. */
function startFacts(facts: readonly string[]): void {
  (byId('facts') as HTMLDetailsElement).open = innerWidth >= WIDE;
  byId('fact-list').replaceChildren(...facts.map((fact) => make('li', '', make('bdi', '', fact))));
}

function startControls(view: PathView, page: Page, onMeasured: () => void): void {
  const times = document.querySelector<HTMLButtonElement>('[data-cost=milliseconds]')!;
  onPress('cost', (value) => {
    const metric = value as Metric;
    showCost(view, metric);
    if (metric !== 'milliseconds' || page.graph.measure?.milliseconds || times.ariaBusy === 'true') return;
    byId('live').textContent = 'Timing every node.';
    times.setAttribute('aria-busy', 'true');
    times.textContent = 'Timing …';
    void measure(page, true)
      .then(onMeasured)
      .catch((error: unknown) => tellUnmeasured(true, String(error)))
      .finally(() => {
        times.removeAttribute('aria-busy');
        times.textContent = 'Time';
      });
  });
  if (!page.source.has(TIMES)) {
    times.disabled = true;
    times.title = 'A served page measures it; a file has it if it was written with --time.';
  }
  onPress('fold', (value) => view.foldAll(value === 'open'));
}

function showCost(view: PathView, metric: Metric): void {
  press('cost', metric);
  view.showCost(metric);
}

/** Asks for sizes and costs, and shows at which sizes they were measured. */
async function measure({ source, graph }: Page, isTimed: boolean): Promise<void> {
  const outcome = await source.ask<ModelMeasure>(isTimed ? TIMES : 'measure');
  if ('problem' in outcome) return tellUnmeasured(isTimed, outcome.problem);
  graph.setMeasure(outcome.value);
  const inputs = graph.model.inputs.flatMap(({ tensor }, i) => {
    const dims = outcome.value.inputs[i];
    return dims ? [`${tensor} [${dims.join(', ')}]`] : [];
  });
  byId('at').textContent = printable(` · measured at ${inputs.join(', ')}`);
  document.documentElement.dataset['measured'] = isTimed ? 'times' : 'sizes';
}

function tellUnmeasured(isTimed: boolean, problem: string): void {
  byId('at').textContent = printable(` · ${isTimed ? 'not timed' : 'not measured'}: ${problem}`);
}

start();
