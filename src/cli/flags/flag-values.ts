/** Parsers of flag values. */
import { readFile } from 'node:fs/promises';
import { InvalidArgumentError } from 'commander';
import { invalidOption } from '../../base/checks.js';
import { reasonOf } from '../../base/errors.js';

/** Parses a whole number from 0. */
export function parseCount(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

/** Parses a decimal number as people write them: `0.98`, `.98`, `1e-4`, `-1`. */
export function parseNumber(text: string): number {
  if (!/^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(text))
    throw new InvalidArgumentError('It must be a number.');
  return Number(text);
}

/** Reads the file that a flag names. Throws `OPTION_INVALID`. */
export function readFlagFile(flag: string, file: string): Promise<Buffer> {
  return readFile(file).catch((error: unknown) => {
    throw invalidOption(flag, `a file that can be read (${reasonOf(error)})`, file);
  });
}

/** Collects the values of a repeatable flag. */
export function collect(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}
