/** `tapir embed`: images → a dataset. */
import { embedWarm, type EmbedSummary } from '../embed/embed-folder.js';
import type { EmbedProgress } from '../embed/progress.js';
import { hasFewImages } from '../embed/few-images.js';
import { openModel } from '../extract/open-model.js';
import { identifyFile } from '../extract/prune-model.js';
import { DecodeLanes } from '../image/decode-lanes.js';
import type { FeatureFormat } from '../embed/sinks/feature-writer.js';
import type { MaxFailures } from '../embed/failure-limit.js';
import { createProgressView } from './embed-progress.js';
import { EXIT } from './exit-code.js';
import { openMetricsServer } from './metrics-server.js';
import { findModelFile } from './find-model.js';
import { openExtractor, readTransformFlags, type ExtractorFlags } from './open-extractor.js';
import { chooseLocalDevice, readShardFlag, type ShardFlag } from './shard-flag.js';
import { formatDims, printable } from './table.js';
import type { Terminal } from './terminal.js';

export interface EmbedFlags extends ExtractorFlags {
  readonly out: string;
  readonly batch: number;
  readonly decodeThreads: number;
  readonly dtype: 'float32' | 'float16';
  readonly format: FeatureFormat;
  readonly checksum: boolean;
  readonly maxFailures: MaxFailures | undefined;
  readonly metricsPort: number | undefined;
  readonly shardSize: number;
  readonly keepDims: boolean;
  readonly shard: ShardFlag | undefined;
  readonly column: string;
  readonly null: boolean;
  readonly allowHttp: boolean;
  readonly overwrite: boolean;
  readonly json: boolean;
}

const FAILURES_SHOWN = 20;

/**
 * Embeds and reports. Exit code 1 if some images failed; a shard that is done ends with 0 all the same, as launchers take anything
 * else for a process to be started again, and the merged dataset tells.
 */
export async function runEmbed(terminal: Terminal, source: string, given: EmbedFlags): Promise<void> {
  const place = given.shard && readShardFlag(given.shard, process.env);
  const flags = place ? await chooseLocalDevice(given, place) : given;
  const shard = place?.shard;
  const { batch, decodeThreads, dtype, shardSize, keepDims, overwrite, out } = flags;
  const { column, null: nulSeparated, allowHttp } = flags;
  const transform = readTransformFlags(flags);
  // Meanwhile the session opens.
  const lanes = new DecodeLanes(transform, 1, { checksum: flags.checksum });
  lanes.warm();
  const model = await openModel(await findModelFile(flags.model));
  const opening = openExtractor(model, flags, await hasFewImages(source));
  // For the manifest, in the meantime too; a failure shows again there.
  void identifyFile(model).catch(() => undefined);
  const extractor = await opening;
  const { batch: batchPlan } = extractor.model.plan;
  if (batchPlan?.mode === 'per-sample')
    terminal.err(`note: the batch stays ${batchPlan.exported}, because ${batchPlan.reason}\n`);
  const progress = createProgressView(terminal, flags.json);
  const metrics = flags.metricsPort === undefined ? undefined : await openMetricsServer(flags.metricsPort);
  try {
    if (metrics) terminal.err(`metrics: ${metrics.url}\n`);
    const { signal } = terminal;
    const onProgress = (now: EmbedProgress): void => {
      progress.show(now);
      metrics?.update(now);
    };
    const { format, checksum, maxFailures } = flags;
    const settings = { out, batch, decodeThreads, transform, dtype, format, shardSize, keepDims };
    const reading = { column, nulSeparated, allowHttp };
    const images = source === '-' ? { paths: terminal.input() } : source;
    const summary = await embedWarm(
      extractor,
      images,
      { ...settings, ...reading, shard, overwrite, checksum, maxFailures, signal, onProgress },
      lanes,
    );
    progress.end();
    report(terminal, summary, flags.json);
    if (shard && !flags.json)
      terminal.out(`  part ${shard.index} of ${shard.count}; when all are there: tapir merge ${out}\n`);
    if (summary.failures.length > 0 && !shard) terminal.exitCode(EXIT.someFailed);
  } finally {
    progress.end();
    await metrics?.close();
    await extractor.close();
  }
}

function report(terminal: Terminal, summary: EmbedSummary, isJson: boolean): void {
  const { out, manifest, failures, embedded, failed, skipped, duplicates } = summary;
  const { counts, run, features } = manifest;
  if (failed > 0) {
    terminal.err(`${failed} of ${embedded} images could not be embedded:\n`);
    for (const { path, error } of failures.slice(0, FAILURES_SHOWN)) {
      terminal.err(`  ${printable(path ?? '(bytes)')}: ${printable(error.details.reason)} [${error.code}]\n`);
    }
    if (failed > FAILURES_SHOWN)
      terminal.err(
        `  … all of them are in the metadata (status = 'error'); the same command tries them again\n`,
      );
  }
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
  for (const [key, { folder, dtype, dims, rows }] of Object.entries(features)) {
    terminal.out(`  ${key}: ${rows} rows of ${formatDims(dims)} ${dtype} in ${out}/${folder}\n`);
  }
  terminal.out(`  a row per input (path, status, row, size, error): ${out}/metadata\n`);
  terminal.out(`  how it was made: ${out}/manifest.json\n`);
}
