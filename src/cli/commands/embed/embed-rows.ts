/** `tapir embed --out -`: images → rows on standard output, and nothing else there. */
import { invalidOption } from '../../../base/checks.js';
import type { EmbeddedBatch } from '../../../datasets/embed/embed-batches.js';
import type { EmbedFailure } from '../../../datasets/embed/embed-folder.js';
import { EMBED_FOLDER_FIELDS } from '../../../datasets/embed/embed-folder-options.js';
import { EMBED_ROWS_FIELDS, embedRows } from '../../../datasets/streams/embed-rows.js';
import { ROW_FORMATS, type RowFormat } from '../../../datasets/streams/row-output.js';
import type { EmbedProgress } from '../../../datasets/embed/progress.js';
import type { UnreadCounts } from '../../../datasets/sources/items/unread-files.js';
import { FAILURES_SHOWN, openRun, reportFailures, reportUnread, type EmbedFlags } from './embed-run.js';
import { EXIT } from '../../terminal/exit-code.js';
import { readFlags } from '../../flags/option-flags.js';
import { openRunView } from '../../terminal/progress-view.js';
import type { Terminal } from '../../terminal/terminal.js';

/** Embeds and writes rows. Exit code 1 if some images failed. */
export async function runEmbedRows(terminal: Terminal, source: string, flags: EmbedFlags): Promise<void> {
  const format = checkFlags(flags);
  const { tiles } = flags;
  // Opened now: input that comes early waits in the pipe.
  const images = source === '-' ? terminal.input() : source;
  const { extractor, lanes, transform } = await openRun(terminal, source, flags);
  const view = await openRunView(terminal, flags.metricsPort, false);
  let embedded = 0;
  let failed = 0;
  const failures: EmbedFailure[] = [];
  const onBatch = ({ items }: EmbeddedBatch, now: EmbedProgress): void => {
    embedded += items.filter(({ cut }) => !cut?.isBegun).length;
    for (const { path, error } of items) {
      if (!error) continue;
      failed++;
      if (failures.length < FAILURES_SHOWN) failures.push({ path, error });
    }
    view.show(now);
  };
  try {
    let unread: UnreadCounts = {};
    const onUnread = (counts: UnreadCounts): void => void (unread = counts);
    const { signal } = terminal;
    const told = { format, transform, tiles, onBatch, onUnread, signal };
    const settings = { ...readFlags(EMBED_ROWS_FIELDS, flags), ...told };
    for await (const bytes of embedRows(extractor, images, settings, lanes)) await terminal.write(bytes);
    view.end();
    reportFailures(
      terminal,
      failures,
      failed,
      embedded,
      'images',
      "all of them are rows with status 'error'",
    );
    reportUnread(terminal, unread);
    if (failed > 0) terminal.exitCode = EXIT.someFailed;
  } finally {
    await view.close();
    // In case the run did not get to use them.
    await lanes.close();
    await extractor.close();
  }
}

/** Refuses flags that make no sense for rows. Throws `OPTION_INVALID`. */
function checkFlags(flags: EmbedFlags): RowFormat {
  const { format = 'jsonl', json, overwrite, removeMissing, checksum, shardSize, shard, minCosine } = flags;
  const found = ROW_FORMATS.find((one) => one === format);
  if (!found) throw invalidOption('--format', 'jsonl or arrow with --out -', format);
  const refuse = (flag: string, value: unknown): Error =>
    invalidOption(flag, 'left out with --out -, where only rows are written', value);
  if (json) throw refuse('--json', json);
  if (removeMissing) throw refuse('--remove-missing', removeMissing);
  if (overwrite) throw refuse('--overwrite', overwrite);
  if (checksum) throw refuse('--set checksum', checksum);
  if (shardSize !== EMBED_FOLDER_FIELDS.shardSize.fallback) throw refuse('--set shardSize', shardSize);
  if (shard !== undefined) throw refuse('--shard', shard);
  if (flags.clips) throw refuse('--clip', flags.clips.frames);
  if (minCosine !== undefined) throw refuse('--set minCosine', minCosine);
  return found;
}
