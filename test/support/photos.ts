/** The example photos, where a test may change them. */
import { copyFileSync, cpSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fixturePath, projectPath, scratchFolder } from './fixtures.js';

/** Copies the 24 photos. */
export function copyPhotos(to: string): void {
  cpSync(projectPath('examples/photos'), to, { recursive: true, filter: (file) => !file.endsWith('.ts') });
}

/** A folder of 24 photos and two that cannot be read, and a place for a dataset. */
export function photosAndPlace(prefix: string): { photos: string; out: string } {
  const folder = mkdtempSync(join(scratchFolder(), prefix));
  const photos = join(folder, 'photos');
  copyPhotos(photos);
  copyFileSync(fixturePath('preprocess/bad/truncated.jpg'), join(photos, 'dunes/cut.jpg'));
  writeFileSync(join(photos, 'zero.jpg'), '');
  return { photos, out: join(folder, 'out') };
}
