/** Chooses sizes for the open axes of inputs: those that the caller gives, otherwise a guess by the kind of the axis. */
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import type { CheckedSizes } from './input-sizes.js';

/** One size for each kind of open axis. */
export interface SizeGuess {
  /** The first axis. */
  readonly rows: number;
  readonly channels: number;
  readonly height: number;
  readonly width: number;
  /** Any other axis. */
  readonly other: number;
  /** Whether channels come last in images whose declared sizes do not show it. */
  readonly isChannelsLast: boolean;
}

export const FIRST_GUESS: Omit<SizeGuess, 'rows'> = {
  channels: 3,
  height: 224,
  width: 224,
  other: 8,
  isChannelsLast: false,
};

type Kind = 'rows' | 'channels' | 'height' | 'width' | 'other';

/** The dims to feed to an input, and the axes whose size is made up. */
export interface FedDims {
  readonly dims: readonly number[];
  readonly madeUp: readonly number[];
  /** The kinds of the axes whose size is made up. */
  readonly kinds: readonly Kind[];
}

/** Most images have fewer channels than rows or columns. */
const MOST_CHANNELS = 4;

/** Sizes for every input; a first axis that is fixed is `runs` times as long. */
export function chooseDims(
  inputs: readonly TensorInfo[],
  given: CheckedSizes,
  guess: SizeGuess,
  runs: number,
): FedDims[] {
  const kinds = kindsOfSymbols(inputs, guess);
  return inputs.map((input) => {
    const madeUp: number[] = [];
    const made: Kind[] = [];
    const shape = given.shapes.get(input.name);
    const dims = (input.dims ?? [null]).map((size, axis, all) => {
      if (typeof size === 'number') return axis === 0 && all.length > 1 ? size * runs : size;
      const stated = shape?.[axis] ?? (size === null ? undefined : given.named.get(size));
      if (stated !== undefined) return stated;
      const kind = (isSymbol(size) ? kinds.get(size) : undefined) ?? kindOf(input, axis, guess);
      const isSide = kind === 'height' || kind === 'width';
      if (isSide && given.side !== undefined) return given.side;
      if (kind !== 'rows') madeUp.push(axis);
      made.push(kind);
      return guess[kind];
    });
    return { dims, madeUp, kinds: made };
  });
}

/** Whether equal names mean equal sizes. Exporters write "?" for any size. */
function isSymbol(size: number | string | null): size is string {
  return typeof size === 'string' && size !== '?' && size !== '';
}

/** The kind of each symbolic name, by the last axis that has it; but the batch's has its own wherever it stands. */
function kindsOfSymbols(inputs: readonly TensorInfo[], guess: SizeGuess): Map<string, Kind> {
  const kinds = new Map<string, Kind>();
  const batch = batchSymbol(inputs);
  if (batch !== undefined) kinds.set(batch, 'rows');
  for (const isFirst of [false, true]) {
    for (const input of inputs) {
      input.dims?.forEach((size, axis) => {
        if (isSymbol(size) && (axis === 0) === isFirst && !kinds.has(size))
          kinds.set(size, kindOf(input, axis, guess));
      });
    }
  }
  return kinds;
}

/**
 * The symbolic name of the batch, which may stand on a later axis as well, as in the state of a recurrent layer: what is called so, or
 * else the one name of all first axes. A name that one input has twice is none.
 */
function batchSymbol(inputs: readonly TensorInfo[]): string | undefined {
  const symbols = inputs.map(({ dims }) => (dims ?? []).filter(isSymbol));
  const isOnce = (name: string): boolean =>
    symbols.every((of) => of.filter((one) => one === name).length < 2);
  const called = symbols.flat().find((name) => /batch/i.test(name) && isOnce(name));
  const first = new Set(
    inputs.flatMap(({ dims }) => dims?.slice(0, 1) ?? []).filter((size) => typeof size === 'string'),
  );
  const [only] = first.size === 1 ? first : [];
  return called ?? (only !== undefined && isSymbol(only) && isOnce(only) ? only : undefined);
}

function kindOf(input: TensorInfo, axis: number, { isChannelsLast }: SizeGuess): Kind {
  if (axis === 0) return 'rows';
  if (input.dims?.length !== 4) return 'other';
  const isLast = hasChannelsLast(input) ?? isChannelsLast;
  const kinds: readonly Kind[] = isLast ? ['height', 'width', 'channels'] : ['channels', 'height', 'width'];
  return kinds[axis - 1]!;
}

/** Whether the declared sizes say that channels come last; undefined if they do not show it. */
function hasChannelsLast({ dims }: TensorInfo): boolean | undefined {
  const [, second, third, last] = dims ?? [];
  const isNumber = (size: unknown): size is number => typeof size === 'number';
  const isFew = (size: unknown): boolean => isNumber(size) && size <= MOST_CHANNELS;
  if (isFew(second) !== isFew(last)) return isFew(last);
  if (isNumber(third) || isNumber(second) === isNumber(last)) return undefined;
  return isNumber(last);
}
