/** Finds the state dict in what torch.save wrote: the state dict itself, or a checkpoint that holds it under some key. */
import { show } from '../../../base/checks.js';
import { PickledTensor } from './torch-pickle.js';

interface ChosenTensors {
  readonly tensors: ReadonlyMap<string, PickledTensor>;
  /** What was chosen and left out, for the user. */
  readonly notes: readonly string[];
}

const ADVICE = 'save the state dict alone: torch.save(model.state_dict(), path)';

/** The tensors of a checkpoint, under a key if one is given. Throws an Error if there is no state dict, or if there are several. */
export function chooseStateDict(value: unknown, key: string | undefined): ChosenTensors {
  if (value instanceof PickledTensor)
    throw new Error(`it holds a single tensor, and no state dict; ${ADVICE}`);
  if (Array.isArray(value)) throw new Error(`it holds a list, and no state dict; ${ADVICE}`);
  if (!(value instanceof Map)) throw new Error(`it holds no state dict; ${ADVICE}`);
  const checkpoint = value as ReadonlyMap<unknown, unknown>;
  const inner = listNested(checkpoint);
  const names = listNames(inner.map(([name]) => show(name)));
  if (key !== undefined) {
    const chosen = inner.find(([name]) => name === key);
    if (chosen) return unwrap(checkpoint, chosen);
    throw new Error(
      `it holds no state dict under ${show(key)}; ${names === '' ? ADVICE : `it has ${names}`}`,
    );
  }
  if (inner.length > 1)
    throw new Error(`it holds several state dicts: ${names}; choose one with the option "key"`);
  if (inner.length === 1) return unwrap(checkpoint, inner[0]!);
  return tensorsOf(checkpoint, []);
}

/** The items of a checkpoint that are state dicts. Modules may keep a dict of tensors in their state dict, as extra state. */
function listNested(checkpoint: ReadonlyMap<unknown, unknown>): [string, Map<unknown, unknown>][] {
  // Each dict is looked through once: a file can name one dict under many keys.
  const known = new Map<unknown, boolean>();
  const hasTensors = (dict: Map<unknown, unknown>): boolean => {
    const found = known.get(dict) ?? Array.from(dict).some(isTensorItem);
    known.set(dict, found);
    return found;
  };
  const nested: [string, Map<unknown, unknown>][] = [];
  for (const [name, value] of checkpoint)
    if (
      typeof name === 'string' &&
      !name.endsWith('_extra_state') &&
      value instanceof Map &&
      hasTensors(value)
    )
      nested.push([name, value]);
  return nested;
}

function isTensorItem([name, value]: readonly [unknown, unknown]): boolean {
  return typeof name === 'string' && value instanceof PickledTensor;
}

function unwrap(
  checkpoint: ReadonlyMap<unknown, unknown>,
  [name, inner]: [string, Map<unknown, unknown>],
): ChosenTensors {
  const others = Array.from(checkpoint.keys()).filter((one) => one !== name);
  const left = others.length > 0 ? `; left out: ${listNames(others)}` : '';
  return tensorsOf(inner, [`it is a checkpoint: its ${show(name)} was read${left}`]);
}

function tensorsOf(dict: ReadonlyMap<unknown, unknown>, notes: readonly string[]): ChosenTensors {
  const items = Array.from(dict);
  const tensors = new Map(items.filter(isTensorItem) as [string, PickledTensor][]);
  if (tensors.size === 0) throw new Error(`it holds no tensors by name; ${ADVICE}`);
  const others = items.filter((item) => !isTensorItem(item)).map(([name]) => name);
  if (others.length === 0) return { tensors, notes };
  return { tensors, notes: [...notes, `left out, because they are not tensors: ${listNames(others)}`] };
}

/** The first names, as text. A name may be any value, also a long text. */
function listNames(names: readonly unknown[]): string {
  const first = names
    .slice(0, 10)
    .map((name) => (typeof name === 'string' ? name.slice(0, 100) : '(keys that are not text)'));
  return names.length > 10 ? `${first.join(', ')} and ${names.length - 10} more` : first.join(', ');
}
