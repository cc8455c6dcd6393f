/** `tapir embed`: images → a dataset. */
import { invalidOption } from '../../base/checks.js';
import { describeCosines } from '../../dataset/float32-comparison.js';
import { embedWarm, type EmbedSummary } from '../../embed/embed-folder.js';
import { hasFewImages } from '../../embed/measure/few-images.js';
import type { EmbedProgress } from '../../embed/progress.js';
import { runEmbedRows } from './embed-rows.js';
import { openRun, reportFailures, reportUnread, type EmbedFlags } from './embed-run.js';
import { EXIT } from '../terminal/exit-code.js';
import { openRunView } from '../terminal/run-view.js';
import { chooseLocalDevice, readShardFlag } from '../flags/shard-flag.js';
import { formatDims } from '../terminal/table.js';
import type { Terminal } from '../terminal/terminal.js';

/**
 * Embeds and reports. Exit code 1 if some images failed. A completed shard always ends with 0, because launchers restart a process
 * that ends otherwise; the merged dataset records the failures.
 */
export async function runEmbed(terminal: Terminal, source: string, given: EmbedFlags): Promise<void> {
  if (given.out === '-') return runEmbedRows(terminal, source, given);
  const place = given.shard && readShardFlag(given.shard, process.env);
  const flags = place ? await chooseLocalDevice(given, place) : given;
  const shard = place?.shard;
  const { batch, decodeThreads, dtype, shardSize, keepDims, overwrite, out, format } = flags;
  if (format === 'jsonl')
    throw invalidOption(
      '--format',
      'npy, arrow or parquet for a dataset (jsonl is for rows: --out -)',
      format,
    );
  const { column, null: nulSeparated, allowHttp } = flags;
  const { extractor, lanes, transform } = await openRun(terminal, flags, hasFewImages(source));
  const view = await openRunView(terminal, flags.metricsPort, flags.json);
  try {
    const { signal } = terminal;
    const onProgress = (now: EmbedProgress): void => view.show(now);
    const { checksum, maxFailures, minCosine } = flags;
    const settings = { out, batch, decodeThreads, transform, dtype, format, shardSize, keepDims };
    const reading = { column, nulSeparated, allowHttp };
    const images = source === '-' ? { paths: terminal.input(), format: flags.inputFormat } : source;
    const summary = await embedWarm(
      extractor,
      images,
      { ...settings, ...reading, shard, overwrite, checksum, maxFailures, minCosine, signal, onProgress },
      lanes,
    );
    view.end();
    report(terminal, summary, flags.json);
    if (shard && !flags.json)
      terminal.out(`  part ${shard.index} of ${shard.count}; when all parts are done: tapir merge ${out}\n`);
    if (summary.failures.length > 0 && !shard) terminal.exitCode(EXIT.someFailed);
  } finally {
    await view.close();
    await extractor.close();
  }
}

function report(terminal: Terminal, summary: EmbedSummary, isJson: boolean): void {
  const { out, manifest, failures, embedded, failed, skipped, duplicates, unreadFiles } = summary;
  const { counts, run, features } = manifest;
  const whereAll = "all of them are in the metadata (status = 'error'); the same command tries them again";
  reportFailures(terminal, failures, failed, embedded, whereAll);
  reportUnread(terminal, unreadFiles);
  if (isJson) {
    const event = { event: 'done', embedded, failed, skipped, duplicates, manifest };
    terminal.out(`${JSON.stringify(event)}\n`);
    return;
  }
  const rate = run.seconds > 0 ? ` (${(embedded / run.seconds).toFixed(1)}/s)` : '';
  const ok = embedded - failed;
  const time = `in ${run.seconds.toFixed(1)} s${rate} on ${run.device}`;
  terminal.out(`${ok} of ${embedded} images embedded ${time}\n`);
  if (skipped > 0)
    terminal.out(`  ${skipped} were there already; the dataset has ${counts.inputs} inputs now\n`);
  if (duplicates > 0)
    terminal.out(`  ${duplicates} were given more than once; each is in the dataset once\n`);
  if (run.againstFloat32) {
    const { images, cosine } = run.againstFloat32;
    terminal.out(`  ${run.precision} against float32 on ${images} images: ${describeCosines(cosine)}\n`);
  }
  for (const [key, { folder, dtype, dims, rows }] of Object.entries(features)) {
    terminal.out(`  ${key}: ${rows} rows of ${formatDims(dims)} ${dtype} in ${out}/${folder}\n`);
  }
  terminal.out(`  a row per input (path, status, row, size, error): ${out}/metadata\n`);
  terminal.out(`  how it was made: ${out}/manifest.json\n`);
}
