import { describe, expect, it } from 'vitest';
import {
  itemOfArchive,
  MAX_ENTRY_BYTES,
  nameEntry,
} from '../../../../src/datasets/sources/archives/archive-entry.js';
import { UnreadFiles } from '../../../../src/datasets/sources/items/unread-files.js';

describe('nameEntry', () => {
  const name = (text: string, prefix = ''): ReturnType<typeof nameEntry> =>
    nameEntry(Buffer.from(text), prefix, new UnreadFiles());

  it('takes images by their extension, and leaves out the rest', () => {
    expect(name('a/b.JPG', 'x.tar/')).toEqual({ path: 'x.tar/a/b.JPG' });
    for (const text of ['a.txt', 'jpg', '', 'a.jpg/']) expect(name(text)).toBeUndefined();
  });

  it('refuses names that are no text: two of them must not become one', () => {
    const latin = nameEntry(Buffer.from([0xe9, 0x2e, 0x6a, 0x70, 0x67]), '', new UnreadFiles());
    expect(latin).toMatchObject({ path: '\\xe9.jpg', refusal: expect.any(String) });
    expect(name('a\0.jpg')).toMatchObject({ path: 'a\u2400.jpg', refusal: expect.any(String) });
    // Decoded by the archive's own rules.
    expect(nameEntry(Buffer.from([0x82]), '', new UnreadFiles(), 'é.jpg')).toEqual({ path: 'é.jpg' });
  });
});

describe('itemOfArchive', () => {
  it('refuses an entry that is too long, unless its name is refused already', () => {
    const stamp = { sizeBytes: MAX_ENTRY_BYTES + 1, modifiedMs: null, sha256: null };
    const item = itemOfArchive({ path: 'a.jpg' }, stamp, new Uint8Array());
    expect(item.error).toMatchObject({ code: 'IMAGE_UNREADABLE' });
    expect(item.error?.message).toContain('1073741825 bytes, more than 1073741824');
    const fits = itemOfArchive({ path: 'a.jpg' }, { ...stamp, sizeBytes: MAX_ENTRY_BYTES }, new Uint8Array());
    expect(fits.error).toBeUndefined();
  });
});
