/** The card of the cut: what was picked, what stays, and the code that does it. */
import { printable } from '../../../base/printable.js';
import { byId, make, makeChip, makeChoice, makeHead, press } from '../../../html/browser/elements.js';
import { formatBytes, formatCount, formatLarge } from '../../../html/numbers.js';
import { cutFile, LANGUAGES, writeCode, type Language } from './code.js';
import type { Kept } from './cut.js';
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

  /** @param kept - What the picks need. */
  show(picks: readonly Id[], kept: Kept): void {
    const ticket = ++this.#latest;
    const head = makeHead('the cut', 'What to return');
    const hint =
      'Pick modules or nodes to return: the model is cut down to what they need, and the code for it stands here.';
    if (picks.length === 0) return this.#card.replaceChildren(head, make('p', 'hint muted', hint));
    const names = picks.map((id) => this.#graph.requestOf(id)!);
    const bytes = make('dd', '');
    const chips = picks.map((id, i) => {
      const traits = { 'aria-label': `Return ${names[i]!} no more` };
      const chip = makeChip(names[i]!, () => this.#onDrop(id), traits, make('span', 'muted', '×'));
      chip.classList.add('picked-chip');
      return chip;
    });
    this.#card.replaceChildren(
      head,
      make('div', 'line', chips),
      this.#makeFigures(kept, bytes),
      this.#makeCode(names, kept),
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

  #makeFigures(kept: Kept, bytes: HTMLElement): HTMLElement {
    const graph = this.#graph;
    const all = graph.model.nodes.length;
    const rowOf = (name: string, value: Node | string, share?: number): HTMLElement =>
      make(
        'div',
        '',
        make('dt', '', name),
        value instanceof Node
          ? value
          : make('dd', '', value, share === undefined ? undefined : makeBar(share)),
      );
    const rowOfPart = (name: string, part: number, whole: number): HTMLElement => {
      const share = whole === 0 ? 0 : part / whole;
      return rowOf(name, `${formatLarge(part)} · ${formatShare(share)}`, share);
    };
    const inputs = graph
      .inputsOf(kept.inputs)
      .map(({ tensor }) => tensor)
      .join(', ');
    const nodes = `${formatCount(kept.nodes.size)} of ${formatCount(all)}`;
    return make(
      'dl',
      'table',
      rowOf('nodes kept', nodes, kept.nodes.size / all),
      graph.model.inputs.length > 1 ? rowOf('inputs', inputs || 'none') : undefined,
      rowOfPart('parameters kept', kept.elements, graph.costOf(ROOT, 'parameters')),
      graph.measure && rowOfPart('multiply-accumulates', kept.macs, graph.costOf(ROOT, 'macs')),
      rowOf('weights', formatBytes(kept.weightBytes)),
      rowOf('written file', bytes),
    );
  }

  #makeCode(names: readonly string[], kept: Kept): HTMLElement {
    const code = make('code', '');
    const { path } = this.#graph.model;
    const cut = { path, names, inputs: this.#graph.inputsOf(kept.inputs) };
    const write = (language: Language): void => {
      this.#language = language;
      code.textContent = printable(writeCode(language, cut, this.#photoCode));
      press('language', language, tabs);
    };
    const tabs = makeChoice('Language', 'language', LANGUAGES, this.#language, write);
    const tell = (isDone: boolean): void => {
      copy.textContent = isDone ? 'Copied' : 'Select it, and copy';
      byId('live').textContent = isDone ? 'The code is copied.' : '';
      if (!isDone) getSelection()?.selectAllChildren(code);
      setTimeout(() => (copy.textContent = 'Copy'), 1600);
    };
    const click = (): void =>
      void navigator.clipboard.writeText(code.textContent).then(
        () => tell(true),
        () => tell(false),
      );
    const copy = make('button', '', { id: 'copy', click }, 'Copy');
    write(this.#language);
    return make(
      'div',
      'code-side',
      make('div', 'tools line', tabs, copy),
      make('pre', 'code', { tabIndex: 0 }, code),
    );
  }

  #makeSave(names: readonly string[]): HTMLElement[] {
    if (!this.#source.isServed) return [];
    const name = cutFile(this.#graph.model.path, names);
    const field = make('input', '', { value: name, 'aria-label': 'Name of the file', spellcheck: false });
    const said = make('p', 'note saved', { role: 'status' });
    const submit = (event: Event): void => {
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
    };
    const button = make('button', '', { type: 'submit' }, 'Save the cut');
    return [make('form', 'save tools line', { submit }, field, button), said];
  }
}

/** A bar of a share. */
export function makeBar(share: number): HTMLElement {
  return make('span', 'bar', { '--share': `${(100 * share).toFixed(1)}%` });
}
