/** `tapir embed`: images → a dataset. */
import { addPhotoFlags } from '../../flags/photo-flags.js';
import { counted } from '../../../base/printable.js';
import { Option, type Command } from 'commander';
import { invalidOption } from '../../../base/checks.js';
import { isTapirError } from '../../../base/errors.js';
import { integer, optional, type Fields } from '../../../base/options.js';
import type { LatestRun } from '../../../datasets/files/manifest.js';
import { describeCosines } from '../../../datasets/records/float32-comparison.js';
import { embedWarm, type EmbedSummary } from '../../../datasets/embed/embed-folder.js';
import type { EmbedProgress } from '../../../datasets/embed/progress.js';
import { continueDataset, sharedOptions } from './continue-dataset.js';
import { runEmbedRows } from './embed-rows.js';
import { openRun, reportFailures, reportUnread, type EmbedFlags } from './embed-run.js';
import { EXIT, messageOf } from '../../terminal/exit-code.js';
import { openRunView } from '../../terminal/progress-view.js';
import { chooseLocalDevice, parseShard, readShardFlag } from '../../flags/shard-flag.js';
import { formatDims } from '../../terminal/table.js';
import { EMBED_FOLDER_FIELDS } from '../../../datasets/embed/embed-folder-options.js';
import { FEATURE_FORMATS } from '../../../datasets/formats/feature-files.js';
import { ROW_FORMATS } from '../../../datasets/streams/row-output.js';
import { EMBED_ROWS_FIELDS } from '../../../datasets/streams/embed-rows.js';
import { describeMarked } from './describe-marked.js';
import { addExtractorFlags } from '../../flags/extractor-flags.js';
import { addHeaderFlag } from '../../flags/header-flag.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import type { Terminal } from '../../terminal/terminal.js';
import { rare } from '../../flags/rare.js';
import { addSettings, addWords } from '../../flags/settings.js';

const METRICS_FIELDS: Fields<Pick<EmbedFlags, 'metricsPort'>> = {
  metricsPort: optional(
    integer(0, 65_535, 0, 'serve figures for Prometheus on this port, to this machine only; 0: a free one'),
  ),
};

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('embed')
    .description(
      'embed images into a dataset; run the same command again to resume, or to add new images. --out, --model and --return are required; for a dataset that exists, --out is enough',
    )
    .argument(
      '<source>',
      'folder (searched recursively), pattern, list (.txt, .csv, .tsv, .jsonl, .parquet), archive (.tar, .tar.gz, .zip; several: "shard-{000..009}.tar"), or - for standard input',
    )
    .optionsGroup('Photos and dataset:')
    .requiredOption('--out <folder>', 'dataset to write, or - for rows on standard output');
  addFlags(command, EMBED_ROWS_FIELDS, {
    column: rare('--column <name>'),
    allowHttp: rare('--allow-http'),
  });
  addHeaderFlag(command);
  command
    .addOption(
      new Option(
        '--format <format>',
        'format of the feature files: npy (default), arrow or parquet; with --out -, of the rows: jsonl (default) or arrow',
      ).choices([...new Set([...FEATURE_FORMATS, ...ROW_FORMATS])]),
    )
    .addOption(new Option(rare('--shard <i/n>'), EMBED_FOLDER_FIELDS.shard.about).argParser(parseShard));
  addFlags(command, EMBED_FOLDER_FIELDS, {
    maxFailures: rare('--max-failures <n>'),
    removeMissing: rare('--remove-missing'),
    overwrite: '--overwrite',
    reuse: rare('--reuse <folder...>'),
  });
  addSettings(command, EMBED_ROWS_FIELDS, ['inputFormat', 'maxWaitMs', 'nulSeparated', 'name']);
  addSettings(command, EMBED_FOLDER_FIELDS, [
    'dtype',
    'shardSize',
    'shardSeconds',
    'keepDims',
    'cropRows',
    'checksum',
    'dims',
    'minCosine',
  ]);
  addSettings(command, METRICS_FIELDS, ['metricsPort']);
  addPhotoFlags(command, ['tiles', 'clips']);
  command
    .option(rare('--json'), 'print progress and the manifest as lines of JSON', false)
    .action((source: string, flags: EmbedFlags) => runEmbed(terminal, source, flags, sharedOptions(command)));
  addWords(command, continueDataset);
  addExtractorFlags(command);
  addFlags(command.optionsGroup('Where it runs:'), EMBED_FOLDER_FIELDS, { batch: '--batch <n>' });
}

/**
 * Embeds and reports. Exit code 1 if some images failed. A completed shard always ends with 0, because launchers restart a process
 * that ends otherwise; the merged dataset records the failures.
 */
