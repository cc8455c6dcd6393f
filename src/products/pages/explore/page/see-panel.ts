/** The card of photos: which photo, how its features are shown, and two views side by side. */
import { acceptDrops } from '../../../../base/html/browser/accept-drops.js';
import { make, makeChip, makeChoice, makeHead } from '../../../../base/html/browser/elements.js';
import { makeBar } from './cut-panel.js';
import { keepFor } from './cut.js';
import type { PageClass, PagePhoto } from './data.js';
import { formatShare } from './format.js';
import type { Id } from './graph.js';
import { writeQuestion, type Page } from './source.js';
import { makeView, MODES, note, questionOf, type Mode, type View } from './views.js';

/** Shows what photos give at the chosen node. */
export class SeePanel {
  readonly #card: HTMLElement;
  readonly #page: Page;
  readonly #onGo: (name: string) => void;
  readonly #photos: PagePhoto[];
  #photo: PagePhoto | undefined;
  #id: Id | undefined;
  #mode: Mode = 'maps';
  #target = '';
  #softmax: number | undefined;
  #pinned: View | undefined;
  #said = '';
  #latest = 0;

  constructor(card: HTMLElement, page: Page, onGo: (name: string) => void) {
    this.#card = card;
    this.#page = page;
    this.#onGo = onGo;
    this.#photos = [...page.data.photos];
    this.#photo = this.#photos[0];
    if (page.source.isServed) acceptDrops(card, (files) => void this.#add(files));
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
    const head = makeHead('with a photo', 'What it sees');
    const { noPhotos } = this.#page.data;
    if (noPhotos !== null)
      return this.#card.replaceChildren(head, note(`Photos cannot be fed: ${noPhotos}.`));
    const view = this.#view();
    const said = make('p', 'note bad', { hidden: this.#said === '' }, this.#said);
    const place = make('div', 'views');
    const parts = [
      this.#makeStrip(),
      this.#makePlaces(),
      said,
      this.#makeClasses(),
      this.#makeModes(view),
      place,
    ];
    this.#card.replaceChildren(head, ...parts.filter((part) => part !== undefined));
    if (!view) return place.replaceChildren(...this.#makeMissing());
    place.append(note('Computing …'));
    const views = this.#pinned ? [this.#pinned, view] : [view];
    const figures = await Promise.all(views.map((one) => makeView(this.#page.source, one)));
    if (ticket !== this.#latest) return;
    place.classList.toggle('two', figures.length > 1);
    place.replaceChildren(...figures);
  }

  /** What to show; undefined where nothing can be. */
  #view(): View | undefined {
    const [photo, mode, target] = [this.#photo, this.#mode, this.#target];
    if (!photo) return undefined;
    const node = mode === 'attention' ? this.#chosenSoftmax(this.#softmaxes()) : this.#id;
    const request = node === undefined ? undefined : this.#page.graph.requestOf(node);
    if (request === undefined || this.#lacking(node!).length > 0) return undefined;
    const title = mode === 'attention' ? this.#titleOf(node!) : request;
    const view = { mode, request, title, photo, target };
    return this.#page.source.has(questionOf(view)) ? view : undefined;
  }

  /** The inputs besides the photo that a node or a module needs. */
  #lacking(id: Id): string[] {
    const { graph, data } = this.#page;
    const [source] = graph.valueOf(id) ?? [];
    const { inputs } = keepFor(graph.model, source === undefined ? [] : [source], undefined);
    const names = graph.inputsOf(inputs).map(({ tensor }) => tensor);
    return names.filter((name) => name !== data.photoCode.input);
  }

  #softmaxes(): readonly number[] {
    const { graph, source, data } = this.#page;
    return graph.attentionOf(data.photoCode.input).filter((id) => {
      const node = graph.requestOf(id) ?? '';
      return this.#photos.some(({ id: photo }) => source.has(writeQuestion('attention', { node, photo })));
    });
  }

  /** An operator that computes attention as a whole, and gives none of its weights. */
  #fused(): string | undefined {
    return this.#page.graph.model.nodes.find(({ op }) => /(?:^|\.)\w*Attention$/.test(op))?.op;
  }

  /** The softmax that was chosen, else the one in the chosen module, else the last one. */
  #chosenSoftmax(all: readonly number[]): number | undefined {
    if (this.#softmax !== undefined && all.includes(this.#softmax)) return this.#softmax;
    const inside = new Set(this.#id === undefined ? [] : this.#page.graph.nodesIn(this.#id));
    return all.findLast((node) => inside.has(node)) ?? all.at(-1);
  }

  /** Why there is nothing to show; in a written page, the nodes that it holds. */
  #makeMissing(): HTMLElement[] {
    const { graph, data, source } = this.#page;
    if (!this.#photo) {
      const hint = source.isServed
        ? 'Drop a photo here, or choose one: its feature maps appear for every node you choose.'
        : 'This page was written without a photo.';
      return [make('p', 'hint muted', hint), note(data.photoNote)];
    }
    const fused = this.#mode === 'attention' && this.#softmaxes().length === 0 ? this.#fused() : undefined;
    if (fused !== undefined)
      return [
        note(
          `There are no maps of attention: the file computes it in one operator, ${fused}, which gives its result and not its weights. An export without this fusion has them (Hugging Face: attn_implementation="eager").`,
        ),
      ];
    if (this.#id === undefined) return [make('p', 'hint muted', 'Choose a module or a node.')];
    if (graph.requestOf(this.#id) === undefined)
      return [note('This node has no value; choose a node in it.')];
    const lacking = this.#lacking(this.#id);
    if (lacking.length > 0)
      return [
        note(
          `It needs ${lacking.map((name) => `“${name}”`).join(', ')}, and a photo feeds “${data.photoCode.input}” only.`,
        ),
      ];
    if (source.isServed) return [note('There is nothing to show.')];
    const held = Object.keys(data.recorded).flatMap((question) => {
      const { pathname, searchParams } = new URL(question, 'page:/');
      return pathname.endsWith(this.#mode === 'heat' ? 'heat' : 'features') &&
        searchParams.get('photo') === this.#photo!.id
        ? [searchParams.get('node')!]
        : [];
    });
    const chips = held.map((name) => makeChip(name, () => this.#onGo(name)));
    const text =
      held.length > 0
        ? 'This file holds the features of:'
        : 'This file holds no such features: --return adds them.';
    return [note(text), make('div', 'missing-node line', chips)];
  }

  /** Remembers a choice, and shows what it gives. */
  #choose(change: () => void): void {
    change();
    void this.#draw();
  }

  #makeStrip(): HTMLElement {
    const thumbs = this.#photos.map((photo) =>
      make(
        'button',
        'thumb',
        {
          title: photo.name,
          'aria-pressed': photo === this.#photo,
          click: () => this.#choose(() => (this.#photo = photo)),
        },
        make('img', '', { src: photo.picture, alt: photo.name }),
      ),
    );
    const field = make('input', '', {
      type: 'file',
      accept: 'image/*',
      multiple: true,
      id: 'photo',
      hidden: true,
    });
    field.addEventListener('change', () => void this.#add([...(field.files ?? [])]));
    const text = thumbs.length === 0 ? 'Choose a photo' : 'Add';
    const chooser = this.#page.source.isServed
      ? [field, make('button', '', { click: () => field.click() }, text)]
      : [];
    return make('div', 'strip line', thumbs, chooser);
  }

  /** The picture that the chosen tile is of, with a button on the place of each of its tiles. */
  #makePlaces(): HTMLElement | undefined {
    const whole = this.#photo?.place?.picture;
    if (whole === undefined) return undefined;
    const places = this.#photos.flatMap((photo) => {
      const { place, name } = photo;
      if (place?.picture !== whole) return [];
      const share = (part: number): string => `${part * 100}%`;
      return make('button', 'place', {
        title: name,
        'aria-label': name,
        'aria-pressed': photo === this.#photo,
        '--left': share(place.left),
        '--top': share(place.top),
        '--width': share(place.width),
        '--height': share(place.height),
        click: () => this.#choose(() => (this.#photo = photo)),
      });
    });
    return make('div', 'whole', make('img', '', { src: whole, alt: 'The whole picture' }), places);
  }

  async #add(files: readonly File[]): Promise<void> {
    this.#said = '';
    for (const file of files) {
      // oxlint-disable-next-line no-await-in-loop -- photos keep their order
      const outcome = await this.#page.source.addPhoto(file);
      if ('problem' in outcome) this.#said = `${file.name}: ${outcome.problem}`;
      else {
        this.#photos.push(...outcome.value);
        this.#photo = outcome.value[0];
      }
    }
    await this.#draw();
  }

  /** The top classes, filled in when they are known. */
  #makeClasses(): HTMLElement | undefined {
    const { source } = this.#page;
    const question = `classes?photo=${this.#photo?.id}`;
    if (!this.#photo || !source.has(question)) return undefined;
    const list = make('ol', 'classes', { 'aria-label': 'Classes with the highest scores' });
    const fill = async (): Promise<void> => {
      const outcome = await source.ask<readonly PageClass[]>(question);
      if ('problem' in outcome) return list.remove();
      const items = outcome.value.map(({ index, label, probability }) => {
        const name = make('bdi', '', label ?? `class ${index}`);
        return make('li', '', name, make('span', 'amount', formatShare(probability)), makeBar(probability));
      });
      list.append(...items);
    };
    // What a damaged page records may be no list.
    void fill().catch(() => list.remove());
    return list;
  }

  #makeModes(view: View | undefined): HTMLElement | undefined {
    if (!this.#photo) return undefined;
    const softmaxes = this.#softmaxes();
    const { attention: _, ...others } = MODES;
    const modes = softmaxes.length === 0 && this.#fused() === undefined ? others : MODES;
    const setMode = (mode: Mode): void => this.#choose(() => (this.#mode = mode));
    const tools: HTMLElement[] = [makeChoice('How to show it', 'mode', modes, this.#mode, setMode)];
    if (this.#mode === 'attention' && softmaxes.length > 1) tools.push(this.#makeLayers(softmaxes));
    if (this.#mode === 'heat' && this.#page.source.isServed) tools.push(this.#makeTarget());
    const pin = this.#pinned ? undefined : view;
    if (this.#pinned ?? pin) {
      const click = (): void => this.#choose(() => (this.#pinned = pin));
      tools.push(make('button', '', { click }, pin ? 'Pin to compare' : 'Unpin'));
    }
    return make('div', 'tools line', tools);
  }

  #makeLayers(softmaxes: readonly number[]): HTMLElement {
    const current = this.#chosenSoftmax(softmaxes);
    const options = softmaxes.map((node) =>
      make('option', '', { value: node, selected: node === current }, this.#titleOf(node)),
    );
    const select = make('select', '', { 'aria-label': 'Layer of attention' }, options);
    select.addEventListener('change', () => this.#choose(() => (this.#softmax = Number(select.value))));
    return select;
  }

  /** The last two parts of the module that a softmax is in. */
  #titleOf(node: number): string {
    const { graph } = this.#page;
    const module = graph.nameOf(graph.parentOf(node)!) || graph.nameOf(node);
    return module.split('.').slice(-2).join('.');
  }

  #makeTarget(): HTMLElement {
    const field = make('input', 'target', {
      value: this.#target,
      placeholder: 'predicted class',
      'aria-label': 'Class: its index or its label',
      change: () => this.#choose(() => (this.#target = field.value.trim())),
    });
    return field;
  }
}
