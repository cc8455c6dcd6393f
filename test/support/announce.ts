/** Says before the tests what will not run, and why: a skipped suite would otherwise be silent. */
import { sharedUnpacker, hasShared } from './shared.js';

export default function announce(): void {
  if (hasShared) return;
  console.warn(
    `${sharedUnpacker} is not here: the larger corpus, torchvision's numbers and the photo folder are not tested`,
  );
}
