/** What a transform with several tensors does, in words. */
import type { Transform } from './transform.js';

/** Undefined for a transform with one tensor: its resize and its crop tell what it does. */
export function tensorsText({ options, tensors }: Transform): string | undefined {
  const { patches } = options;
  if (!patches) return undefined;
  const most =
    patches.processor === 'naflex'
      ? `at most ${patches.maxPatches} of a photo`
      : `${patches.minPixels} to ${patches.maxPixels} pixels of a photo`;
  const names = tensors.map(({ name }) => name).join(', ');
  return `patches of ${patches.size} × ${patches.size}, ${most} (${patches.processor}), ${tensors.length} tensors: ${names}`;
}
