/** Damaged files: each gives a typed error or the right tensors, quickly. By hand: STATE_MUTANTS=10000 npx vitest run test/model/parameters/mutants.test.ts. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isTapirError } from '../../../src/base/errors.js';
import { readStateDict } from '../../../src/model/parameters/read-state-dict.js';
import { fixturePath, scratchFolder } from '../../support/fixtures.js';
import { readAll } from '../../support/states.js';

const scratch = scratchFolder();
const mutants = Number(process.env['STATE_MUTANTS'] ?? 150);

/** xorshift32 (Marsaglia 2003). */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

/** A few bytes changed, mostly where the file describes its tensors; or bytes cut out, doubled, or cut off. */
function mutate(original: Buffer, facts: number, random: (below: number) => number): Buffer {
  const kind = random(8);
  const at = random(2) === 0 ? random(facts) : original.length - 1 - random(Math.min(original.length, 4000));
  const end = Math.min(original.length, at + random(64));
  if (kind === 0) return original.subarray(0, at);
  if (kind === 1) return Buffer.concat([original.subarray(0, at), original.subarray(end)]);
  if (kind === 2) return Buffer.concat([original.subarray(0, end), original.subarray(at)]);
  const bytes = Buffer.from(original);
  for (let i = 0; i <= random(4); i++) bytes[random(2) === 0 ? random(facts) : at] = random(256);
  return bytes;
}

describe.each([
  ['shared.B.pth', true, 6000],
  ['shared.B.checkpoint.pth', true, 6000],
  ['shared.B.safetensors', false, 3000],
])('%s', (name, hasChecksums, facts) => {
  it(`gives a typed error or the right tensors if it is damaged, ${mutants} times`, async () => {
    const path = fixturePath(`parameters/shared/${name}`);
    const original = readFileSync(path);
    const expected = new Map(await readAll(await readStateDict(path)));
    const target = join(scratch, name);
    const random = randomFrom(1 + facts);
    const outcomes = { read: 0, refused: 0, slowestMs: 0 };
    const before = process.memoryUsage().rss;
    let mostRss = before;
    for (let i = 0; i < mutants; i++) {
      writeFileSync(target, mutate(original, facts, random));
      // The time of this process: other ones run beside the tests.
      const started = process.cpuUsage();
      try {
        const tensors = await readAll(await readStateDict(target));
        outcomes.read++;
        // A checkpoint without some of its keys is a checkpoint: whatever is read must be right.
        if (hasChecksums)
          for (const [key, tensor] of tensors) expect(tensor, `mutant ${i}`).toEqual(expected.get(key));
      } catch (error) {
        if (!isTapirError(error)) throw error;
        expect(error.code, `mutant ${i}`).toBe('STATE_INVALID');
        outcomes.refused++;
      }
      const { user, system } = process.cpuUsage(started);
      outcomes.slowestMs = Math.max(outcomes.slowestMs, (user + system) / 1000);
      mostRss = Math.max(mostRss, process.memoryUsage().rss);
    }
    if (mutants > 1000) console.log(name, outcomes, `${Math.round((mostRss - before) / 2 ** 20)} MB more`);
    expect(outcomes.refused).toBeGreaterThan(mutants / 4);
    expect(outcomes.slowestMs).toBeLessThan(1000);
    expect(mostRss - before).toBeLessThan(100 * 2 ** 20);
  }, 600_000);
});
