/** The card of photos: which photo, how its features are shown, and two views side by side. */
import { printable } from '../../../base/printable.js';
import { acceptDrops } from '../../../html/browser/accept-drops.js';
import { make } from '../../../html/browser/elements.js';
import type { PageClass, PageData, PagePhoto } from './data.js';
import { formatShare } from './format.js';
import { isAttention, type Id, type ModelGraph } from './graph.js';
import type { Source } from './source.js';
import { makeView, MODES, type Mode, type View } from './views.js';

/** Shows what photos give at the chosen node. */
export class SeePanel {
  readonly #card: HTMLElement;
  readonly #graph: ModelGraph;
  readonly #source: Source;
  readonly #data: PageData;
  readonly #onGo: (name: string) => void;
  readonly #photos: PagePhoto[];
  #photo: PagePhoto | undefined;
  #id: Id | undefined;
  #mode: Mode = 'maps';
  #target = '';
  #softmax = '';
  #pinned: View | undefined;
  #said = '';
  #latest = 0;

  constructor(
    card: HTMLElement,
    graph: ModelGraph,
    source: Source,
    data: PageData,
    onGo: (name: string) => void,
  ) {
    this.#card = card;
    this.#graph = graph;
    this.#source = source;
    this.#data = data;
    this.#onGo = onGo;
    this.#photos = [...data.photos];
    this.#photo = this.#photos[0];
    if (source.isServed) acceptDrops(card, (files) => void this.#add(files));
  }

  /** Shows a node or a module. */
  show(id: Id | undefined): void {
    this.#id = id;
    void this.#draw();
  }

  focus(): void {
    this.#card.querySelector<HTMLElement>('button, input, select')?.focus();
  }

  async #draw(): Promise<void> {
    const ticket = ++this.#latest;
    const head = make(
      'div',
      'card-head',
      make('div', '', make('p', 'eyebrow', 'with a photo'), make('h2', 'card-name', 'What it sees')),
    );
    if (this.#data.noPhotos !== null) {
      this.#card.replaceChildren(head, make('p', 'note', `Photos cannot be fed: ${this.#data.noPhotos}.`));
      return;
    }
    const strip = this.#makeStrip();
    const said = make('p', 'note bad', this.#said);
    said.hidden = this.#said === '';
    const view = this.#view();
    const place = make('div', 'views');
    this.#card.replaceChildren(head, strip, said, ...this.#makeClasses(), ...this.#makeModes(view), place);
    if (!this.#photo) {
      const hint = this.#source.isServed
        ? 'Drop a photo here, or choose one: its feature maps appear for every node you choose.'
        : 'This page was written without a photo.';
      place.append(make('p', 'hint', hint), make('p', 'note', this.#data.photoNote));
      return;
    }
    if (!view) {
      place.append(this.#makeMissing());
      return;
    }
    place.append(make('p', 'note', 'Computing …'));
    const views = this.#pinned ? [this.#pinned, view] : [view];
    const figures = await Promise.all(views.map((one) => makeView(this.#source, one)));
    if (ticket !== this.#latest) return;
    place.classList.toggle('two', figures.length > 1);
    place.replaceChildren(...figures);
  }

  /** What to show; undefined where nothing can be. */
  #view(): View | undefined {
    const photo = this.#photo;
    if (!photo) return undefined;
    const softmaxes = this.#softmaxes();
    const request =
      this.#mode === 'attention'
        ? this.#softmaxOf(softmaxes)
        : this.#id === undefined
          ? undefined
          : this.#graph.requestOf(this.#id);
    if (request === undefined) return undefined;
    const name = this.#mode === 'attention' || this.#mode === 'heat' ? this.#mode : 'features';
    const fields = {
      node: request,
      photo: photo.id,
      ...(name === 'heat' && this.#target !== '' ? { class: this.#target } : {}),
    };
    return this.#source.has(name, fields)
      ? { mode: this.#mode, request, title: this.#viewTitle(request), photo, target: this.#target }
      : undefined;
  }

  #softmaxes(): readonly number[] {
    const { model, measure } = this.#graph;
    return model.nodes.flatMap(({ op, outputs }, i) => {
      const request = outputs[0]?.request ?? '';
      const isThere =
        this.#source.isServed ||
        this.#photos.some(({ id: photo }) => this.#source.has('attention', { node: request, photo }));
      return isThere && isAttention(op, measure?.dims[i]?.[0]) ? [i] : [];
    });
  }

  /** The softmax that was chosen, else the one in the chosen module, else the last one. */
  #softmaxOf(all: readonly number[]): string | undefined {
    const requests = all.map((node) => this.#graph.requestOf(node)!);
    if (requests.includes(this.#softmax)) return this.#softmax;
    const inside = this.#id === undefined ? new Set<number>() : new Set(this.#graph.nodesIn(this.#id));
    const found = all.findLast((node) => inside.has(node)) ?? all.at(-1);
    return found === undefined ? undefined : this.#graph.requestOf(found);
  }

  /** In a written page: the nodes that it holds. */
  #makeMissing(): HTMLElement {
    if (this.#id === undefined) return make('p', 'hint', 'Choose a module or a node.');
    if (this.#graph.requestOf(this.#id) === undefined)
      return make('p', 'note', 'This node has no value; choose a node in it.');
    if (this.#source.isServed) return make('p', 'note', 'There is nothing to show.');
    const held = Object.keys(this.#data.recorded).flatMap((question) => {
      const { pathname, searchParams } = new URL(question, 'page:/');
      return pathname.endsWith(this.#mode === 'heat' ? 'heat' : 'features') &&
        searchParams.get('photo') === this.#photo!.id
        ? [searchParams.get('node')!]
        : [];
    });
    const chips = held.map((name) => this.#makeButton('chip', name, () => this.#onGo(name)));
    return make(
      'div',
      'missing-node',
      make(
        'p',
        'note',
        chips.length > 0 ? 'This file holds the features of:' : 'This file holds no such features.',
      ),
      make('div', 'picks', ...chips),
    );
  }

  #makeStrip(): HTMLElement {
    const strip = make('div', 'strip');
    for (const photo of this.#photos) {
      const image = make('img', '');
      image.src = photo.picture;
      image.alt = photo.name;
      const button = make('button', 'thumb', image);
      button.type = 'button';
      button.title = printable(photo.name);
      button.setAttribute('aria-pressed', String(photo === this.#photo));
      button.addEventListener('click', () => {
        this.#photo = photo;
        void this.#draw();
      });
      strip.append(button);
    }
    if (this.#source.isServed) strip.append(this.#makeChooser());
    return strip;
  }

  #makeChooser(): HTMLElement {
    const field = make('input', 'visually-hidden');
    field.type = 'file';
    field.accept = 'image/*';
    field.multiple = true;
    field.id = 'photo';
    field.addEventListener('change', () => void this.#add([...(field.files ?? [])]));
    const label = make(
      'label',
      'quiet add',
      field,
      make('span', '', this.#photos.length === 0 ? 'Choose a photo' : 'Add'),
    );
    return label;
  }

  async #add(files: readonly File[]): Promise<void> {
    this.#said = '';
    for (const file of files) {
      // oxlint-disable-next-line no-await-in-loop -- photos keep their order
      const outcome = await this.#source.addPhoto(file);
      if ('problem' in outcome) this.#said = `${file.name}: ${outcome.problem}`;
      else {
        this.#photos.push(outcome.value);
        this.#photo = outcome.value;
      }
    }
    await this.#draw();
  }

  /** The top classes, filled in when they are known. */
  #makeClasses(): HTMLElement[] {
    const photo = this.#photo;
    if (!photo || !this.#source.has('classes', { photo: photo.id })) return [];
    const list = make('ol', 'classes');
    list.setAttribute('aria-label', 'Classes with the highest scores');
    void this.#fillClasses(list, photo.id).catch(() => list.remove());
    return [list];
  }

  async #fillClasses(list: HTMLElement, photo: string): Promise<void> {
    const outcome = await this.#source.ask<readonly PageClass[]>('classes', { photo });
    if ('problem' in outcome) return list.remove();
    for (const { index, label, probability } of outcome.value) {
      const bar = make('span', 'bar');
      bar.style.setProperty('--share', `${(100 * probability).toFixed(1)}%`);
      bar.style.setProperty('--heat', '55%');
      const name = make('bdi', '', label ?? `class ${index}`);
      list.append(make('li', '', name, make('span', 'amount', formatShare(probability)), bar));
    }
  }

  #makeModes(view: View | undefined): HTMLElement[] {
    if (!this.#photo) return [];
    const softmaxes = this.#softmaxes();
    const tabs = make('div', 'segments modes');
    tabs.setAttribute('role', 'group');
    tabs.setAttribute('aria-label', 'How to show it');
    for (const [mode, title] of Object.entries(MODES)) {
      if (mode === 'attention' && softmaxes.length === 0) continue;
      const tab = this.#makeButton('', title, () => {
        this.#mode = mode as Mode;
        void this.#draw();
      });
      tab.dataset['mode'] = mode;
      tab.setAttribute('aria-pressed', String(mode === this.#mode));
      tabs.append(tab);
    }
    const tools = make('div', 'tools', tabs);
    if (this.#mode === 'attention' && softmaxes.length > 1) tools.append(this.#makeLayers(softmaxes));
    if (this.#mode === 'heat' && this.#source.isServed) tools.append(this.#makeTarget());
    if (this.#pinned) tools.append(this.#makeButton('quiet', 'Unpin', () => this.#pin(undefined)));
    else if (view) tools.append(this.#makeButton('quiet', 'Pin to compare', () => this.#pin(view)));
    return [tools];
  }

  #pin(view: View | undefined): void {
    this.#pinned = view;
    void this.#draw();
  }

  #makeLayers(softmaxes: readonly number[]): HTMLElement {
    const select = make('select', '');
    select.setAttribute('aria-label', 'Layer of attention');
    const current = this.#softmaxOf(softmaxes);
    for (const node of softmaxes) {
      const request = this.#graph.requestOf(node)!;
      const option = make('option', '', this.#titleOf(node));
      option.value = request;
      option.selected = request === current;
      select.append(option);
    }
    select.addEventListener('change', () => {
      this.#softmax = select.value;
      void this.#draw();
    });
    return make('span', 'select', select);
  }

  #viewTitle(request: string): string {
    const node =
      this.#mode === 'attention'
        ? this.#softmaxes().find((one) => this.#graph.requestOf(one) === request)
        : undefined;
    return node === undefined ? request : this.#titleOf(node);
  }

  /** The last two parts of the module that a softmax is in. */
  #titleOf(node: number): string {
    const module = this.#graph.nameOf(this.#graph.parentOf(node)!) || this.#graph.nameOf(node);
    return module.split('.').slice(-2).join('.');
  }

  #makeTarget(): HTMLElement {
    const field = make('input', 'target');
    field.value = this.#target;
    field.placeholder = 'predicted class';
    field.setAttribute('aria-label', 'Class: its index or its label');
    field.addEventListener('change', () => {
      this.#target = field.value.trim();
      void this.#draw();
    });
    return field;
  }

  #makeButton(className: string, text: string, act: () => void): HTMLButtonElement {
    const button = make('button', className, make('bdi', '', text));
    button.type = 'button';
    button.addEventListener('click', act);
    return button;
  }
}
