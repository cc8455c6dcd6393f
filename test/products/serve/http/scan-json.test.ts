/** Bounded JSON, against JSON.parse. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { scanJson } from '../../../../src/products/serve/http/scan-json.js';

const scan = (text: string) => scanJson(Buffer.from(text));

describe('scanJson', () => {
  it('is JSON.parse within its bounds', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), fc.integer({ min: 0, max: 2 }), (value, space) => {
        const text = JSON.stringify(value, null, space);
        expect(scan(text)).toEqual(JSON.parse(text));
      }),
      { numRuns: 2000 },
    );
  });

  it('refuses what JSON.parse refuses', () => {
    fc.assert(
      fc.property(
        fc.string({ maxLength: 12, unit: fc.constantFrom(...'[]{}",:\\0a -te'.split('')) }),
        (text) => {
          const outcome = (act: () => unknown): unknown => {
            try {
              return act();
            } catch {
              return 'refused';
            }
          };
          expect(outcome(() => scan(text))).toEqual(outcome(() => JSON.parse(text)));
        },
      ),
      { numRuns: 5000 },
    );
  });

  it.each([
    ['nesting', '['.repeat(33) + ']'.repeat(33), /more than 32 levels/],
    ['vast nesting', '['.repeat(8e6), /more than 32 levels/],
    ['nested objects', '{"a":'.repeat(8e5), /more than 32 levels/],
    ['many empty objects', `[${'{},'.repeat(1e6)}{}]`, /more than 65536 values/],
    ['many numbers', `[${'0,'.repeat(4e6)}0]`, /more than 65536 values/],
    ['a list without an end', '{"data":[1,2', /not JSON/],
    ['a text without an end', '{"data":["a', /not JSON/],
    ['text that is not JSON', '{', /not JSON/],
  ])('refuses %s within a moment', (_, text, reason) => {
    const bytes = Buffer.from(text);
    const started = process.cpuUsage().user;
    expect(() => scanJson(bytes)).toThrow(reason);
    // About 10 ns a byte on a slow machine; JSON.parse takes a thousand times as long for some of these.
    expect(process.cpuUsage().user - started).toBeLessThan(1_000_000);
  });

  it('refuses bytes that are not UTF-8', () => {
    expect(() => scanJson(Buffer.from([0x22, 0xff, 0x22]))).toThrow(/not JSON in UTF-8/);
  });
});
