/** What the package keeps about objects of its public classes, out of users' sight. */
import { show } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';

/** The public classes. */
const CLASSES: ReadonlySet<string> = new Set([
  'OnnxModel',
  'PrunedModel',
  'FeatureExtractor',
  'DataParallel',
  'Pipeline',
]);

/** One state per object. It also tells objects of our classes from anything else. */
export class Internals<Owner extends object, State> {
  readonly #states = new WeakMap<object, State>();
  readonly #option: string;
  readonly #expected: string;

  /** `option` is the argument that such objects are passed as, `expected` what it must be, for messages. */
  constructor(option: string, expected: string) {
    this.#option = option;
    this.#expected = expected;
  }

  set(owner: Owner, state: State): void {
    this.#states.set(owner, state);
  }

  /** Whether a value is one of our objects. */
  has(value: unknown): value is Owner {
    return typeof value === 'object' && value !== null && this.#states.has(value);
  }

  /** The state of an object. Throws `OPTION_INVALID` for anything else. */
  of(value: Owner): State {
    const state = this.#states.get(value);
    if (state === undefined) throw this.refuse(value);
    return state;
  }

  /** The error for a value that is not one of our objects: it names the two usual reasons. */
  refuse(value: unknown, option: string = this.#option, expected: string = this.#expected): TapirError {
    const actual = describeStranger(value);
    return new TapirError('OPTION_INVALID', `option "${option}" must be ${expected}, got ${actual}`, {
      details: { option, expected, actual },
    });
  }
}

function describeStranger(value: unknown): string {
  if (value instanceof Promise) return 'a promise (forgotten "await"?)';
  if (typeof value !== 'object' || value === null) return show(value);
  const maker: unknown = Reflect.get(Object.getPrototypeOf(value) ?? {}, 'constructor');
  if (typeof maker !== 'function' || !CLASSES.has(maker.name)) return show(value);
  return `${maker.name}, maybe of another copy of onnx-tapir ("npm ls onnx-tapir" lists them)`;
}
