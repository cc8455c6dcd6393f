/** Hashes of texts in memory. */
import { expect, it } from 'vitest';
import { HASH_WORDS, hashText } from '../../src/base/text-hash.js';

function hashOf(text: string): string {
  const hash = new Uint32Array(HASH_WORDS);
  hashText(text, hash);
  return hash.join();
}

it('texts that differ have other hashes, and half a pair counts as U+FFFD', () => {
  const texts = Array.from({ length: 20_000 }, (_, i) => `folder-${i % 7}/${'x'.repeat(i % 5)}${i}.jpg`);
  expect(new Set([...texts, '', 'a', 'a\0', '\0a', 'b'].map(hashOf)).size).toBe(texts.length + 5);
  expect(hashOf('a\uD800b')).toBe(hashOf('a\uFFFDb'));
  expect(hashOf('😀')).not.toBe(hashOf('\uFFFD\uFFFD'));
});
