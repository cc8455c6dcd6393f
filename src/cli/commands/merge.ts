/** `tapir merge`: the parts of a sharded dataset → one dataset. */
import { counted } from '../../base/printable.js';
import type { Command } from 'commander';
import { SOURCE_FIELDS, type SourceOptions } from '../../photos/feeds/items/source-options.js';
import { mergeDataset } from '../../datasets/embed/merge-dataset.js';
import { EXIT } from '../terminal/exit-code.js';
import { formatDims } from '../terminal/table.js';
import { addFlags, readFlags } from '../flags/option-flags.js';
import { addSettings } from '../flags/settings.js';
import { withProgressLine } from '../terminal/progress-view.js';
import type { Terminal } from '../terminal/terminal.js';

interface MergeFlags extends Pick<SourceOptions, 'column' | 'nulSeparated' | 'allowHttp'> {
  readonly source?: string;
  readonly json: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('merge')
    .description('merge the parts that embed --shard has written into one dataset; features stay in place')
    .argument('<folder>', 'OUT of tapir embed')
    .option('--source <source>', 'check that all inputs of this source are there: SOURCE of tapir embed')
    .option('--json', 'print the manifest as JSON', false)
    .action((folder: string, flags: MergeFlags) => runMerge(terminal, folder, flags));
  addFlags(command, SOURCE_FIELDS, {
    column: '--column <name>',
    allowHttp: '--allow-http',
  });
  addSettings(command, SOURCE_FIELDS, ['nulSeparated']);
}

/** Merges and reports. Exit code 1 if inputs of the dataset have failed. */
async function runMerge(terminal: Terminal, folder: string, flags: MergeFlags): Promise<void> {
  const { json } = flags;
  const source = flags.source === '-' ? { paths: terminal.input() } : flags.source;
  const { manifest, parts } = await withProgressLine(terminal, (watch) =>
    mergeDataset(folder, { ...readFlags(SOURCE_FIELDS, flags), source, ...watch }),
  );
  const { counts, features } = manifest;
  if (counts.errors > 0) terminal.exitCode = EXIT.someFailed;
  if (json) return terminal.out(`${JSON.stringify({ event: 'done', parts, manifest })}\n`);
  const failed = counts.errors > 0 ? `, ${counts.errors} of them failed (status = 'error')` : '';
  terminal.out(`${parts} parts merged: ${counts.inputs} inputs${failed}\n`);
  for (const [key, { dtype, dims, rows }] of Object.entries(features))
    terminal.out(
      `  ${key}: ${counted(rows, 'row')} of ${formatDims(dims)} ${dtype}, left in ${folder}/parts\n`,
    );
  terminal.out(`  a row per input (path, status, row, size, error): ${folder}/metadata\n`);
  terminal.out(`  how it was made: ${folder}/manifest.json\n`);
}
