/** The tables of flags in the guides say what the flags do: defaults, ranges and words are those of the options. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Option } from 'commander';
import { describe, expect, it } from 'vitest';
import { createProgram } from '../../src/cli/program.js';
import { readFieldText } from '../../src/cli/flags/option-flags.js';
import { settingsOf } from '../../src/cli/flags/settings.js';
import type { Terminal } from '../../src/cli/terminal/terminal.js';
import { projectPath } from '../support/fixtures.js';

/** A table of flags and settings whose first heading is "flag of `tapir COMMAND`". */
const TABLE = /^(\| flag of `tapir (\w+)`.*)\n\|[-| ]+\n((?:\|.*\n)+)/gm;

const DOCS = projectPath('docs');
const pages = readdirSync(DOCS, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.md'));
const tables = pages.flatMap((file) =>
  Array.from(readFileSync(join(DOCS, file), 'utf8').matchAll(TABLE), ([, head, command, body]) => {
    const columns = cellsOf(head!);
    const rows = body!
      .trim()
      .split('\n')
      .map((row) => Object.fromEntries(cellsOf(row).map((cell, i) => [columns[i], cell])));
    return { file, command: command!, head: columns[0]!, rows };
  }),
);

function cellsOf(row: string): string[] {
  return row
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/** Whether a flag takes a text. */
function takes({ parseArg }: Option, text: string): boolean {
  try {
    parseArg!(text, undefined);
    return true;
  } catch {
    return false;
  }
}

/** Checks `1 to 4,096`, or `above 0, at most 1`. */
function checkRange(option: Option, range: string): void {
  const [low, high] = range
    .replaceAll(/(?<=\d),(?=\d)/g, '')
    .match(/\d+(?:\.\d+)?/g)!
    .map(Number);
  const isOpen = range.startsWith('above');
  const expected = [
    [low!, !isOpen],
    [high!, true],
    [low! - 1, false],
    [high! + 1, false],
  ] as const;
  for (const [value, isTaken] of expected)
    expect(takes(option, String(value)), `${option.long} ${value}`).toBe(isTaken);
}

it('is about some commands', () => {
  expect(tables.map(({ command }) => command).toSorted()).toEqual([
    'dedupe',
    'embed',
    'probe',
    'quantize',
    'search',
    'serve',
    'train',
  ]);
});

describe.each(tables)('$file, tapir $command', ({ command, head, rows }) => {
  it('has the defaults, ranges and words of the flags', async () => {
    const program = await createProgram({} as Terminal, [command]);
    const named = program.commands.find((one) => one.name() === command)!;
    const settings = Array.from(settingsOf(named), ([name, field]) => {
      const option = new Option(`--${name} <value>`).default(field.fallback);
      option.argParser((text) => readFieldText(name, field, text));
      option.long = `--set ${name}`;
      return Array.isArray(field.reads) ? option.choices(field.reads as string[]) : option;
    });
    const options = [...named.options, ...settings];
    for (const { [head]: flag = '', default: preset, range } of rows) {
      const long = /^`(--set \w+|--[\w-]+)/.exec(flag)?.[1];
      const option = options.find((one) => one.long === long);
      if (!option) throw new Error(`${command} has no flag ${flag}`);
      const { defaultValue, argChoices } = option as Option & { readonly defaultValue?: unknown };
      const usual = defaultValue === undefined || defaultValue === false ? '' : String(defaultValue);
      expect(preset?.replaceAll(/[`,]/g, ''), long).toBe(usual);
      if (argChoices) expect(range, long).toBe(argChoices.map((word) => `\`${word}\``).join(', '));
      else if (range) checkRange(option, range);
    }
  });
});
