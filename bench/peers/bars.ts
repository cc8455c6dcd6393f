/** What medians of ratios are held to: by ours, then by peer. */
import type { Spread } from '../measure.js';

type Ratios = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** What the ratios of one model are held to. */
export interface Bars {
  readonly leastSpeed: Ratios;
  readonly mostStart: Ratios;
  readonly mostCachedStart: Ratios;
}

/** A ratio's bar, and whether its median holds it. */
export interface Bar {
  readonly what: 'speed' | 'start' | 'cachedStart';
  readonly bar: string;
  readonly holds: boolean;
}

/** One of ours over a peer, round by round. */
export interface Ratio {
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
}

export const BARS_OF_RESNET50: Bars = {
  leastSpeed: {
    tapir: {
      naive: 1.15,
      'transformers.js': 1.3,
      torchvision: 2,
      'torchvision-channels-last': 2,
      'python-onnxruntime': 0.97,
    },
    'tapir-openvino-float32': { tapir: 1.1 },
    'tapir-openvino-bfloat16': {
      tapir: 3,
      'torchvision-bfloat16': 1.5,
      'torchvision-bfloat16-workers': 1.5,
      'python-openvino': 1.1,
    },
  },
  mostStart: { tapir: { naive: 1.2 }, 'tapir-openvino-bfloat16': { naive: 2.5 } },
  mostCachedStart: { 'tapir-openvino-bfloat16': { naive: 1.3 } },
};

/** Stated for a ViT-B/16. */
export const BARS_OF_OTHERS: Bars = {
  leastSpeed: { 'tapir-openvino-float32': { tapir: 1.1 }, 'tapir-openvino-bfloat16': { tapir: 2.8 } },
  mostStart: {},
  mostCachedStart: {},
};

export function listBars(bars: Bars, { ours, peer, speed, start, cachedStart }: Ratio): Bar[] {
  const least = bars.leastSpeed[ours]?.[peer];
  const mostStart = bars.mostStart[ours]?.[peer];
  const mostCached = bars.mostCachedStart[ours]?.[peer];
  const list: Bar[] = [];
  if (least !== undefined) list.push({ what: 'speed', bar: `>= ${least}`, holds: speed.median >= least });
  if (mostStart !== undefined && start)
    list.push({ what: 'start', bar: `<= ${mostStart}`, holds: start.median <= mostStart });
  if (mostCached !== undefined && cachedStart)
    list.push({ what: 'cachedStart', bar: `<= ${mostCached}`, holds: cachedStart.median <= mostCached });
  return list;
}
