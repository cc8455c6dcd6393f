/** Runs → medians per peer, and ratios taken round by round. */
import { ratios, spreadOf, type Spread } from '../measure.js';
import { BARS_OF_RESNET50, listBars, type Bar, type Bars, type Ratio } from './bars.js';
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

export interface Against extends Ratio {
  readonly bars: readonly Bar[];
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

type Known = readonly (number | null)[];
const isKnown = (list: Known): list is readonly number[] => list.length > 0 && !list.includes(null);
const spreadOfKnown = (list: Known): Spread | null => (isKnown(list) ? spreadOf(list) : null);
const ratiosOfKnown = (a: Known, b: Known): Spread | null => (isKnown(a) && isKnown(b) ? ratios(a, b) : null);

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
  bars: Bars = BARS_OF_RESNET50,
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
      return others.map((peer) => compareWith(name, peer.name, figures, full, bars));
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
  bars: Bars,
): Against {
  const [mine, theirs] = [figures.get(ours)!, figures.get(peer)!];
  const perRound = mine.speed.map((speed, round) => speed / theirs.speed[round]!);
  const isQuiet = (_: number, round: number): boolean =>
    [full[peer]!, full[ours]!].every((runs) => runs[round]!.othersShare <= MOST_OTHERS);
  const ratio: Ratio = {
    ours,
    peer,
    speed: spreadOf(perRound),
    quietSpeed: spreadOfKnown(perRound.filter(isQuiet)),
    sustained: ratiosOfKnown(mine.sustained, theirs.sustained),
    cpu: ratiosOfKnown(mine.cpu, theirs.cpu),
    start: ratiosOfKnown(mine.start, theirs.start),
    cachedStart: ratiosOfKnown(mine.cachedStart, theirs.start),
  };
  return { ...ratio, bars: listBars(bars, ratio) };
}
