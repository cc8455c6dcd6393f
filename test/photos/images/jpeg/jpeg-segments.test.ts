/** Frame headers of JPEGs. End marks: ../formats/headers.test.ts. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readJpegFrame } from '../../../../src/photos/images/jpeg/jpeg-segments.js';
import { fixturePath } from '../../../support/fixtures.js';

const fixture = (name: string): Buffer => readFileSync(fixturePath(`preprocess/images/${name}`));

describe('readJpegFrame', () => {
  it('gives size and components', () => {
    expect(readJpegFrame(fixture('jpeg_420_500x375.jpg'))).toEqual({
      width: 500,
      height: 375,
      components: 3,
    });
    expect(readJpegFrame(fixture('own_progressive.jpg'))).toMatchObject({ components: 3 });
    expect(readJpegFrame(fixture('own_grey.jpg'))).toMatchObject({ components: 1 });
    expect(readJpegFrame(fixture('own_cmyk.jpg'))).toMatchObject({ components: 4 });
  });

  it('ends on any bytes', () => {
    const whole = fixture('jpeg_420_500x375.jpg');
    expect(readJpegFrame(whole.subarray(0, 20))).toBeUndefined();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(300), (noise, cut) => {
        const frame = readJpegFrame(Buffer.concat([whole.subarray(0, cut), noise]));
        return frame === undefined || frame.width >= 0;
      }),
    );
  });
});
