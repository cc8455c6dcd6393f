/** An entry of a list: a path or a URL. */
import { isAbsolute, sep } from 'node:path';
import { invalidOption } from '../../base/checks.js';
import type { SourceItem } from './list-folder.js';
import { isHttpUrl, itemOfUrl, labelOfUrl } from './http-image.js';
import type { SourceOptions } from './source-options.js';

/** What entries mean. */
export interface EntryPlan extends SourceOptions {
  /** Folder that relative paths are relative to; empty for the working directory. */
  readonly base: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The item of an entry, named as it is written. Whether a file is there shows when it is read.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a URL without `allowHttp`.
 */
export function itemOfEntry(text: string, plan: EntryPlan): SourceItem {
  if (!isHttpUrl(text)) return { path: text, image: place(text, plan.base) };
  if (plan.allowHttp) return itemOfUrl(text, plan);
  const expected = `true (on the command line: --allow-http) for a source that lists URLs, such as ${labelOfUrl(text)}`;
  throw invalidOption('allowHttp', expected, false);
}

/** Not joined: `a/../b` is another file than `b` where `a` is a link. */
function place(path: string, base: string): string {
  return base === '' || isAbsolute(path) ? path : base + sep + path;
}
