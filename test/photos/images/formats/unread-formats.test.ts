import { expect, it } from 'vitest';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { describeForeign } from '../../../../src/photos/images/formats/unread-formats.js';

const bytes = (text: string): Uint8Array => Buffer.from(text, 'latin1');

it.each([
  ['JPEG XL; to embed them, convert', '\xff\n\xfa'],
  ['JPEG XL;', '\0\0\0\fJXL \r\n\x87\n'],
  ['JPEG 2000', '\0\0\0\fjP  \r\n\x87\n'],
  ['SVG', '\xef\xbb\xbf<?xml version="1.0"?>\n<!-- a -->\n<svg xmlns="http://www.w3.org/2000/svg"/>'],
  ['SVG', '<!DOCTYPE svg PUBLIC "a">\n<SVG/>'],
  ['MP4 or QuickTime, a video; to embed frames', '\0\0\0\x20ftypisom\0\0'],
  ['MP4 or QuickTime', '\0\0\0\x14ftypqt  '],
  ['Canon raw', '\0\0\0\x18ftypcrx '],
  ['Matroska', '\x1aE\xdf\xa3'],
  ['AVI', 'RIFF\x24\0\0\0AVI LIST'],
  ['PDF; to embed pages', '%PDF-1.7'],
  ['HTML, a web page', '\n<!DOCTYPE html><html><svg></svg>'],
  ['a pointer of Git LFS', 'version https://git-lfs.github.com/spec/v1\n'],
])('names %s', (words, start) => {
  expect(describeForeign(bytes(start))).toMatch(new RegExp(` or BMP: it is ${words}`));
});

it.each(['', 'plain text', 'RIFF\0\0\0\0WAVE', '<p>svg</p>'])('does not know %j', (start) => {
  expect(describeForeign(bytes(start))).toMatch(/ or BMP$/);
});

it('says in the refusal of a photo which format it has', async () => {
  await expect(loadImage(bytes('\xff\n\xfa rest of it'))).rejects.toThrow(
    'its format is not JPEG, PNG, WebP, GIF, TIFF, AVIF, HEIC or BMP: it is JPEG XL; to embed them, convert them to PNG or JPEG',
  );
});
