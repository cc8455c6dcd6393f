/** The card of the cut: what was picked, what stays, and the code that does it. */
import { printable } from '../../../base/printable.js';
import { byId, make } from '../../../html/browser/elements.js';
import { formatBytes, formatCount, formatLarge } from '../../../html/numbers.js';
import { cutFile, LANGUAGES, writeCode, type Language } from './code.js';
import { keepFor } from './cut.js';
import type { PageCut, PhotoCode } from './data.js';
import { formatShare } from './format.js';
import { ROOT, type Id, type ModelGraph } from './graph.js';
import type { Source } from './source.js';

/** Shows the cut of some picks; remembers the language. */
export class CutPanel {
  readonly #card: HTMLElement;
  readonly #graph: ModelGraph;
  readonly #source: Source;
  readonly #photoCode: PhotoCode;
  readonly #onDrop: (id: Id) => void;
  #language: Language = 'typescript';
  #latest = 0;

  constructor(
    card: HTMLElement,
    graph: ModelGraph,
    source: Source,
    photoCode: PhotoCode,
    onDrop: (id: Id) => void,
  ) {
    this.#photoCode = photoCode;
    this.#card = card;
    this.#graph = graph;
    this.#source = source;
    this.#onDrop = onDrop;
  }

  show(picks: readonly Id[]): void {
    const ticket = ++this.#latest;
    const head = make(
      'div',
      'card-head',
      make('div', '', make('p', 'eyebrow', 'the cut'), make('h2', 'card-name', 'What to return')),
    );
    if (picks.length === 0) {
      const hint = make(
        'p',
        'hint',
        'Pick modules or nodes to return: the model is cut down to what they need, and the code for it stands here.',
      );
      this.#card.replaceChildren(head, hint);
      return;
    }
    const names = picks.map((id) => this.#graph.requestOf(id)!);
    const bytes = make('dd', '', '');
    this.#card.replaceChildren(
      head,
      this.#makePicks(picks, names),
      this.#makeFigures(picks, bytes),
      this.#makeCode(names),
      ...this.#makeSave(names),
    );
    void this.#showBytes(names, bytes, ticket).catch((error: unknown) =>
      this.#card.append(make('p', 'note bad', String(error))),
    );
  }

  /** Asks how large the cut file is. */
  async #showBytes(names: readonly string[], bytes: HTMLElement, ticket: number): Promise<void> {
    const outcome = await this.#source.cut(names);
    if (ticket !== this.#latest) return;
    if ('problem' in outcome) {
      if (this.#source.isServed) this.#card.append(make('p', 'note bad', outcome.problem));
      else bytes.closest('div')!.remove();
      return;
    }
    const cut = outcome.value as PageCut;
    bytes.textContent = formatBytes(cut.bytes);
    for (const note of cut.notes) this.#card.append(make('p', 'note', note));
  }

  #makePicks(picks: readonly Id[], names: readonly string[]): HTMLElement {
    const chips = picks.map((id, i) => {
      const button = make(
        'button',
        'chip picked-chip',
        make('bdi', '', names[i]!),
        make('span', 'cross', '×'),
      );
      button.type = 'button';
      button.setAttribute('aria-label', `Return ${names[i]!} no more`);
      button.addEventListener('click', () => this.#onDrop(id));
      return button;
    });
    return make('div', 'picks', ...chips);
  }

  #makeFigures(picks: readonly Id[], bytes: HTMLElement): HTMLElement {
    const graph = this.#graph;
    const wanted = picks.map((id) => graph.valueOf(id)![0]);
    const kept = keepFor(graph.model, wanted, graph.measure);
    const all = graph.model.nodes.length;
    const [macs, parameters] = [graph.costOf(ROOT, 'macs'), graph.costOf(ROOT, 'parameters')];
    const table = make('dl', 'table');
    const add = (name: string, share: number | undefined, value: HTMLElement): void => {
      if (share !== undefined) {
        const bar = make('span', 'bar');
        bar.style.setProperty('--share', `${(100 * share).toFixed(1)}%`);
        bar.style.setProperty('--heat', '55%');
        value.append(bar);
      }
      table.append(make('div', '', make('dt', '', name), value));
    };
    const part = (a: number, b: number): number => (b === 0 ? 0 : a / b);
    add(
      'nodes kept',
      part(kept.nodes.size, all),
      make('dd', '', `${formatCount(kept.nodes.size)} of ${formatCount(all)}`),
    );
    add(
      'parameters kept',
      part(kept.elements, parameters),
      make('dd', '', `${formatLarge(kept.elements)} · ${formatShare(part(kept.elements, parameters))}`),
    );
    if (graph.measure)
      add(
        'multiply-accumulates',
        part(kept.macs, macs),
        make('dd', '', `${formatLarge(kept.macs)} · ${formatShare(part(kept.macs, macs))}`),
      );
    add('weights', undefined, make('dd', '', formatBytes(kept.weightBytes)));
    add('written file', undefined, bytes);
    return table;
  }

  #makeCode(names: readonly string[]): HTMLElement {
    const code = make('code', '', '');
    const block = make('pre', 'code', code);
    block.tabIndex = 0;
    const tabs = make('div', 'segments');
    tabs.setAttribute('role', 'group');
    tabs.setAttribute('aria-label', 'Language');
    const write = (): void => {
      code.textContent = printable(writeCode(this.#language, this.#graph.model.path, names, this.#photoCode));
      for (const tab of tabs.querySelectorAll('button'))
        tab.setAttribute('aria-pressed', String(tab.dataset['language'] === this.#language));
    };
    for (const [language, title] of Object.entries(LANGUAGES)) {
      const tab = make('button', '', title);
      tab.type = 'button';
      tab.dataset['language'] = language;
      tab.addEventListener('click', () => {
        this.#language = language as Language;
        write();
      });
      tabs.append(tab);
    }
    const copy = make('button', 'quiet', 'Copy');
    copy.type = 'button';
    copy.id = 'copy';
    copy.addEventListener('click', () => {
      const tell = (isDone: boolean): void => {
        copy.textContent = isDone ? 'Copied' : 'Select it, and copy';
        byId('live').textContent = isDone ? 'The code is copied.' : '';
        if (!isDone) getSelection()?.selectAllChildren(code);
        setTimeout(() => (copy.textContent = 'Copy'), 1600);
      };
      void copyText(code.textContent)
        .then(tell)
        .catch(() => tell(false));
    });
    write();
    return make('div', 'code-side', make('div', 'tools', tabs, copy), block);
  }

  #makeSave(names: readonly string[]): HTMLElement[] {
    if (!this.#source.isServed) return [];
    const field = make('input', 'file');
    field.value = cutFile(this.#graph.model.path, names);
    field.setAttribute('aria-label', 'Name of the file');
    field.spellcheck = false;
    const button = make('button', 'quiet', 'Save the cut');
    button.type = 'submit';
    const said = make('p', 'note saved', '');
    said.setAttribute('role', 'status');
    const form = make('form', 'save', field, button);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      said.textContent = 'Saving …';
      const tell = (text: string, isDone: boolean): void => {
        said.textContent = printable(text);
        said.classList.toggle('bad', !isDone);
      };
      void this.#source
        .save(names, field.value)
        .then((outcome) => {
          if ('problem' in outcome) tell(outcome.problem, false);
          else tell(`Saved: ${outcome.value.path} (${formatBytes(outcome.value.bytes)})`, true);
        })
        .catch((error: unknown) => tell(String(error), false));
    });
    return [form, said];
  }
}

/** Copies a text; false where the browser does not allow it. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
