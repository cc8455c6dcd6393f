/** The help of commands: what most people need, and all of it on request. */
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { COMMANDS, type Listed } from '../../src/cli/command-list.js';
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
    expect(help).toMatch(/\n\n\d+ more flags, \d+ settings: tapir embed --help all\n$/);
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
    expect(help).toMatch(/\n1 setting: tapir merge --help all\n$/);
  });

  it('all of embed lists the settings with what they are and their defaults', async () => {
    const [, settings] = (await commandOf('embed', true)).helpInformation().split('\nSettings (');
    expect(settings).toMatch(/^--set KEY=VALUE\):\n/);
    expect(settings).toMatch(
      /\n {2}dtype +element type [^]*?choices: "float32",\s+"float16", default:\s+"float32"\)/,
    );
    expect(settings).toMatch(/\n {2}shardSize +\S[^]*?default: 8192\)/);
    expect((await commandOf('search', true)).helpInformation()).not.toContain('Settings (');
  });

  it('of embed and serve stays short, and so that of all commands together', async () => {
    let all = 0;
    const count = async (path: readonly string[], listed: Listed): Promise<void> => {
      if (typeof listed[1] !== 'function') {
        for (const [name, inner] of Object.entries(listed[1])) await count([...path, name], inner);
        return;
      }
      const program = await createProgram(terminal, path, true);
      const command = path.reduce<Command>(
        (at, name) => at.commands.find((one) => one.name() === name)!,
        program,
      );
      const flags = flagsOf(command.helpInformation()).length - 1;
      all += flags;
      const most = { embed: 26, serve: 30 }[path.join(' ')];
      if (most !== undefined) expect(flags, path.join(' ')).toBeLessThanOrEqual(most);
    };
    for (const group of Object.values(COMMANDS))
      for (const [name, listed] of Object.entries(group)) await count([name], listed);
    expect(all).toBeLessThanOrEqual(340);
  });

  it('of all commands has a line for each, at most 24', async () => {
    const help = (await createProgram(terminal, [])).helpInformation();
    const listed = help.matchAll(/^ {2}([a-z]\S*) {2,}\S/gm);
    const commands = Array.from(listed, ([, name]) => name!).filter((name) => name !== 'help');
    expect(commands).toHaveLength(Object.values(COMMANDS).flatMap((group) => Object.keys(group)).length);
    expect(commands.length).toBeLessThanOrEqual(24);
  });

  it('of a group has a line for each of its commands', async () => {
    expect((await commandOf('draw')).helpInformation()).toMatch(
      /\nCommands:\n {2}cam .*\n {2}features-map .*\n {2}segment .*\n/,
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
