/** Elements of a page, and the data it carries. Text is set as text, never as HTML. */
import { printable } from '../../base/printable.js';

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

/** Makes an element. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  className: string,
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  if (className !== '') element.className = className;
  element.append(...children.map((child) => (typeof child === 'string' ? printable(child) : child)));
  return element;
}

/** Marks the button of a group that is pressed: `[data-NAME]` with this value. */
export function press(name: string, value: string): void {
  for (const button of buttonsOf(name))
    button.setAttribute('aria-pressed', String(button.dataset[name] === value));
}

/** Calls back with the value of the button that was pressed. */
export function onPress(name: string, act: (value: string) => void): void {
  for (const button of buttonsOf(name)) button.addEventListener('click', () => act(button.dataset[name]!));
}

function buttonsOf(name: string): NodeListOf<HTMLButtonElement> {
  return document.querySelectorAll<HTMLButtonElement>(`[data-${name}]`);
}
