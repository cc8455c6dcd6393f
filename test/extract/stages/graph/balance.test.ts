import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../../src/base/random.js';
import { balance, type CostLine } from '../../../../src/extract/stages/graph/balance.js';

const free = { firstThatFits: () => 0, mayIdle: true };
const everywhere = (costs: readonly number[]): CostLine['places'] =>
  costs.slice(1).map((_, i) => ({ front: i + 1, bytes: 1 }));

/** The sums of the stages that the places make. */
function sums({ costs, places }: CostLine, chosen: readonly number[]): number[] {
  const ends = [0, ...chosen.map((at) => places[at]!.front), costs.length];
  return ends.slice(1).map((end, i) => costs.slice(ends[i], end).reduce((sum, cost) => sum + cost, 0));
}

/** All ways to choose places in order. */
function* ways(count: number, of: number, from = 0): Generator<number[]> {
  if (count === 0) yield [];
  else for (let at = from; at < of; at++) for (const rest of ways(count - 1, of, at + 1)) yield [at, ...rest];
}

describe('balance', () => {
  it('makes the largest stage as small as possible', () => {
    const costs = [5, 1, 1, 2, 5, 1];
    const line = { costs, places: everywhere(costs), ...free };
    expect(sums(line, balance(line, 2)!)).toEqual([7, 8]);
    expect(Math.max(...sums(line, balance(line, 3)!))).toBe(6);
  });

  it('crosses the fewest bytes among the best ways', () => {
    const costs = [4, 0, 0, 4];
    const places = [3, 1, 2].map((bytes, i) => ({ front: i + 1, bytes }));
    expect(balance({ costs, places, ...free }, 2)).toEqual([1]);
  });

  it('keeps to the memory of each stage, or finds no way', () => {
    const costs = [1, 1, 1, 1];
    const line = { costs, places: everywhere(costs), ...free };
    const uneven = (to: number, stage: number): number => to - (stage === 0 ? 1 : 3);
    expect(balance({ ...line, firstThatFits: uneven }, 2)).toEqual([0]);
    expect(balance({ ...line, firstThatFits: (to) => to - 1 }, 3)).toBeUndefined();
    expect(balance(line, 5)).toBeUndefined();
    expect(balance(line, 1)).toEqual([]);
  });

  it('cuts 10,000 nodes into 16 stages within a second of CPU', () => {
    const random = createRandom(3);
    const costs = Array.from({ length: 10_000 }, () => random());
    const began = process.cpuUsage();
    const line = { costs, places: everywhere(costs), ...free, mayIdle: false };
    const mean = costs.reduce((sum, cost) => sum + cost, 0) / 16;
    expect(Math.max(...sums(line, balance(line, 16)!))).toBeLessThan(mean + 1);
    expect(process.cpuUsage(began).user / 1e6).toBeLessThan(1);
  });

  it('is as good as trying all ways', () => {
    const random = createRandom(18);
    for (let round = 0; round < 200; round++) {
      const costs = Array.from({ length: 9 }, () => Math.floor(random() * 5));
      const places = everywhere(costs)
        .filter(() => random() < 0.7)
        .map(({ front }) => ({ front, bytes: Math.floor(random() * 4) }));
      const stages = 1 + Math.floor(random() * 4);
      const mayIdle = round % 2 === 0;
      const reach = (stage: number): number => 6 - stage;
      const line = {
        // Fractions whose sums are exact.
        costs: round % 3 === 0 ? costs.map((cost) => (cost * Math.floor(random() * 64)) / 64) : costs,
        places,
        firstThatFits: (to: number, stage: number) => to - reach(stage),
        mayIdle,
      };
      let best: [number, number] | undefined;
      for (const way of ways(stages - 1, places.length)) {
        const ends = [0, ...way.map((at) => places[at]!.front), costs.length];
        const fits = (end: number, i: number): boolean => end - ends[i]! <= reach(i);
        if (!ends.slice(1).every(fits)) continue;
        if (!mayIdle && sums(line, way).includes(0)) continue;
        const found: [number, number] = [
          Math.max(...sums(line, way)),
          way.reduce((sum, at) => sum + places[at]!.bytes, 0),
        ];
        if (!best || found[0] < best[0] || (found[0] === best[0] && found[1] < best[1])) best = found;
      }
      const chosen = balance(line, stages);
      const given = chosen && [
        Math.max(...sums(line, chosen)),
        chosen.reduce((sum, at) => sum + places[at]!.bytes, 0),
      ];
      expect(given).toEqual(best);
    }
  });
});
