/** Runs → medians per peer, and ratios taken round by round. */
import { ratios, spreadOf, type Spread } from '../measure.js';
import { listCeilings, type Ceiling } from './ceiling.js';
import { figuresOf, type Figures } from './figures.js';
import { isOurs } from './peer-table.js';
import type { Peer } from './peers.js';
import type { Run } from './processes.js';

/** Per peer, its run of each round. */
export type Rounds = Readonly<Record<string, readonly Run[]>>;

/** What a peer takes. A limit times its loop alone, and has no start. */
export interface PeerSummary {
  readonly name: string;
  readonly what: string;
  /** Photos / wall time of the whole process. */
  readonly imagesPerS: Spread;
  /** The start left out: photos after the first / (wall − median wall of a run with one, its cache filled). */
  readonly sustainedPerS: Spread | null;
  readonly cpuSPerImage: Spread | null;
  readonly rssMb: Spread | null;
  readonly pssMb: Spread | null;
  /** Wall time of a process that embeds one photo. */
  readonly startS: Spread | null;
  /** The same with the prepared and compiled models of an earlier run; for ours only, the others have no such cache. */
  readonly cachedStartS: Spread | null;
}

/** One of ours over a peer, round by round. */
export interface Against {
  readonly ours: string;
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
  /** Ours with a filled cache, over the peer's only start. */
  readonly cachedStart: Spread | null;
  readonly bars: readonly Bar[];
}

/** What a ratio's median is held to. */
interface Bar {
  readonly what: 'speed' | 'start' | 'cachedStart';
  readonly bar: string;
  readonly holds: boolean;
}

export interface Summary {
  readonly peers: readonly PeerSummary[];
  readonly against: readonly Against[];
  readonly ceilings: readonly Ceiling[];
  /** Per round, the most of the cores that others used during a run of it. */
  readonly othersShare: { readonly start: readonly number[]; readonly full: readonly number[] };
}

/** Threads as many as cores leave none to others: those who take more than this slow them down. */
export const MOST_OTHERS = 0.05;

/** By ours, then by peer. */
type Bars = Readonly<Record<string, Readonly<Record<string, number>>>>;

const LEAST_SPEED: Bars = {
  tapir: {
    naive: 1.15,
    'transformers.js': 1.3,
    torchvision: 2,
    'torchvision-channels-last': 2,
    'python-onnxruntime': 0.97,
  },
  'tapir-openvino-float32': { tapir: 1.1 },
  'tapir-openvino-bfloat16': { tapir: 3, 'torchvision-bfloat16': 1.5, 'python-openvino': 1.1 },
};
const MOST_START: Bars = { tapir: { naive: 1.2 }, 'tapir-openvino-bfloat16': { naive: 2.5 } };
const MOST_CACHED_START: Bars = { 'tapir-openvino-bfloat16': { naive: 1.3 } };

type Known = readonly (number | null)[];
const isKnown = (list: Known): list is readonly number[] => list.length > 0 && !list.includes(null);
const spreadOfKnown = (list: Known): Spread | null => (isKnown(list) ? spreadOf(list) : null);
const ratiosOfKnown = (a: Known, b: Known): Spread | null => (isKnown(a) && isKnown(b) ? ratios(a, b) : null);

function listBars(ratio: Pick<Against, 'ours' | 'peer' | 'speed' | 'start' | 'cachedStart'>): Bar[] {
  const { ours, peer, speed, start, cachedStart } = ratio;
  const least = LEAST_SPEED[ours]?.[peer];
  const bars: Bar[] =
    least === undefined ? [] : [{ what: 'speed', bar: `>= ${least}`, holds: speed.median >= least }];
  const atMost = (what: Bar['what'], value: Spread | null, most: number | undefined): void => {
    if (most !== undefined && value !== null)
      bars.push({ what, bar: `<= ${most}`, holds: value.median <= most });
  };
  atMost('start', start, MOST_START[ours]?.[peer]);
  atMost('cachedStart', cachedStart, MOST_CACHED_START[ours]?.[peer]);
  return bars;
}

function mostOthers(runs: Rounds): number[] {
  const lists = Object.values(runs);
  return (lists[0] ?? []).map((_, round) => Math.max(...lists.map((list) => list[round]!.othersShare)));
}

/** Sums up runs on so many photos, runs on one photo, and those of ours on one photo with a filled cache. */
export function summarize(
  peers: readonly Pick<Peer, 'name' | 'what'>[],
  photos: number,
  full: Rounds,
  starts: Rounds,
  cachedStarts: Rounds = {},
): Summary {
  const figures = new Map(
    peers.map(({ name }) => [name, figuresOf(photos, full[name]!, starts[name], cachedStarts[name])]),
  );
  const ours = peers.map(({ name }) => name).filter(isOurs);
  return {
    peers: peers.map(({ name, what }) => {
      const { speed, sustained, cpu, start, cachedStart } = figures.get(name)!;
      return {
        name,
        what,
        imagesPerS: spreadOf(speed),
        sustainedPerS: spreadOfKnown(sustained),
        cpuSPerImage: spreadOfKnown(cpu),
        rssMb: spreadOfKnown(full[name]!.map(({ rssMb }) => rssMb)),
        pssMb: spreadOfKnown(full[name]!.map(({ pssMb }) => pssMb)),
        startS: spreadOfKnown(start),
        cachedStartS: spreadOfKnown(cachedStart),
      };
    }),
    against: ours.flatMap((name, i) => {
      // Of two of ours, the later one in the list is held against the earlier one.
      const others = peers.filter((peer) => !isOurs(peer.name) || ours.indexOf(peer.name) < i);
      return others.map((peer) => compareWith(name, peer.name, figures, full));
    }),
    ceilings: ours.flatMap((name) => listCeilings(name, figures)),
    othersShare: { start: mostOthers(starts), full: mostOthers(full) },
  };
}

function compareWith(
  ours: string,
  peer: string,
  figures: ReadonlyMap<string, Figures>,
  full: Rounds,
): Against {
  const [mine, theirs] = [figures.get(ours)!, figures.get(peer)!];
  const perRound = mine.speed.map((speed, round) => speed / theirs.speed[round]!);
  const isQuiet = (_: number, round: number): boolean =>
    [full[peer]!, full[ours]!].every((runs) => runs[round]!.othersShare <= MOST_OTHERS);
  const ratio = {
    ours,
    peer,
    speed: spreadOf(perRound),
    quietSpeed: spreadOfKnown(perRound.filter(isQuiet)),
    sustained: ratiosOfKnown(mine.sustained, theirs.sustained),
    cpu: ratiosOfKnown(mine.cpu, theirs.cpu),
    start: ratiosOfKnown(mine.start, theirs.start),
    cachedStart: ratiosOfKnown(mine.cachedStart, theirs.start),
  };
  return { ...ratio, bars: listBars(ratio) };
}
