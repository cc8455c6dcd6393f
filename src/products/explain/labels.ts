/** Classes by their labels. */
import type { ClassLabels } from '../../extract/class-labels.js';
import { describeNearest, nearestNames } from '../../base/nearest-names.js';
import { invalidOption } from '../../base/checks.js';
import type { AttributionTarget, IndexTarget } from './targets.js';

/** Most labels that a message lists when no label is near. */
const MOST_LISTED = 12;

/** The labels, if there are as many as classes; of labels that the caller gave, another number throws `OPTION_INVALID`. */
export function fitLabels(known: ClassLabels, classes: number, isGiven: boolean): ClassLabels {
  if ('problem' in known || known.labels.length === classes) return known;
  const { length } = known.labels;
  if (isGiven) throw invalidOption('labels', `a list of ${classes} texts, one per class`, `${length} texts`);
  return { problem: `its metadata has ${length} labels for ${classes} classes` };
}

/** Replaces labels by the indices of their classes. Throws `OPTION_INVALID` with the nearest labels. */
export function indexLabels(target: AttributionTarget, known: ClassLabels): IndexTarget {
  if (target === 'predicted') return target;
  if (typeof target === 'string') return classOfLabel(target, known);
  if (!Array.isArray(target)) return target as IndexTarget;
  return target.map((one: number | string) => (typeof one === 'string' ? classOfLabel(one, known) : one));
}

function classOfLabel(label: string, known: ClassLabels): number {
  if ('problem' in known)
    throw invalidOption(
      'target',
      `the index of a class: the labels of this model are unknown (${known.problem})`,
      label,
    );
  const found = known.labels.flatMap((other, index) => (other === label ? [index] : []));
  if (found.length === 1) return found[0]!;
  if (found.length > 1)
    throw invalidOption('target', `an index: classes ${found.join(' and ')} have one label`, label);
  const nearest = describeNearest(nearestNames(label, known.labels));
  const few = known.labels.length <= MOST_LISTED ? known.labels.map((name) => `"${name}"`) : [];
  const hint = nearest || (few.length > 0 ? `: ${few.join(', ')}` : '');
  throw invalidOption('target', `one of the ${known.labels.length} labels${hint}`, label);
}
