/** `tapir import`: tables of vectors → a dataset. */
import type { Command } from 'commander';
import { counted } from '../../base/printable.js';
import { importTables } from '../../datasets/import/import-tables.js';
import { EXIT } from '../terminal/exit-code.js';
import { withProgressLine } from '../terminal/progress-view.js';
import { formatDims } from '../terminal/table.js';
import type { Terminal } from '../terminal/terminal.js';

interface ImportFlags {
  readonly column: string;
  readonly path: string;
  readonly out: string;
  readonly json: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  program
    .command('import')
    .description(
      'make a dataset of vectors in Parquet tables (of Ray, embed --out -, pandas, …); other columns become metadata',
    )
    .argument('<table...>', 'Parquet files, or folders of them')
    .requiredOption('-o, --out <folder>', 'folder to write; it must not exist, or be empty')
    .option('--column <name>', 'column of vectors: lists of float16, float32 or float64', 'embedding')
    .option('--path <name>', 'column that names the photo of each row', 'path')
    .option('--json', 'print the manifest as JSON', false)
    .action((tables: readonly string[], flags: ImportFlags) => runImport(terminal, tables, flags));
}

/** Imports and reports. Exit code 1 if rows say that their photo has failed. */
async function runImport(
  terminal: Terminal,
  tables: readonly string[],
  { column, path, out, json }: ImportFlags,
): Promise<void> {
  const manifest = await withProgressLine(terminal, (watch) =>
    importTables({ tables, column, path, out, ...watch }),
  );
  const { counts, features } = manifest;
  if (counts.errors > 0) terminal.exitCode = EXIT.someFailed;
  if (json) return terminal.out(`${JSON.stringify({ event: 'done', manifest })}\n`);
  const failed = counts.errors > 0 ? `, ${counts.errors} of them failed (status = 'error')` : '';
  terminal.out(`${counted(counts.inputs, 'row')} imported${failed}\n`);
  for (const [key, { dtype, dims, rows, folder }] of Object.entries(features))
    terminal.out(`  ${key}: ${counted(rows, 'row')} of ${formatDims(dims)} ${dtype} in ${out}/${folder}\n`);
  terminal.out(`  list of photos and errors: ${out}/metadata\n`);
}
