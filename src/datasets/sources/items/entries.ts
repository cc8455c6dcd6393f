/** An entry of a list: a path or a URL. */
import { isAbsolute, sep } from 'node:path';
import { invalidOption } from '../../../base/checks.js';
import { isHttpUrl } from '../../../base/http/http.js';
import { labelOfUrl } from '../../../base/printable.js';
import { itemOfUrl } from './http-image.js';
import type { SourceItem } from './source-item.js';
import type { SourceOptions } from './source-options.js';

/** How entries are read. */
export interface EntryPlan extends SourceOptions {
  /** Folder of relative paths; empty for the working directory. */
  readonly base: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Makes an item of an entry. The item is named as the entry is written. A missing file shows up later, when it is read.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a URL without `allowHttp`.
 */
export function itemOfEntry(text: string, plan: EntryPlan): SourceItem {
  if (!isHttpUrl(text)) return { path: text, image: place(text, plan.base) };
  if (plan.allowHttp) return itemOfUrl(text, plan);
  const expected = `true (on the command line: --allow-http) for a source that lists URLs, such as ${labelOfUrl(text)}`;
  throw invalidOption('allowHttp', expected, false);
}

/** Does not normalise the path: `a/../b` and `b` are different files if `a` is a link. */
function place(path: string, base: string): string {
  return base === '' || isAbsolute(path) ? path : base + sep + path;
}
