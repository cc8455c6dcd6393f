/** The parts that pages share, as markup. Names of classes are those of the pages' style sheet. */
import { shown } from '../printable.js';
import type { Fact } from './facts.js';
import { markup, type Markup } from './html.js';
import { formatCount } from './numbers.js';

type Body = string | Markup | null | readonly Markup[];

/** A chapter with its heading. */
export function renderSection(id: string, title: string | Markup, body: Body): Markup {
  return markup`<section id="${id}-section" aria-labelledby="${id}-title">
  <h2 id="${id}-title">${title}</h2>
  ${body}
</section>`;
}

/** The numbers at the top of a page; what is `bad` stands out. */
export function renderNumbers(facts: readonly Fact[]): Markup {
  return markup`<dl class="numbers grid">${renderFacts(facts)}</dl>`;
}

/** Names with their values, a line each. */
export function renderTable(facts: readonly Fact[]): Markup {
  return markup`<dl class="table">${renderFacts(facts)}</dl>`;
}

function renderFacts(facts: readonly Fact[]): Markup[] {
  return facts.map(
    ([name, text, mark]) =>
      markup`<div class="${mark ?? ''}"><dt><bdi>${shown(name)}</bdi></dt><dd><bdi>${shown(text)}</bdi></dd></div>`,
  );
}

/** Columns of values; the first value of a row is its name. It scrolls in its place where it is wide. */
export function renderColumns(
  caption: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): Markup {
  return renderWide(
    caption,
    markup`<table class="columns">
  <caption>${caption}</caption>
  <thead><tr>${head.map((name) => markup`<th scope="col">${name}</th>`)}</tr></thead>
  <tbody>${rows.map(([name, ...cells]) => markup`<tr><th scope="row"><bdi>${shown(name!)}</bdi></th>${cells.map((cell) => markup`<td>${cell}</td>`)}</tr>`)}</tbody>
</table>`,
  );
}

/** Lets a wide table scroll, by keyboard, too. */
export function renderWide(label: string, table: Markup): Markup {
  return markup`<div class="wide" role="region" aria-label="${label}" tabindex="0">${table}</div>`;
}

/** A chapter of what failed and why; null if nothing did. */
export function renderProblems(
  title: string,
  problems: readonly { readonly path: string | null; readonly message: string }[],
): Markup | null {
  if (problems.length === 0) return null;
  const items = problems.map(
    ({ path, message }) =>
      markup`<li><bdi>${path === null ? '(given as bytes)' : shown(path)}</bdi> <span class="note">${shown(message)}</span></li>`,
  );
  return renderSection('failures', title, markup`<ul>${items}</ul>`);
}

/** More classes make no matrix that fits a page. */
const MOST_CLASSES = 40;
/** Steps of colour in the matrix. */
const SHARES = 5;

/** A row per label and a column per prediction. A stronger colour is a larger share of the row. */
export function renderConfusion(
  classes: readonly string[],
  confusion: readonly (readonly number[])[],
): Markup {
  if (classes.length > MOST_CLASSES)
    return markup`<p class="note">The matrix of confusions is shown for up to ${MOST_CLASSES} classes.</p>`;
  const head = classes.map((label) => markup`<th scope="col"><span><bdi>${shown(label)}</bdi></span></th>`);
  const rows = confusion.map((counts, given) => {
    const total = Math.max(
      1,
      counts.reduce((sum, count) => sum + count, 0),
    );
    const cells = counts.map((count, predicted) => {
      // The page's policy allows no style attributes: five classes stand for the share.
      const share = Math.ceil((SHARES * count) / total);
      const kind = given === predicted ? 'right' : 'wrong';
      return count === 0
        ? markup`<td></td>`
        : markup`<td class="${kind} share-${share}">${formatCount(count)}</td>`;
    });
    return markup`<tr><th scope="row"><bdi>${shown(classes[given]!)}</bdi></th>${cells}</tr>`;
  });
  const caption = 'Confusions: the label of a row, the prediction of a column';
  return renderWide(
    caption,
    markup`<table class="confusion">
    <caption>${caption}</caption>
    <thead><tr><td></td>${head}</tr></thead>
    <tbody>${rows}</tbody>
  </table>`,
  );
}

/** A photo of a wrong or suspected class, as WebP in base64; `about` pairs elements for a class and for its score. */
export function renderPictured(picture: string | null, name: string, about: Markup): Markup {
  const image = picture
    ? markup`<img src="data:image/webp;base64,${picture}" alt="${name}">`
    : markup`<div></div>`;
  return markup`<figure class="suspect">
    ${image}
    <figcaption>${about}<bdi class="path muted">${name}</bdi></figcaption>
  </figure>`;
}
