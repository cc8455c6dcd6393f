/** An image that a caller gives → the item of it. */
import { invalidOption } from '../../../base/checks.js';
import { readKind } from '../../images/formats/image-source.js';
import { transformOf } from '../../images/transform/transform.js';
import { itemOfEntry, type EntryPlan } from './entries.js';
import type { SourceItem } from './source-item.js';

/**
 * Makes the item of a single image.
 *
 * @param option - What the caller calls it, for messages.
 * @param isLent - Whether its memory is the caller's again after the next image is asked for, who may fill it anew: it is then copied now.
 * @throws {@link TapirError} `OPTION_INVALID` for a value that is no image, and for a URL of http(s) without `allowHttp`.
 */
export function itemOfImage(image: unknown, plan: EntryPlan, option = 'image', isLent = false): SourceItem {
  checkNotTransformed(image, option);
  const given = readKind(image, option);
  if (given.kind === 'path') return itemOfEntry(given.path, plan);
  if (given.kind === 'url') return itemOfEntry(given.url, plan);
  if (given.kind === 'bytes')
    return { path: null, image: isLent ? new Uint8Array(given.bytes) : given.bytes };
  const { read, sizeBytes, modifiedMs = null } = given;
  const taken = isLent && given.isLent === true ? read() : undefined;
  const item = { path: null, image: taken ? () => taken : read };
  return sizeBytes === undefined ? item : { ...item, stamp: { sizeBytes, modifiedMs, sha256: null } };
}

/** Refuses the pixels of {@link Transform.apply}: a transform is applied once. */
export function checkNotTransformed(image: unknown, option: string): void {
  if (transformOf(image) === undefined) return;
  const expected = 'a photo before its transform: what loadImage or apply() gave goes to run';
  throw invalidOption(option, expected, undefined);
}
