/** Runs → medians per peer, and ratios taken round by round. */
import { ratios, spreadOf, type Spread } from '../measure.js';
import { OURS, type Peer } from './peers.js';
import type { Run } from './processes.js';

/** Per peer, its run of each round. */
export type Rounds = Readonly<Record<string, readonly Run[]>>;

/** What a peer takes. A limit times its loop alone, and has no start. */
export interface PeerSummary {
  readonly name: string;
  readonly what: string;
  /** Photos / wall time of the whole process. */
  readonly imagesPerS: Spread;
  /** The start left out: photos after the first / (wall − median wall of a run with one). */
  readonly sustainedPerS: Spread | null;
  readonly cpuSPerImage: Spread | null;
  readonly rssMb: Spread | null;
  readonly pssMb: Spread | null;
  /** Wall time of a process that embeds one photo. */
  readonly startS: Spread | null;
}

/** We over a peer, round by round. */
export interface Against {
  readonly peer: string;
  /** Images/s. */
  readonly speed: Spread;
  /** The same of rounds in which others left both alone; null if there was none. */
  readonly quietSpeed: Spread | null;
  /** Images/s, the start left out. */
  readonly sustained: Spread | null;
  /** CPU time per image. */
  readonly cpu: Spread | null;
  readonly start: Spread | null;
  readonly bars: readonly Bar[];
}

/** What a ratio's median is held to. */
interface Bar {
  readonly what: 'speed' | 'start';
  readonly bar: string;
  readonly holds: boolean;
}

export interface Summary {
  readonly peers: readonly PeerSummary[];
  readonly against: readonly Against[];
  /** Per round, the most of the cores that others used during a run of it. */
  readonly othersShare: { readonly start: readonly number[]; readonly full: readonly number[] };
}

/** Threads as many as cores leave none to others: those who take more than this slow them down. */
export const MOST_OTHERS = 0.05;

const LEAST_SPEED: Readonly<Record<string, number>> = {
  naive: 1.15,
  'transformers.js': 1.3,
  torchvision: 2,
  'torchvision-channels-last': 2,
  'python-onnxruntime': 0.97,
};
const MOST_START: Readonly<Record<string, number>> = { naive: 1.2 };

/** Figures of one peer, by round. */
interface Figures {
  readonly speed: readonly number[];
  readonly sustained: readonly (number | null)[];
  readonly cpu: readonly (number | null)[];
  readonly start: readonly number[];
}

/** Those of a limit are of its own loop, which runs whole batches. */
function figuresOf(photos: number, runs: readonly Run[], starts: readonly Run[] = []): Figures {
  const start = starts.map(({ wallS }) => wallS);
  const typical = start.length > 0 ? spreadOf(start).median : 0;
  const figures = runs.map(({ wallS, cpuS, printed: { n, loopS, loopCpuS } }) => {
    if (typeof n === 'number' && typeof loopS === 'number' && typeof loopCpuS === 'number')
      return { speed: n / loopS, sustained: n / loopS, cpu: loopCpuS / n };
    const sustained = start.length > 0 && wallS > typical ? (photos - 1) / (wallS - typical) : null;
    return { speed: photos / wallS, sustained, cpu: cpuS === null ? null : cpuS / photos };
  });
  return {
    speed: figures.map(({ speed }) => speed),
    sustained: figures.map(({ sustained }) => sustained),
    cpu: figures.map(({ cpu }) => cpu),
    start,
  };
}

type Known = readonly (number | null)[];
const isKnown = (list: Known): list is readonly number[] => list.length > 0 && !list.includes(null);
const spreadOfKnown = (list: Known): Spread | null => (isKnown(list) ? spreadOf(list) : null);
const ratiosOfKnown = (a: Known, b: Known): Spread | null => (isKnown(a) && isKnown(b) ? ratios(a, b) : null);

function listBars(peer: string, speed: Spread, start: Spread | null): Bar[] {
  const [least, most] = [LEAST_SPEED[peer], MOST_START[peer]];
  return [
    ...(least === undefined
      ? []
      : [{ what: 'speed', bar: `>= ${least}`, holds: speed.median >= least } as const]),
    ...(most === undefined || start === null
      ? []
      : [{ what: 'start', bar: `<= ${most}`, holds: start.median <= most } as const]),
  ];
}

function mostOthers(runs: Rounds): number[] {
  const lists = Object.values(runs);
  return (lists[0] ?? []).map((_, round) => Math.max(...lists.map((list) => list[round]!.othersShare)));
}

/** Sums up runs on so many photos, and runs on one. */
export function summarize(
  peers: readonly Pick<Peer, 'name' | 'what'>[],
  photos: number,
  full: Rounds,
  starts: Rounds,
): Summary {
  const figures = new Map(peers.map(({ name }) => [name, figuresOf(photos, full[name]!, starts[name])]));
  const ours = figures.get(OURS)!;
  const isQuiet = (name: string, round: number): boolean =>
    [full[name]!, full[OURS]!].every((runs) => runs[round]!.othersShare <= MOST_OTHERS);
  return {
    peers: peers.map(({ name, what }) => {
      const { speed, sustained, cpu, start } = figures.get(name)!;
      return {
        name,
        what,
        imagesPerS: spreadOf(speed),
        sustainedPerS: spreadOfKnown(sustained),
        cpuSPerImage: spreadOfKnown(cpu),
        rssMb: spreadOfKnown(full[name]!.map(({ rssMb }) => rssMb)),
        pssMb: spreadOfKnown(full[name]!.map(({ pssMb }) => pssMb)),
        startS: spreadOfKnown(start),
      };
    }),
    against: peers
      .filter(({ name }) => name !== OURS)
      .map(({ name }) => {
        const theirs = figures.get(name)!;
        const perRound = ours.speed.map((speed, round) => speed / theirs.speed[round]!);
        const speed = spreadOf(perRound);
        const start = ratiosOfKnown(ours.start, theirs.start);
        return {
          peer: name,
          speed,
          quietSpeed: spreadOfKnown(perRound.filter((_, round) => isQuiet(name, round))),
          sustained: ratiosOfKnown(ours.sustained, theirs.sustained),
          cpu: ratiosOfKnown(ours.cpu, theirs.cpu),
          start,
          bars: listBars(name, speed, start),
        };
      }),
    othersShare: { start: mostOthers(starts), full: mostOthers(full) },
  };
}
