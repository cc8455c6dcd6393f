/** The card of the cut: what was picked, what stays, and the code that does it. */
import { printable } from '../../../../base/printable.js';
import {
  byId,
  make,
  makeChip,
  makeChoice,
  makeCopyButton,
  makeFact,
  makeHead,
  press,
} from '../../../../base/html/browser/elements.js';
import { formatBytes, formatCount, formatLarge } from '../../../../base/html/numbers.js';
import { cutFile, LANGUAGES, writeCode, type Language } from './code.js';
import type { Kept } from './cut.js';
import { formatShare } from './format.js';
import { ROOT, type Id } from './graph.js';
import type { Page } from './source.js';

/** Shows the cut of some picks; remembers the language. */
export class CutPanel {
  readonly #card: HTMLElement;
  readonly #page: Page;
  readonly #onDrop: (id: Id) => void;
  #language: Language = 'typescript';
  #latest = 0;

  constructor(card: HTMLElement, page: Page, onDrop: (id: Id) => void) {
    this.#card = card;
    this.#page = page;
    this.#onDrop = onDrop;
  }

  /** @param kept - What the picks need. */
  show(picks: readonly Id[], kept: Kept): void {
    const ticket = ++this.#latest;
    const head = makeHead('the cut', 'What to return');
    const hint =
      'Pick modules or nodes to return: the model is cut down to what they need, and the code for it stands here.';
    if (picks.length === 0) return this.#card.replaceChildren(head, make('p', 'hint muted', hint));
    const names = picks.map((id) => this.#page.graph.requestOf(id)!);
    const file = makeFact('written file', '');
    const chips = picks.map((id, i) => {
      const traits = { 'aria-label': `Return ${names[i]!} no more` };
      const chip = makeChip(names[i]!, () => this.#onDrop(id), traits, make('span', 'muted', '×'));
      chip.classList.add('picked-chip');
      return chip;
    });
    this.#card.replaceChildren(
      head,
      make('div', 'line', chips),
      this.#makeFigures(kept, file),
      this.#makeCode(names, kept),
      ...this.#makeSave(names),
    );
    void this.#showBytes(names, file, ticket);
  }

  /** Asks how large the cut file is. */
  async #showBytes(names: readonly string[], file: HTMLElement, ticket: number): Promise<void> {
    const { source } = this.#page;
    const outcome = await source.cut(names);
    if (ticket !== this.#latest) return;
    if ('problem' in outcome) {
      if (source.isServed) this.#card.append(make('p', 'note bad', outcome.problem));
      else file.remove();
      return;
    }
    const { bytes, notes } = outcome.value;
    file.querySelector('dd')!.textContent = formatBytes(bytes);
    for (const note of notes) this.#card.append(make('p', 'note', note));
  }

  #makeFigures(kept: Kept, file: HTMLElement): HTMLElement {
    const { graph } = this.#page;
    const all = graph.model.nodes.length;
    const makePart = (name: string, part: number, whole: number): HTMLElement => {
      const share = whole === 0 ? 0 : part / whole;
      return makeFact(name, [`${formatLarge(part)} · ${formatShare(share)}`, makeBar(share)]);
    };
    const inputs = graph
      .inputsOf(kept.inputs)
      .map(({ tensor }) => tensor)
      .join(', ');
    const nodes = `${formatCount(kept.nodes.size)} of ${formatCount(all)}`;
    return make(
      'dl',
      'table',
      makeFact('nodes kept', [nodes, makeBar(kept.nodes.size / all)]),
      graph.model.inputs.length > 1 ? makeFact('inputs', inputs || 'none') : undefined,
      makePart('parameters kept', kept.elements, graph.costOf(ROOT, 'parameters')),
      graph.measure && makePart('multiply-accumulates', kept.macs, graph.costOf(ROOT, 'macs')),
      makeFact('weights', formatBytes(kept.weightBytes)),
      file,
    );
  }

  #makeCode(names: readonly string[], kept: Kept): HTMLElement {
    const code = make('code', '');
    const { graph, data } = this.#page;
    const cut = { path: graph.model.path, names, inputs: graph.inputsOf(kept.inputs) };
    const write = (language: Language): void => {
      this.#language = language;
      code.textContent = printable(writeCode(language, cut, data.photoCode));
      press('language', language, tabs);
    };
    const tabs = makeChoice('Language', 'language', LANGUAGES, this.#language, write);
    const onEnd = (isDone: boolean): void => {
      byId('live').textContent = isDone ? 'The code is copied.' : '';
      if (!isDone) getSelection()?.selectAllChildren(code);
    };
    const copy = makeCopyButton('Copy', 'Select it, and copy', () => code.textContent, onEnd);
    copy.id = 'copy';
    write(this.#language);
    return make(
      'div',
      'code-side',
      make('div', 'tools line', tabs, copy),
      make('pre', 'code', { tabIndex: 0 }, code),
    );
  }

  #makeSave(names: readonly string[]): HTMLElement[] {
    const { source, graph } = this.#page;
    if (!source.isServed) return [];
    const name = cutFile(graph.model.path, names);
    const field = make('input', '', { value: name, 'aria-label': 'Name of the file', spellcheck: false });
    const said = make('p', 'note saved', { role: 'status' });
    const submit = (event: Event): void => {
      event.preventDefault();
      said.textContent = 'Saving …';
      const tell = (text: string, isDone: boolean): void => {
        said.textContent = printable(text);
        said.classList.toggle('bad', !isDone);
      };
      void source.save(names, field.value).then((outcome) => {
        if ('problem' in outcome) tell(outcome.problem, false);
        else tell(`Saved: ${outcome.value.path} (${formatBytes(outcome.value.bytes)})`, true);
      });
    };
    const button = make('button', '', { type: 'submit' }, 'Save the cut');
    return [make('form', 'save tools line', { submit }, field, button), said];
  }
}

/** A bar of a share. */
export function makeBar(share: number): HTMLElement {
  return make('span', 'bar', { '--share': `${(100 * share).toFixed(1)}%` });
}
