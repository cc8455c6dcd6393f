/** The choice of what the map is coloured by, and its legend, whose entries fade all others. */
import { byId, make, makeChip } from '../../../../base/html/browser/elements.js';
import { formatCount } from '../../../../base/html/numbers.js';
import { colourPoints, type Colouring } from './colouring.js';
import type { PageColumn, PageData } from './data.js';
import type { Points } from './points.js';

/** What a legend tells. */
export interface LegendEvents {
  readonly onColour: (colouring: Colouring | undefined) => void;
  /** Called with the group that is isolated; undefined for none. */
  readonly onIsolate: (group: number | undefined) => void;
}

/** Shows the columns of an output, and the chosen one; by default, the one before, where the output has it. */
export function showLegend(
  data: PageData,
  points: Points,
  { onColour, onIsolate }: LegendEvents,
  chosen?: PageColumn,
): void {
  const columns = [...data.columns, ...points.columns];
  const select = byId('colour-by') as HTMLSelectElement;
  const before = select.value;
  select.replaceChildren(...columns.map(({ name }, i) => make('option', '', { value: String(i) }, name)));
  select.value = before === '' || Number(before) >= columns.length ? '0' : before;
  if (chosen) select.value = String(columns.indexOf(chosen));
  const show = (): void => {
    const column = columns[Number(select.value)];
    const colouring = column && colourPoints(data, points, column);
    onIsolate(undefined);
    onColour(colouring);
    byId('legend').replaceChildren(...(colouring ? makeEntries(colouring, onIsolate) : []));
  };
  select.onchange = show;
  show();
}

function makeEntries({ groups, isNumber }: Colouring, onIsolate: LegendEvents['onIsolate']): HTMLElement[] {
  let isolated: number | undefined;
  const buttons = groups.map(({ name, count }, group) => {
    const click = (): void => {
      isolated = isolated === group ? undefined : group;
      buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(i === isolated)));
      onIsolate(isolated);
    };
    const colour = isNumber ? `var(--step-${group})` : `var(--folder-${group})`;
    const traits = { 'aria-pressed': false, '--swatch': colour };
    if (!isNumber) return makeChip(name, click, traits, make('span', 'muted', formatCount(count)));
    const label = `${name}: ${formatCount(count)} images`;
    return make('button', 'step', { ...traits, title: label, 'aria-label': label, click });
  });
  if (!isNumber) return buttons;
  const ends = [groups[0]!.name, groups.findLast(({ name }) => name !== 'not known')!.name];
  const [low, high] = [ends[0]!.split(' to ')[0]!, ends[1]!.split(' to ')[1]!];
  return [make('span', 'small', low), make('span', 'segments', buttons), make('span', 'small', high)];
}
