/** What the same cores could reach at most: decoding alone and the model alone, one after the other. */
import { spreadOf, type Spread } from '../measure.js';
import type { Figures } from './figures.js';

const DECODE = 'limit-decode';
/** The model alone, on the engine that ours uses; of several ways to run it, the fastest of a round counts. */
const MODEL: Readonly<Record<string, readonly string[]>> = {
  tapir: ['limit', 'limit-workers'],
  'tapir-openvino-float32': ['limit-openvino-float32'],
  'tapir-openvino-bfloat16': ['limit-openvino-bfloat16'],
};
const LEAST_SHARE = 0.9;

/** One of ours against 1/(1/decode + 1/model), round by round. */
export interface Ceiling {
  readonly ours: string;
  readonly decodePerS: Spread;
  readonly modelPerS: Spread;
  readonly ceilingPerS: Spread;
  /** Images/s of the whole process / ceiling. */
  readonly share: Spread;
  /** The same without the start, which the ceiling does not have either: the bar is on this one. */
  readonly sustainedShare: Spread | null;
  readonly bar: string;
  readonly holds: boolean | null;
}

/** None if one of the limits did not run. */
export function listCeilings(ours: string, figures: ReadonlyMap<string, Figures>): Ceiling[] {
  const mine = figures.get(ours)!;
  const decode = figures.get(DECODE)?.speed;
  const models = (MODEL[ours] ?? []).flatMap((name) => figures.get(name) ?? []);
  if (decode === undefined || models.length === 0) return [];
  const model = decode.map((_, round) => Math.max(...models.map(({ speed }) => speed[round]!)));
  const ceiling = decode.map((speed, round) => 1 / (1 / speed + 1 / model[round]!));
  const shareOf = (speeds: readonly number[]): Spread =>
    spreadOf(speeds.map((speed, round) => speed / ceiling[round]!));
  const isComplete = (speeds: readonly (number | null)[]): speeds is readonly number[] =>
    !speeds.includes(null);
  const sustainedShare = isComplete(mine.sustained) ? shareOf(mine.sustained) : null;
  return [
    {
      ours,
      decodePerS: spreadOf(decode),
      modelPerS: spreadOf(model),
      ceilingPerS: spreadOf(ceiling),
      share: shareOf(mine.speed),
      sustainedShare,
      bar: `>= ${LEAST_SHARE}`,
      holds: sustainedShare && sustainedShare.median >= LEAST_SHARE,
    },
  ];
}
