/** `tapir bench`: its commands. */
import type { Command } from 'commander';
import type { Terminal } from '../../terminal/terminal.js';
import { addBenchEmbedCommand } from './bench-embed.js';
import { addBenchModelCommand } from './bench-model.js';

export function addCommand(program: Command, terminal: Terminal): void {
  const bench = program.command('bench').description('measure speed on this machine');
  addBenchModelCommand(bench, terminal);
  addBenchEmbedCommand(bench, terminal);
}
