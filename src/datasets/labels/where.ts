/** The rows that an option leaves for a search, a probe or a comparison: those of one label. */
import type { Dataset } from '../files/dataset.js';
import { invalidOption } from '../../base/checks.js';
import { optional } from '../../base/options.js';
import { checkText } from '../../base/checks.js';
import { type Field } from '../../base/options.js';
import { RowSet } from '../../base/row-set.js';
import { isLabelSource, openLabels } from './labels.js';
import { readLiveRows } from './live-rows.js';

/** A source of labels, `=`, and a label. {@link readRowsWhere} checks it. */
export const WHERE: Field<string | undefined> = optional(
  checkText,
  'only images of this label: column:NAME=VALUE, by-folder=NAME, by-last-folder=NAME',
);

/** Labels that the error for a wrong one names. */
const LABELS_NAMED = 10;

/**
 * Reads the rows that belong to an input and have a label; without `where`, all that belong to one.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for what names no label of the dataset; those of {@link readLabels}.
 */
export async function readRowsWhere(dataset: Dataset, where: string | undefined): Promise<RowSet> {
  if (where === undefined) return readLiveRows(dataset);
  const split = where.indexOf('=');
  const [source, wanted] = [where.slice(0, Math.max(0, split)), where.slice(split + 1)];
  if (!isLabelSource(source)) {
    const example = `column:${source || 'label'}=${split < 0 ? 'cat' : wanted}`;
    const expected = `column:NAME=VALUE, by-folder=NAME, by-last-folder=NAME or TABLE.csv=LABEL, such as ${example}`;
    throw invalidOption('where', expected, where);
  }
  const { inputs } = await openLabels(dataset, source, 'where');
  const [live, others] = [new RowSet(), new Set<string>()];
  let isFound = false;
  for await (const group of inputs)
    for (const { row, label } of group) {
      if (row === null || label === null) continue;
      if (label !== wanted) {
        if (others.size < LABELS_NAMED) others.add(label);
        continue;
      }
      live.add(row);
      isFound = true;
    }
  if (isFound) return live;
  const named = [...others].map((label) => JSON.stringify(label)).join(', ');
  throw invalidOption('where', `a label that an image has (${named || 'no image has one'})`, where);
}
