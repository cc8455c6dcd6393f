/** Light and dark: as the system has it, until one chooses. */
import { byId } from './elements.js';

/** Makes the button work; calls back when the colours have changed. */
export function startTheme(onChange: () => void): void {
  const root = document.documentElement;
  const button = byId('theme');
  const system = matchMedia('(prefers-color-scheme: dark)');
  const isDark = (): boolean => (root.dataset['theme'] ?? (system.matches ? 'dark' : 'light')) === 'dark';
  const show = (): void => {
    button.textContent = isDark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', isDark() ? 'Light colours' : 'Dark colours');
    onChange();
  };
  button.removeAttribute('aria-pressed');
  button.addEventListener('click', () => {
    root.dataset['theme'] = isDark() ? 'light' : 'dark';
    show();
  });
  system.addEventListener('change', show);
  show();
}

/** The colours that the canvas needs, as the style sheet has them now. */
export interface Colours {
  readonly paper: string;
  readonly ink: string;
  readonly accent: string;
  /** By folder. */
  readonly folders: readonly string[];
}

/** Reads the colours: custom properties are resolved only as the colour of an element. */
export function readColours(): Colours {
  const probe = document.createElement('span');
  document.body.append(probe);
  const read = (name: string): string => {
    probe.className = `probe-${name}`;
    return getComputedStyle(probe).color;
  };
  const colours = {
    paper: read('paper'),
    ink: read('ink'),
    accent: read('accent'),
    folders: Array.from({ length: 8 }, (_, i) => read(`folder-${i}`)),
  };
  probe.remove();
  return colours;
}
