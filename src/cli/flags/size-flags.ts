/** `--size` and `--input-shape`: sizes for axes that the file leaves open. */
import type { Command } from 'commander';
import { invalidOption } from '../../base/checks.js';
import type { InputSizes } from '../../run/model/open/input-sizes.js';
import { collect, parseCount } from './flag-values.js';

export interface SizeFlags {
  readonly size?: readonly string[];
  readonly inputShape?: readonly string[];
}

export function addSizeFlags(command: Command): Command {
  return command
    .option(
      '--size <[axis=]n>',
      'size of an open axis on made-up inputs; N alone for height and width of images; repeatable',
      collect,
    )
    .option('--input-shape <input=n,n,…>', 'shape of a made-up input; repeatable', collect);
}

export function readSizeFlags({ size = [], inputShape = [] }: SizeFlags): InputSizes {
  const [only] = size;
  if (only !== undefined && !only.includes('=')) {
    if (size.length + inputShape.length > 1)
      throw invalidOption('--size', 'N alone, or AXIS=N and --input-shape for each', only);
    return readCount('--size', only);
  }
  return Object.fromEntries([
    ...size.map((flag) => readPair('--size', 'AXIS=N', flag, (text) => readCount('--size', text))),
    ...inputShape.map((flag) =>
      readPair('--input-shape', 'INPUT=N,N,…', flag, (text) =>
        text.split(',').map((one) => readCount('--input-shape', one)),
      ),
    ),
  ]);
}

function readPair<Sizes>(
  option: string,
  form: string,
  flag: string,
  read: (text: string) => Sizes,
): [string, Sizes] {
  const equals = flag.lastIndexOf('=');
  if (equals < 1) throw invalidOption(option, form, flag);
  return [flag.slice(0, equals), read(flag.slice(equals + 1))];
}

function readCount(option: string, text: string): number {
  try {
    return parseCount(text.trim());
  } catch {
    throw invalidOption(option, 'made of whole numbers', text);
  }
}
