/** Parsers of flag values. */
import { InvalidArgumentError } from 'commander';

/** Parses a whole number from 0. */
export function parseCount(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

/** Parses a number from 0, with or without decimals. */
export function parseNumber(text: string): number {
  if (!/^\d+(?:\.\d+)?$/.test(text)) throw new InvalidArgumentError('It must be a number.');
  return Number(text);
}

/** Collects the values of a repeatable flag. */
export function collect(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}
