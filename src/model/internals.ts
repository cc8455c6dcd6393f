/** What the package keeps about objects of its public classes, out of users' sight. */
import { show } from '../base/checks.js';
import { TapirError } from '../base/errors.js';

/** One state per object. It also tells our own objects from those of another kind, or of another copy of the package. */
export class Internals<Owner extends object, State> {
  readonly #states = new WeakMap<object, State>();
  readonly #classes: readonly string[];
  readonly #option: string;
  readonly #expected: string;

  /**
   * @param classes - The names of the public classes.
   * @param option - The argument that such objects are passed as.
   * @param expected - What that argument must be, for messages.
   */
  constructor(classes: readonly string[], option: string, expected: string) {
    this.#classes = classes;
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
    const actual = describeStranger(value, this.#classes);
    return new TapirError('OPTION_INVALID', `option "${option}" must be ${expected}, got ${actual}`, {
      details: { option, expected, actual },
    });
  }
}

function describeStranger(value: unknown, classes: readonly string[]): string {
  if (value instanceof Promise) return 'a promise (forgotten "await"?)';
  const kind = classOf(value);
  if (kind !== undefined && classes.includes(kind))
    return `${kind} of another copy of onnx-tapir (see "npm ls onnx-tapir")`;
  return show(value);
}

function classOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const maker: unknown = Reflect.get(Object.getPrototypeOf(value) ?? {}, 'constructor');
  return typeof maker === 'function' ? maker.name : undefined;
}
