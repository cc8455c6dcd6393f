/** The choice of a value of a column: the map finds and gathers only images that have it, and the others step back. */
import { byId, make } from '../../../../base/html/browser/elements.js';
import { formatCount } from '../../../../base/html/numbers.js';
import { colourPoints } from './colouring.js';
import type { PageColumn, PageData } from './data.js';
import type { Points } from './points.js';

/** What a filter tells. */
export interface FilterEvents {
  /** Called with the points that have the value; undefined for all. */
  readonly onFilter: (kept: ReadonlySet<number> | undefined) => void;
  /** Called when the reader has chosen another value. */
  readonly onChange: () => void;
}

/** Shows the values of all columns of classes; keeps the one that was chosen, where there still is one. */
export function showFilter(data: PageData, points: Points, { onFilter, onChange }: FilterEvents): void {
  const select = byId('filter') as HTMLSelectElement;
  const before = select.value;
  const columns = [...data.columns, ...points.columns].filter(hasNames);
  const groups = columns.map((column) =>
    make(
      'optgroup',
      '',
      { label: column.name },
      column.names.map((name, i) => make('option', '', { value: JSON.stringify([column.name, i]) }, name)),
    ),
  );
  select.replaceChildren(make('option', '', { value: '' }, 'all images'), ...groups);
  select.value = before;
  if (select.selectedIndex === -1) select.value = '';
  const filter = (): void => {
    const kept = select.value === '' ? undefined : pointsOf(select.value);
    byId('filtered').textContent = kept
      ? `${formatCount(kept.size)} of ${formatCount(points.count)} images are shown.`
      : '';
    onFilter(kept);
  };
  const pointsOf = (value: string): ReadonlySet<number> => {
    const [name, group] = JSON.parse(value) as [string, number];
    const { groupOf } = colourPoints(
      data,
      points,
      columns.find((column) => column.name === name)!,
    );
    const kept = new Set<number>();
    groupOf.forEach((own, point) => own === group && kept.add(point));
    return kept;
  };
  select.onchange = () => {
    onChange();
    filter();
  };
  filter();
}

function hasNames(column: PageColumn): column is Extract<PageColumn, { readonly places: string }> {
  return 'names' in column;
}