export async function runEmbed(
  terminal: Terminal,
  source: string,
  given: EmbedFlags,
  shared: Readonly<Record<string, unknown>>,
): Promise<void> {
  if (given.out === '-') return runEmbedRows(terminal, source, given);
  const place = given.shard && readShardFlag(given.shard, process.env);
  const flags = place ? await chooseLocalDevice(given, place) : given;
  const shard = place?.shard;
  const { out, format = EMBED_FOLDER_FIELDS.format.fallback } = flags;
  if (format === 'jsonl')
    throw invalidOption(
      '--format',
      'npy, arrow or parquet for a dataset (jsonl is for rows: --out -)',
      format,
    );
  const settings = readFlags(EMBED_FOLDER_FIELDS, flags);
  const { tiles, clips } = flags;
  const { extractor, exact, lanes, transform } = await openRun(terminal, source, flags);
  const view = await openRunView(terminal, flags.metricsPort, flags.json);
  let done = 0;
  try {
    const { signal } = terminal;
    const onProgress = (now: EmbedProgress): void => {
      done = now.done;
      view.show(now);
    };
    const images = source === '-' ? { paths: terminal.input(), format: flags.inputFormat } : source;
    const summary = await embedWarm(
      extractor,
      images,
      { ...settings, transform, tiles, clips, format, shard, signal, onProgress },
      { lanes, exact, options: shared },
    );
    view.end();
    report(terminal, summary, flags);
    if (shard && !flags.json)
      terminal.out(
        `  part ${shard.index} of ${shard.count}; when all parts are done, all with this --out: tapir merge ${out}\n`,
      );
    if (summary.failures.length > 0 && !shard) terminal.exitCode = EXIT.someFailed;
  } catch (error) {
    view.end();
    if (terminal.stopped === undefined || done === 0) throw error;
    // Said before a run in progress ends, which may take long.
    if (isTapirError(error, 'OUTPUT_UNWRITABLE')) terminal.err(messageOf(error));
    else
      terminal.err(
        `tapir: stopped; ${counted(done, clips ? 'clip' : 'photo')} kept; run the same command to continue\n`,
      );
    terminal.exitCode = terminal.stopped;
  } finally {
    await view.close();
    await extractor.close();
    // A run that failed early has not taken it.
    await (await exact?.catch(() => undefined))?.close();
  }
}

/** Dims of a row of a map: channels, height, width. */
const MAP_RANK = 3;

/** @param isRemoving - The run removes inputs, so those that are left could not be looked at. */
function describeMissing(isRemoving: boolean): string {
  return isRemoving
    ? 'not listed in the source but not proven gone (still there, or a folder or link cannot be read); kept in the dataset'
    : 'no longer in the source; kept in the dataset (--remove-missing marks as removed)';
}

function report(terminal: Terminal, summary: EmbedSummary, { json, removeMissing }: EmbedFlags): void {
  const {
    out,
    manifest,
    failures,
    embedded,
    failed,
    skipped,
    duplicates,
    changed,
    missing,
    removed,
    reused,
  } = summary;
  const { counts, run, features } = manifest;
  const whereAll = "all of them are in the metadata (status = 'error'); the same command tries them again";
  const [inputs, part] = nounsOf(run);
  reportFailures(terminal, failures, failed, embedded, inputs, whereAll);
  reportUnread(terminal, summary.unreadFiles);
  if (json) {
    const counted = { embedded, failed, skipped, duplicates, changed, missing, removed, reused };
    return terminal.out(`${JSON.stringify({ event: 'done', ...counted, manifest })}\n`);
  }
  const rate = run.seconds > 0 ? ` (${(embedded / run.seconds).toFixed(1)}/s)` : '';
  const ok = embedded - failed;
  const time = `in ${run.seconds.toFixed(1)} s${rate} on ${run.device}`;
  const isNothingNew = embedded === 0 && reused === 0 && skipped > 0;
  const isAllReused = embedded === 0 && reused > 0;
  if (isNothingNew) terminal.out(`nothing new: ${counted(skipped, inputs.slice(0, -1))} embedded before\n`);
  else
    terminal.out(isAllReused ? 'nothing to compute\n' : `${ok} of ${embedded} ${inputs} embedded ${time}\n`);
  const notes = [
    [isNothingNew ? 0 : skipped, `there already; the dataset has ${counted(counts.inputs, 'input')} now`],
    [reused, 'with vectors from --reuse'],
    [duplicates, 'given more than once; each is in the dataset once'],
    [changed, 'in place of photos of the same names: changed files, or another folder'],
    [removed, 'no longer in the source, and marked as removed'],
    [missing, describeMissing(removeMissing)],
  ] as const;
  for (const [count, what] of notes) if (count > 0) terminal.out(`  ${count} ${what}\n`);
  for (const line of describeMarked(manifest)) terminal.out(`  ${line}\n`);
  if (run.againstFloat32) {
    const { images, cosine } = run.againstFloat32;
    const rest = run.floatPrecision === undefined ? run.precision : `${run.floatPrecision} beside int8`;
    terminal.out(`  ${rest} against float32 on ${counted(images, 'image')}: ${describeCosines(cosine)}\n`);
  }
  for (const [key, { folder, dtype, dims, rows }] of Object.entries(features)) {
    terminal.out(`  ${key}: ${counted(rows, 'row')} of ${formatDims(dims)} ${dtype} in ${out}/${folder}\n`);
    if (dims.length === MAP_RANK)
      terminal.out(`    a map, which search compares place by place; --pool ${key}=avg gives a vector\n`);
  }
  terminal.out(`  a row per ${part} (path, status, row, size, error): ${out}/metadata\n`);
  terminal.out(`  how it was made: ${out}/manifest.json\n`);
}

/** What was given, and what has a row of vectors. */
function nounsOf({ tiles, clips, cropRows }: LatestRun): readonly [string, string] {
  if (clips) return ['clips', 'clip'];
  if (tiles) return ['images', 'tile'];
  return ['images', cropRows === 'each' ? 'crop' : 'input'];
}
