/** The help of commands: what most people need, and all of it on request. */
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { createProgram } from '../../src/cli/program.js';
import type { Terminal } from '../../src/cli/terminal/terminal.js';

// Help needs nothing of a terminal.
const terminal = {} as Terminal;

async function commandOf(name: string, isWhole = false): Promise<Command> {
  const program = await createProgram(terminal, [name], isWhole);
  return program.commands.find((command) => command.name() === name)!;
}

const flagsOf = (help: string): string[] =>
  [...help.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag]) => flag!);

describe('help', () => {
  it('of embed shows ten flags in groups, and how to see the rest', async () => {
    const help = (await commandOf('embed')).helpInformation();
    expect(flagsOf(help)).toEqual([
      '--out',
      '--format',
      '--overwrite',
      '--model',
      '--return',
      '--pool',
      '--device',
      '--devices',
      '--batch',
      '--transform',
      '--help',
    ]);
    for (const group of ['Photos and dataset:', 'Model:', 'Where it runs:', 'Pixels:'])
      expect(help).toContain(`\n${group}\n`);
    expect(help).toMatch(/\n\n\d+ more flags: tapir embed --help all\n$/);
  });

  it.each(['embed', 'serve', 'train', 'extract', 'report', 'probe'])(
    'all of %s has every flag',
    async (name) => {
      const command = await commandOf(name, true);
      const shown = flagsOf(command.helpInformation());
      const every = command.options.filter(({ hidden }) => !hidden).map(({ long }) => long);
      expect(new Set(shown)).toEqual(new Set([...every, '--help']));
      expect(command.helpInformation()).not.toContain('(rare)');
      const few = flagsOf((await commandOf(name)).helpInformation());
      expect(few.length).toBeLessThanOrEqual(16);
      expect(few.length).toBeLessThan(shown.length);
    },
  );

  it('of a command with few flags shows them all', async () => {
    const help = (await commandOf('merge')).helpInformation();
    expect(help).not.toContain('more flags');
  });

  it('of all commands has a line for each, the rare ones in a group of their own', async () => {
    const help = (await createProgram(terminal, [])).helpInformation();
    expect(help).toMatch(
      /\nChange a model:\n {2}params .*\n {2}load .*\n {2}bn .*\n {2}split .*\n {2}differentiate .*\n {2}create .*\n$/,
    );
  });

  it.each([
    ['classify', /probe --zero-shot/],
    ['probe', /--zero-shot[^]*tapir\s+classify/],
    ['search', /probe\s+--zero-shot/],
  ])('of %s says when to take which', async (name, others) => {
    expect((await commandOf(name)).helpInformation()).toMatch(others);
  });
});
