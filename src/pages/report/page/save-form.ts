/** The form that saves gathered images as a column of the dataset, through the command that serves the page. */
import { askServer } from '../../../html/browser/ask-server.js';
import { make } from '../../../html/browser/elements.js';
import type { PageColumn } from './data.js';

/** Longest name and value, in characters. */
const MOST_CHARACTERS = 100;

/** Makes the form. `imagesOf` gives the places of the images; `onSaved` is called with the column as the page shows it. */
export function makeSaveForm(
  key: string,
  imagesOf: () => readonly number[],
  onSaved: (column: PageColumn) => void,
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
  const save = async (): Promise<void> => {
    const fields = {
      name: name.input.value.trim(),
      value: value.input.value,
      others: others.input.value,
      change: String(change.checked),
    };
    said.textContent = 'Saving …';
    const path = `column?${new URLSearchParams(fields).toString()}`;
    const outcome = await askServer<PageColumn>(key, path, JSON.stringify(imagesOf()));
    said.classList.toggle('bad', 'problem' in outcome);
    said.textContent =
      'problem' in outcome
        ? outcome.problem
        : `Saved: --labels column:${fields.name}, --where column:${fields.name}=${fields.value}`;
    if ('value' in outcome) onSaved(outcome.value);
  };
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
    said,
  );
}
