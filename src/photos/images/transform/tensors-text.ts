/** What a transform with several tensors does, in words. */
import { patchProcessor } from '../patches/patch-processors.js';
import type { Transform } from './transform.js';

/** Undefined for a transform with one tensor: its resize and its crop tell what it does. */
export function tensorsText({ options, tensors }: Transform): string | undefined {
  const { patches } = options;
  if (!patches) return undefined;
  const most = patchProcessor(patches).mostOf(patches);
  const names = tensors.map(({ name }) => name).join(', ');
  return `patches of ${patches.size} × ${patches.size}, ${most} (${patches.processor}), ${tensors.length} tensors: ${names}`;
}
