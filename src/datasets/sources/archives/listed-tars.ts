/** Tars that a list names, as files or URLs. */
import { openUrl } from '../../../base/http/http.js';
import { reasonOf } from '../../../base/errors.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import type { SourceOptions } from '../../../photos/feeds/items/source-options.js';
import { invalidSource } from '../items/source-errors.js';
import type { UnreadFiles } from '../items/unread-files.js';
import { archiveKind } from './archive-entry.js';
import { listArchive } from './archives.js';
import { listTarStream } from './tar.js';

/** A server waits as long while photos that have arrived are embedded. */
const PAUSE_MS = 600_000;

/** Whether an entry of a list is a tar, by its name without a query. */
export function isListedTar({ url, image, error }: SourceItem): boolean {
  if (error) return false;
  const name = url === undefined ? image : url.replace(/[?#].*$/s, '');
  return typeof name === 'string' && archiveKind(name) === 'tar';
}

/**
 * The images of a tar that a list names, `<tar>/<entry>`, with what the list says of the tar.
 *
 * @throws {@link TapirError} `SOURCE_INVALID`, also where the server does not give it whole: its first images come before.
 */
export async function* listListedTar(
  { path, url, image, columns }: SourceItem,
  { httpTimeoutMs, headers }: SourceOptions,
  unread: UnreadFiles,
  signal: AbortSignal | undefined,
): AsyncGenerator<SourceItem> {
  const prefix = `${path}/`;
  const items =
    url === undefined
      ? listArchive(image as string, unread, prefix)
      : listTarStream(await openTar(url, path!, { httpTimeoutMs, headers }, signal), path!, prefix, unread);
  for await (const item of items) yield columns ? { ...item, columns } : item;
}

async function openTar(
  url: string,
  name: string,
  { httpTimeoutMs, headers }: Pick<SourceOptions, 'httpTimeoutMs' | 'headers'>,
  signal: AbortSignal | undefined,
): Promise<AsyncIterable<Uint8Array>> {
  const rules = {
    http: 'all',
    allowPrivate: true,
    credentials: 'send',
    originHeaders: headers,
    signal,
  } as const;
  try {
    const { body } = await openUrl(url, {
      ...rules,
      timeout: { ms: Math.max(httpTimeoutMs, PAUSE_MS), of: 'silence' },
    });
    return body;
  } catch (error) {
    throw invalidSource(name, reasonOf(error), { cause: error });
  }
}
