/** The format of bytes. Of real files: headers.test.ts; BMP: ../bmp/bmp.test.ts. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { imageFormat } from '../../../../src/photos/images/formats/image-format.js';
import { projectPath } from '../../../support/fixtures.js';

describe('imageFormat', () => {
  it('recognises formats by their first bytes', () => {
    expect(imageFormat(readFileSync(projectPath('examples/photos/sea/sea-0.jpg')))).toBe('jpeg');
    expect(imageFormat(Buffer.from('GIF89a'))).toBe('gif');
    expect(imageFormat(Buffer.from('RIFF\0\0\0\0WEBP'))).toBe('webp');
    expect(imageFormat(new Uint8Array(0))).toBeUndefined();
    const brands = (text: string): Buffer => Buffer.from(`\0\0\0 ftyp${text}`, 'latin1');
    expect(imageFormat(brands('heic'))).toBe('heic');
    expect(imageFormat(brands('avif'))).toBe('avif');
    expect(imageFormat(brands('mif1\0\0\0\0mif1heic'))).toBe('heic');
    expect(imageFormat(brands('mif1\0\0\0\0mif1avifmiaf'))).toBe('avif');
    // In a view of a larger buffer, too.
    const view = Buffer.from('......II*\0....').subarray(6, 12);
    expect(imageFormat(view)).toBe('tiff');
    for (const text of ['<svg/>', '%PDF-1.7', 'RIFF\0\0\0\0WAVE', '\0\0\0 ftypqt  ', '\0\0\u0001\0'])
      expect(imageFormat(Buffer.from(text, 'latin1')), text).toBeUndefined();
  });
});
