/** Light and dark colours: as the system has them, until the reader chooses. */
import { byId } from './elements.js';

/** Makes the button `#theme` work; calls back when the colours have changed. */
export function startTheme(onChange: () => void): void {
  const { style } = document.documentElement;
  const button = byId('theme');
  const system = matchMedia('(prefers-color-scheme: dark)');
  const isDark = (): boolean => (style.colorScheme || (system.matches ? 'dark' : 'light')) === 'dark';
  const show = (): void => {
    button.textContent = isDark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', isDark() ? 'Light colours' : 'Dark colours');
    onChange();
  };
  button.hidden = false;
  button.addEventListener('click', () => {
    style.colorScheme = isDark() ? 'light' : 'dark';
    show();
  });
  system.addEventListener('change', show);
  show();
}

/** Reads custom properties of the style sheet, such as `ink`, as colours for a canvas. */
export function readColours(names: readonly string[]): string[] {
  // The browser resolves a custom property only where an element uses it as a colour.
  const probe = document.createElement('span');
  document.body.append(probe);
  const colours = names.map((name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return colours;
}
