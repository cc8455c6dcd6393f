/** Sizes for axes that the file leaves open: the option `inputSizes`, checked. */
import { checkInteger, invalidOption, show } from '../../../base/checks.js';
import { dimsText, type TensorInfo } from '../../../onnx/tensor/tensor-info.js';

/**
 * Sizes for axes of inputs that the file leaves open. One number is for height and width of images. Or give sizes by the symbolic name of
 * an axis, and whole shapes by the name of an input: `{ width: 320, x: [1, 3, 48, 320] }`.
 */
export type InputSizes = number | Readonly<Record<string, number | readonly number[]>>;

/** Checked sizes. */
export interface CheckedSizes {
  /** Height and width of images. */
  readonly side: number | undefined;
  /** Sizes by symbolic name. */
  readonly named: ReadonlyMap<string, number>;
  /** Shapes by input. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
}

export const NO_SIZES: CheckedSizes = { side: undefined, named: new Map(), shapes: new Map() };

const LARGEST = 65_536;

/** Reads sizes. Throws `OPTION_INVALID`. */
export function readInputSizes(given: unknown): CheckedSizes {
  if (typeof given === 'number') return { ...NO_SIZES, side: checkInteger('inputSizes', given, 1, LARGEST) };
  if (given === null || typeof given !== 'object' || Array.isArray(given))
    throw invalidOption('inputSizes', 'one size for images, or sizes by name of an axis or input', given);
  const named = new Map<string, number>();
  const shapes = new Map<string, readonly number[]>();
  for (const [name, size] of Object.entries(given) as [string, unknown][]) {
    const check = (one: unknown): number => checkInteger(`inputSizes.${name}`, one, 1, LARGEST);
    if (Array.isArray(size)) shapes.set(name, size.map(check));
    else named.set(name, check(size));
  }
  return { side: undefined, named, shapes };
}

/**
 * Checks that sizes belong to inputs. Throws `OPTION_INVALID` for a name that no input and no axis has, and for a shape that contradicts
 * the file.
 */
export function checkInputSizes({ named, shapes }: CheckedSizes, inputs: readonly TensorInfo[]): void {
  const symbols = new Set(
    inputs.flatMap(({ dims }) => (dims ?? []).filter((size) => typeof size === 'string')),
  );
  const known = new Map(inputs.map((input) => [input.name, input]));
  const unknown =
    [...named.keys()].find((name) => !symbols.has(name)) ??
    [...shapes.keys()].find((name) => !known.has(name));
  if (unknown !== undefined) {
    const inThere = inputs.map((input) => `${show(input.name)} ${dimsText(input)}`).join('; ');
    throw invalidOption(
      'inputSizes',
      `sizes of axes and shapes of inputs that the model has (${inThere})`,
      unknown,
    );
  }
  for (const [name, shape] of shapes) {
    const input = known.get(name)!;
    const fits =
      input.dims === null ||
      (input.dims.length === shape.length &&
        input.dims.every((size, axis) => typeof size !== 'number' || size === shape[axis]));
    if (!fits)
      throw invalidOption(
        `inputSizes.${name}`,
        `a shape that fits ${dimsText(input)}`,
        `[${shape.join(', ')}]`,
      );
  }
}
