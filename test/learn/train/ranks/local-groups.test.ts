/** Groups inside one program: sums, what ranks share, and ranks that stay away. */
import { describe, expect, it } from 'vitest';
import {
  compareFacts,
  compareTensors,
  gatherTexts,
  meet,
} from '../../../../src/learn/train/ranks/compare-ranks.js';
import { localGroups } from '../../../../src/learn/train/ranks/local-groups.js';
import type { ProcessGroup } from '../../../../src/learn/train/ranks/process-group.js';

/** What each rank's call gives: its result, or its error. */
async function onRanks<Result>(
  size: number,
  call: (group: ProcessGroup) => Promise<Result>,
  options: { readonly timeoutMs?: number } = {},
): Promise<unknown[]> {
  const settled = await Promise.allSettled(localGroups(size, options).map(call));
  return settled.map((one) => (one.status === 'fulfilled' ? one.value : one.reason));
}

describe('a sum', () => {
  it('replaces each element by that over ranks, the same on each', async () => {
    const sums = await onRanks(3, async (group) => {
      const arrays = [Float64Array.of(group.rank, 1), Float64Array.of(10 ** group.rank)];
      await group.sum(arrays);
      return arrays.map((array) => Array.from(array));
    });
    expect(sums).toEqual(Array(3).fill([[3, 3], [111]]));
  });

  it('of float32 is rounded once', async () => {
    // In float32, 2^24 + 1 + 1 is 2^24.
    const values = [2 ** 24, 1, 1];
    const sums = await onRanks(3, async (group) => {
      const own = Float32Array.of(values[group.rank]!);
      await group.sum([own]);
      return own[0];
    });
    expect(sums).toEqual(Array(3).fill(2 ** 24 + 2));
  });

  it('of other lengths is refused on all ranks', async () => {
    const errors = await onRanks(3, (group) => group.sum([new Float64Array(group.rank === 2 ? 2 : 1)]));
    for (const error of errors) expect(error).toMatchObject({ code: 'RANKS_DIFFER', details: { rank: 2 } });
  });
});

describe('a rank that is lost', () => {
  it('by its signal ends the calls of the others, which name it', async () => {
    const abort = new AbortController();
    const calls = onRanks(3, async (group) => {
      if (group.rank === 1) setTimeout(() => abort.abort(new Error('enough')), 10);
      if (group.rank === 2)
        return new Promise((resolve) => setTimeout(resolve, 50)).then(() => group.barrier());
      return group.sum([new Float64Array(1)], group.rank === 1 ? abort.signal : undefined);
    });
    const lost = { code: 'RANK_LOST', details: { rank: 1, reason: 'it was stopped' } };
    expect(await calls).toMatchObject([lost, { message: 'enough' }, lost]);
  });

  it('by leaving is named with its reason', async () => {
    const errors = await onRanks(2, (group) =>
      group.rank === 1 ? group.close('no more rows') : group.barrier(),
    );
    expect(errors).toMatchObject([
      { code: 'RANK_LOST', message: expect.stringMatching(/^rank 1 is lost: no more rows;/) },
      undefined,
    ]);
  });

  it('by staying away is named after the timeout, and finds the group closed', async () => {
    const errors = await onRanks(
      2,
      async (group) => {
        if (group.rank === 1) await new Promise((resolve) => setTimeout(resolve, 80));
        return group.barrier();
      },
      { timeoutMs: 20 },
    );
    const lost = { code: 'RANK_LOST', details: { rank: 1, reason: expect.stringMatching(/within 20 ms/) } };
    expect(errors).toMatchObject([lost, lost]);
  });
});

it('gives all ranks the bytes of rank 0, and the texts of each', async () => {
  expect(await onRanks(2, (group) => group.broadcast(Uint8Array.of(7 + group.rank)))).toEqual([
    Uint8Array.of(7),
    Uint8Array.of(7),
  ]);
  const texts = ['', 'ä😀', 'b'];
  expect(await onRanks(3, (group) => gatherTexts(group, texts[group.rank]!))).toEqual([texts, texts, texts]);
});

it('notices a rank that makes another call, or has taken other steps', async () => {
  const calls = await onRanks(2, (group) => meet(group, group.rank === 0 ? 'step' : 'save', 4));
  expect(calls).toMatchObject(
    Array(2).fill({
      code: 'RANKS_DIFFER',
      details: { rank: 1, what: 'call' },
      message: expect.stringMatching(/it calls save after step 4, rank 0 step after step 4/),
    }),
  );
  const steps = await onRanks(2, (group) => meet(group, 'step', group.rank));
  expect(steps).toMatchObject(Array(2).fill({ code: 'RANKS_DIFFER' }));
  expect(await onRanks(2, (group) => meet(group, 'step', 1, [group.rank, 2]))).toEqual(
    Array(2).fill([1, 4, 0, 0, 0]),
  );
});

it('names the first fact and the first tensor that differ', async () => {
  const facts = await onRanks(3, (group) =>
    compareFacts(group, { model: 'a', lr: group.rank === 2 ? 1 : 2 }),
  );
  expect(facts).toMatchObject(Array(3).fill({ code: 'RANKS_DIFFER', details: { rank: 2, what: '"lr"' } }));
  const tensors = await onRanks(2, (group) =>
    compareTensors(
      group,
      [
        { name: 'fc.bias', values: Float32Array.of(1) },
        { name: 'fc.weight', values: Float32Array.of(group.rank * 1e-8) },
      ],
      7,
    ),
  );
  const message = expect.stringMatching(/^rank 1 has another "fc.weight" after step 7 than rank 0/);
  expect(tensors).toMatchObject(Array(2).fill({ code: 'RANKS_DIFFER', message }));
});

it('refuses sizes and times out of range', () => {
  expect(() => localGroups(0)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  expect(() => localGroups(2, { timeoutMs: 0 })).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
});
