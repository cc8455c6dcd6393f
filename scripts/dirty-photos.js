/**
 * Makes a folder of photos as they come in practice, for the code of the guides: the examples, and one that is broken, one that is grey,
 * one that a camera turned, one with transparency, and one whose name is in another script.
 */
import { cpSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('..', import.meta.url));

/** Fixtures by the name that they get. */
const ODD = {
  'broken.jpg': 'bad/truncated.jpg',
  'grey.jpg': 'images/own_grey.jpg',
  'turned.jpg': 'images/exif_6_300x400.jpg',
  'transparent.png': 'images/own_alpha.png',
  '海/写真.jpg': 'images/jpeg_420_500x375.jpg',
};

/** @param {string} folder */
export function makeDirtyPhotos(folder) {
  const isPhoto = (path) => !path.endsWith('.ts');
  cpSync(join(project, 'examples/photos'), folder, { recursive: true, filter: isPhoto });
  for (const [name, fixture] of Object.entries(ODD)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    cpSync(join(project, 'test/fixtures/preprocess', fixture), join(folder, name));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) makeDirtyPhotos(process.argv[2]);
