/** How values of flags are read. */
import { InvalidArgumentError } from 'commander';

/** A whole number from 0. */
export function parseCount(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

/** The values of a flag that may be given several times. */
export function collect(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}
