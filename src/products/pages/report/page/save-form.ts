/** The form that saves gathered images as a column of the dataset, through the command that serves the page. */
import { askServer } from '../../../../base/html/browser/ask-server.js';
import { make } from '../../../../base/html/browser/elements.js';
import type { PageColumn } from './data.js';

/** Longest name and value, in characters. */
const MOST_CHARACTERS = 100;

/** What a form tells. */
export interface SaveEvents {
  /** Called with a column that was saved, as the page shows it. */
  readonly onSaved: (column: PageColumn) => void;
  /** Called with the name of a column that was removed. */
  readonly onRemoved: (name: string) => void;
}

/** Makes the form. `imagesOf` gives the places of the images. */
export function makeSaveForm(
  key: string,
  imagesOf: () => readonly number[],
  { onSaved, onRemoved }: SaveEvents,
): HTMLElement {
  const field = (label: string, value: string, isRequired: boolean) => {
    const input = make('input', '', { type: 'text', required: isRequired, autocomplete: 'off' });
    input.maxLength = MOST_CHARACTERS;
    input.value = value;
    return { input, label: make('label', 'small line', label, input) };
  };
  const name = field('Save as column', '', true);
  const value = field('these are', 'yes', true);
  const others = field('the others', 'no', false);
  const change = make('input', '', { type: 'checkbox' });
  const said = make('span', 'small', { role: 'status' });
  const say = (text: string, isBad = false): void => {
    said.classList.toggle('bad', isBad);
    said.textContent = text;
  };
  const save = async (): Promise<void> => {
    const fields = {
      name: name.input.value.trim(),
      value: value.input.value,
      others: others.input.value,
      change: String(change.checked),
    };
    say('Saving …');
    const path = `column?${new URLSearchParams(fields).toString()}`;
    const outcome = await askServer<PageColumn>(key, path, JSON.stringify(imagesOf()));
    if ('problem' in outcome) return say(outcome.problem, true);
    say(`Saved: --labels column:${fields.name}, --where column:${fields.name}=${fields.value}`);
    onSaved(outcome.value);
  };
  let asked = '';
  const remove = async (): Promise<void> => {
    const column = name.input.value.trim();
    if (column === '') return say('Write the name of the column to remove.', true);
    // The second press, of the same name, removes it.
    const isSure = column === asked;
    asked = isSure ? '' : column;
    removal.textContent = isSure ? 'Remove' : `Remove “${column}” for good`;
    if (!isSure) return;
    const path = `remove-column?${new URLSearchParams({ name: column }).toString()}`;
    const outcome = await askServer<unknown>(key, path, '');
    if ('problem' in outcome) return say(outcome.problem, true);
    say(`Removed: ${column}`);
    onRemoved(column);
  };
  const removal = make('button', '', { click: () => void remove() }, 'Remove');
  const submit = (event: Event): void => {
    event.preventDefault();
    void save();
  };
  return make(
    'form',
    'tools line save-form',
    { submit },
    name.label,
    value.label,
    others.label,
    make('label', 'small line', change, 'change a saved column'),
    make('button', '', { type: 'submit' }, 'Save'),
    removal,
    said,
  );
}
