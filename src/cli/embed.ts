/** `tapir embed`: images → a dataset. */
import { embedWarm, type EmbedProgress, type EmbedSummary } from '../embed/embed-folder.js';
import { openModel } from '../extract/open-model.js';
import { identifyFile } from '../extract/prune-model.js';
import { DecodeLanes } from '../image/decode-lanes.js';
import { EXIT } from './exit-code.js';
import { openExtractor, readTransformFlags, type ExtractorFlags } from './open-extractor.js';
import { formatDims } from './table.js';
import type { Terminal } from './terminal.js';

export interface EmbedFlags extends ExtractorFlags {
  readonly out: string;
  readonly batch: number;
  readonly decodeThreads: number;
  readonly dtype: 'float32' | 'float16';
  readonly shardSize: number;
  readonly keepDims: boolean;
  readonly column: string;
  readonly null: boolean;
  readonly allowHttp: boolean;
  readonly overwrite: boolean;
  readonly json: boolean;
}

const LINE_EVERY_SECONDS = 10;
const FAILURES_SHOWN = 20;

/** Embeds and reports. Exit code 1 if some images failed. */
export async function runEmbed(terminal: Terminal, source: string, flags: EmbedFlags): Promise<void> {
  const { batch, decodeThreads, dtype, shardSize, keepDims, overwrite, out } = flags;
  const { column, null: nulSeparated, allowHttp } = flags;
  const transform = readTransformFlags(flags);
  // Meanwhile the session opens.
  const lanes = new DecodeLanes(transform, 1);
  lanes.warm();
  const model = await openModel(flags.model);
  const opening = openExtractor(model, flags);
  // For the manifest, in the meantime too; a failure shows again there.
  void identifyFile(model).catch(() => undefined);
  const extractor = await opening;
  const { batch: batchPlan } = extractor.model.plan;
  if (batchPlan?.mode === 'per-sample')
    terminal.err(`note: the batch stays ${batchPlan.exported}, because ${batchPlan.reason}\n`);
  const progress = createProgress(terminal);
  try {
    const { signal } = terminal;
    const onProgress = (now: EmbedProgress): void => progress.show(now);
    const settings = { out, batch, decodeThreads, transform, dtype, shardSize, keepDims, overwrite };
    const reading = { column, nulSeparated, allowHttp };
    const images = source === '-' ? { paths: terminal.input() } : source;
    const summary = await embedWarm(
      extractor,
      images,
      { ...settings, ...reading, signal, onProgress },
      lanes,
    );
    progress.end();
    report(terminal, summary, flags.json);
    if (summary.failures.length > 0) terminal.exitCode(EXIT.someFailed);
  } finally {
    progress.end();
    await extractor.close();
  }
}

interface ProgressLine {
  show(progress: EmbedProgress): void;
  end(): void;
}

/** One line that is rewritten on a terminal; a line now and then elsewhere. */
function createProgress(terminal: Terminal): ProgressLine {
  let isOpen = false;
  let next = LINE_EVERY_SECONDS;
  return {
    show({ done, failed, seconds }) {
      const rate = seconds > 0 ? done / seconds : 0;
      const text = `${done} images, ${rate.toFixed(1)}/s${failed > 0 ? `, ${failed} failed` : ''}`;
      if (terminal.isTerminal) {
        terminal.err(`\r\u001b[K${text}`);
        isOpen = true;
      } else if (seconds >= next) {
        terminal.err(`${text}\n`);
        next = seconds + LINE_EVERY_SECONDS;
      }
    },
    end() {
      if (isOpen) terminal.err('\n');
      isOpen = false;
    },
  };
}

function report(terminal: Terminal, { out, manifest, failures }: EmbedSummary, isJson: boolean): void {
  const { counts, run, features } = manifest;
  if (counts.errors > 0) {
    terminal.err(`${counts.errors} of ${counts.inputs} images could not be embedded:\n`);
    for (const { path, error } of failures.slice(0, FAILURES_SHOWN)) {
      terminal.err(`  ${path ?? '(bytes)'}: ${error.details.reason} [${error.code}]\n`);
    }
    if (counts.errors > FAILURES_SHOWN)
      terminal.err(`  … all of them are in the metadata (status = 'error')\n`);
  }
  if (isJson) {
    terminal.out(`${JSON.stringify(manifest, null, 2)}\n`);
    return;
  }
  const rate = run.seconds > 0 ? ` (${(counts.inputs / run.seconds).toFixed(1)}/s)` : '';
  terminal.out(
    `${counts.ok} of ${counts.inputs} images embedded in ${run.seconds.toFixed(1)} s${rate} on ${run.device}\n`,
  );
  for (const [key, { folder, dtype, dims, rows }] of Object.entries(features)) {
    terminal.out(`  ${key}: ${rows} rows of ${formatDims(dims)} ${dtype} in ${out}/${folder}\n`);
  }
  terminal.out(`  a row per input (path, status, row, size, error): ${out}/metadata\n`);
  terminal.out(`  how it was made: ${out}/manifest.json\n`);
}
