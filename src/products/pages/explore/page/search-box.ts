/** The field that finds names, with its list of hits (a combobox of WAI-ARIA). */
import { byId, make } from '../../../../base/html/browser/elements.js';
import { findNames, type Hit } from './search.js';

const MOST_HITS = 12;

/** Makes the field work; calls back with the hit that was chosen. */
export function startSearch(names: readonly Hit[], onHit: (hit: Hit) => void): void {
  const field = byId('find') as HTMLInputElement;
  const list = byId('found');
  let hits: Hit[] = [];
  let at = 0;
  const close = (): void => {
    list.hidden = true;
    field.setAttribute('aria-expanded', 'false');
    field.removeAttribute('aria-activedescendant');
  };
  const take = (hit: Hit | undefined): void => {
    if (!hit) return;
    close();
    onHit(hit);
  };
  const mark = (): void => {
    [...list.children].forEach((item, i) =>
      item.setAttribute('aria-selected', String(i === at && i in hits)),
    );
    if (hits[at]) {
      field.setAttribute('aria-activedescendant', `hit${at}`);
      list.children[at]?.scrollIntoView({ block: 'nearest' });
    }
  };
  const show = (): void => {
    hits = findNames(names, field.value, MOST_HITS);
    at = 0;
    const isAsked = field.value.trim() !== '';
    list.hidden = !isAsked;
    field.setAttribute('aria-expanded', String(isAsked));
    const items = hits.map((hit, i) => {
      const pointerdown = (event: Event): void => {
        event.preventDefault();
        take(hit);
      };
      return make(
        'li',
        hit.id === undefined ? 'hit refused' : 'hit',
        { id: `hit${i}`, role: 'option', pointerdown },
        make('bdi', '', hit.name),
        make('span', 'small clip', hit.about),
      );
    });
    const none = { role: 'option', 'aria-disabled': true };
    list.replaceChildren(
      ...(items.length > 0 ? items : [make('li', 'muted', none, 'No name is like this.')]),
    );
    mark();
  };
  field.addEventListener('input', show);
  field.addEventListener('focus', show);
  field.addEventListener('blur', close);
  field.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      at = (at + (event.key === 'ArrowDown' ? 1 : hits.length - 1)) % Math.max(1, hits.length);
      mark();
    } else if (event.key === 'Enter') take(hits[at]);
    else if (event.key === 'Escape') {
      field.value = '';
      close();
    }
  });
  document.addEventListener('keydown', (event) => {
    const isTyping = (event.target as Element).closest('input, textarea, select') !== null;
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
}
