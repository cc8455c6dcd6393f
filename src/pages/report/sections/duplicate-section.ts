/** Near-duplicates of the whole dataset, as text: the map shows those of its sample. */
import { shown } from '../../../base/printable.js';
import type { Duplicates } from '../../../features/dedupe/find-duplicates.js';
import { markup, type Markup } from '../../../html/html.js';
import { formatCount } from '../../../html/numbers.js';

/** Groups that are listed. */
const MOST_GROUPS = 50;
/** Copies of a group that are listed. */
const MOST_COPIES = 8;

/** The groups of an output; the largest come first. */
export function renderDuplicates({ key, cosine, groups, compared }: Duplicates): Markup {
  const copies = groups.reduce((sum, group) => sum + group.copies.length, 0);
  const largest = groups.toSorted((a, b) => b.copies.length - a.copies.length).slice(0, MOST_GROUPS);
  const more = groups.length - largest.length;
  const items = largest.map(({ best, copies: others }) => {
    const listed = others
      .slice(0, MOST_COPIES)
      .map(
        (copy) => markup`<li>${pathOf(copy.path)} <span class="note">${copy.cosine.toFixed(4)}</span></li>`,
      );
    const rest = others.length - listed.length;
    return markup`<details class="failures"><summary>${pathOf(best.path)} <span class="note">${formatCount(others.length)} ${others.length === 1 ? 'copy' : 'copies'}</span></summary><ul>${listed}${rest > 0 ? markup`<li class="note">${formatCount(rest)} more</li>` : null}</ul></details>`;
  });
  return markup`<h3>Among all images</h3><p class="lead"><bdi>${shown(key)}</bdi>: every pair of ${formatCount(compared)} images was compared. ${formatCount(groups.length)} ${groups.length === 1 ? 'group holds' : 'groups hold'} ${formatCount(copies)} ${copies === 1 ? 'copy' : 'copies'} with a cosine of ${String(cosine)} and more.</p>
  ${items}
  ${more > 0 ? markup`<p class="note">${formatCount(more)} more groups: “tapir dedupe --json” lists them.</p>` : null}`;
}

function pathOf(path: string | null): Markup {
  return path === null ? markup`<span class="note">given as bytes</span>` : markup`<bdi>${shown(path)}</bdi>`;
}
