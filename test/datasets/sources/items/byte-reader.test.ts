import { describe, expect, it } from 'vitest';
import { ByteReader } from '../../../../src/datasets/sources/items/byte-reader.js';
import { inPieces } from '../../../support/sources.js';

const text = Buffer.from('0123456789');
async function read(reader: ByteReader, length: number): Promise<string | undefined> {
  const bytes = await reader.read(length);
  return bytes && Buffer.from(bytes).toString();
}

describe('ByteReader', () => {
  it.each([1, 3, 10])('reads and peeks, whatever the chunks (%i bytes)', async (piece) => {
    const reader = new ByteReader(inPieces(text, piece));
    expect(Buffer.from(await reader.peek(4)).toString()).toBe('0123');
    expect(await read(reader, 2)).toBe('01');
    expect(await read(reader, 5)).toBe('23456');
    expect(Buffer.from(await reader.peek(9)).toString()).toBe('789');
    const rest: Uint8Array[] = [];
    for await (const chunk of reader.rest()) rest.push(Uint8Array.from(chunk));
    expect(Buffer.concat(rest).toString()).toBe('789');
    expect(await read(reader, 1)).toBeUndefined();
  });

  it.each([1, 3, 10])('skips, and tells its position (chunks of %i bytes)', async (piece) => {
    const reader = new ByteReader(inPieces(text, piece));
    expect(await reader.skip(4)).toBe(true);
    expect(await read(reader, 2)).toBe('45');
    expect(reader.position).toBe(6);
    expect(await read(reader, 5)).toBeUndefined();
    expect(await reader.skip(1)).toBe(false);
    expect(reader.position).toBe(10);
  });

  it('closes the stream once: when asked to, or when the rest is left', async () => {
    let closed = 0;
    const endless = async function* (): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield text;
      } finally {
        closed++;
      }
    };
    const reader = new ByteReader(endless());
    await reader.peek(1);
    await reader.close();
    await reader.close();
    expect(closed).toBe(1);
    for await (const _ of new ByteReader(endless()).rest()) break;
    expect(closed).toBe(2);
  });
});
