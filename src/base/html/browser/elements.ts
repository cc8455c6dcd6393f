/** Elements of a page, and the data it carries. Text is set as text, never as HTML. */
import { printable } from '../../printable.js';

/** The element with an id that the page is known to have. */
export function byId(id: string): HTMLElement {
  const element = document.querySelector<HTMLElement>(`#${id}`);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** Reads the data that the page carries beside its text. */
export function readPageData<Data>(): Data {
  return JSON.parse(byId('data').textContent) as Data;
}

/** Properties, attributes, custom properties (`--share`) and listeners (functions) of an element, by name. */
type Traits = Readonly<Record<string, string | number | boolean | undefined | ((event: never) => void)>>;

type Part = Node | string | Traits | undefined | readonly Part[];

/** Makes an element of children and traits. A button submits nothing unless its `type` says so. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  className: string,
  ...parts: readonly Part[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  if (tag === 'button') element.setAttribute('type', 'button');
  if (className !== '') element.className = className;
  for (const part of (parts as readonly unknown[]).flat(Infinity) as (Node | string | Traits | undefined)[]) {
    if (part === undefined) continue;
    if (typeof part === 'string') element.append(printable(part));
    else if (part instanceof Node) element.append(part);
    else for (const [name, value] of Object.entries(part)) setTrait(element, name, value);
  }
  return element;
}

function setTrait(element: HTMLElement, name: string, value: Traits[string]): void {
  if (value === undefined) return;
  if (typeof value === 'function') element.addEventListener(name, value as EventListener);
  else if (name.startsWith('--')) element.style.setProperty(name, String(value));
  else if (typeof value !== 'string' && name in element) Reflect.set(element, name, value);
  else element.setAttribute(name, name === 'value' ? String(value) : printable(String(value)));
}

/** A button with a name, small enough for a line of several. */
export function makeChip(name: string, act: () => void, ...parts: readonly Part[]): HTMLButtonElement {
  return make('button', 'chip', { click: act }, make('bdi', 'clip', name), parts);
}

/** The head of a card: what it is about, its title, and what can be done. */
export function makeHead(about: string, title: Node | string, action?: HTMLElement): HTMLElement {
  return make(
    'div',
    'card-head',
    make('div', '', make('p', 'eyebrow', about), make('h2', '', title)),
    action,
  );
}

/** A row of a list of names and values. */
export function makeFact(name: Node | string, value: Part, className: string = ''): HTMLElement {
  return make('div', className, make('dt', '', name), make('dd', '', value));
}

/** A button that copies a text, and says for a moment whether the browser let it. */
export function makeCopyButton(
  label: string,
  refusal: string,
  textOf: () => string,
  onEnd?: (isDone: boolean) => void,
): HTMLButtonElement {
  const tell = (isDone: boolean): void => {
    button.textContent = isDone ? 'Copied' : refusal;
    onEnd?.(isDone);
    setTimeout(() => (button.textContent = label), 1600);
  };
  const click = (): void =>
    void navigator.clipboard.writeText(textOf()).then(
      () => tell(true),
      () => tell(false),
    );
  const button = make('button', '', { click }, label);
  return button;
}

/** Buttons of which one is pressed: a value and a text each. `name` is that of {@link press}. */
export function makeChoice<Value extends string>(
  label: string,
  name: string,
  choices: Readonly<Partial<Record<Value, string>>>,
  pressed: Value,
  act: (value: Value) => void,
): HTMLElement {
  const buttons = (Object.entries(choices) as [Value, string][]).map(([value, text]) =>
    make(
      'button',
      '',
      { [`data-${name}`]: value, 'aria-pressed': value === pressed, click: () => act(value) },
      text,
    ),
  );
  return make('div', 'segments', { role: 'group', 'aria-label': label }, buttons);
}

/** Marks the button of a group that is pressed: `[data-NAME]` with this value. */
export function press(name: string, value: string, within: ParentNode = document): void {
  for (const button of buttonsOf(name, within))
    button.setAttribute('aria-pressed', String(button.dataset[name] === value));
}

/** Calls back with the value of the button that was pressed. */
export function onPress(name: string, act: (value: string) => void): void {
  for (const button of buttonsOf(name)) button.addEventListener('click', () => act(button.dataset[name]!));
}

function buttonsOf(name: string, within: ParentNode = document): NodeListOf<HTMLButtonElement> {
  return within.querySelectorAll<HTMLButtonElement>(`[data-${name}]`);
}
