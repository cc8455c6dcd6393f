/** The sizes of resized images and the places of crops as formulas: those of `images/pixels/geometry.ts`, in whole numbers and float64. */
import type {
  CropOffset,
  CropPlace,
  EdgeLimits,
  MultipleSides,
  RatioFit,
  ResizeTarget,
  Size,
} from '../images/pixels/geometry.js';
import type { Formula, Name } from './formula.js';

/** Height and width: int64 scalars. */
export interface Sides {
  readonly height: Name;
  readonly width: Name;
}

/** A region of a resized image; it may reach beyond. */
export interface Place extends Sides {
  readonly top: Name;
  readonly left: Name;
}

/** The size of a resized image. */
export function sizeFormula(g: Formula, image: Sides, target: ResizeTarget): Sides {
  if (target === null) return image;
  if (typeof target === 'number') return byShortSide(g, image, target);
  if ('fit' in target) return keepRatio(g, image, target);
  if ('multiple' in target) return wholeMultiples(g, image, target);
  if ('shortest' in target) return withinEdges(g, image, target);
  if ('longest' in target) return byLongSide(g, image, target.longest);
  return { height: g.int(target.height), width: g.int(target.width) };
}

function both(image: Sides, sideOf: (side: Name) => Name): Sides {
  return { height: sideOf(image.height), width: sideOf(image.width) };
}

function atLeastOne(g: Formula, side: Name): Name {
  return g.max(side, g.int(1));
}

/** The quotient of whole numbers, rounded down, is what truncating that of doubles gives. */
function byShortSide(g: Formula, image: Sides, short: number): Sides {
  const low = g.min(image.height, image.width);
  return both(image, (side) => g.div(g.mul(side, g.int(short)), low));
}

function double(g: Formula, side: Name): Name {
  return g.cast(side, 'float64');
}

/** Rounds half to even, at least 1. */
function rounded(g: Formula, value: Name): Name {
  return atLeastOne(g, g.cast(g.op('Round', [value]), 'int64'));
}

function withinEdges(g: Formula, image: Sides, { shortest, longest }: EdgeLimits): Sides {
  const low = g.min(image.height, image.width);
  const high = g.max(image.height, image.width);
  const [lowFloat, highFloat] = [double(g, low), double(g, high)];
  const long = g.mul(g.div(highFloat, lowFloat), g.float64(shortest));
  const isLimited = g.op('Greater', [long, g.float64(longest)]);
  const limited = g.div(g.mul(g.float64(longest), lowFloat), highFloat);
  const exact = g.where(isLimited, limited, g.float64(shortest));
  const short = g.where(isLimited, rounded(g, limited), g.int(shortest));
  const isKept = g.op('Equal', [low, short]);
  const longer = atLeastOne(g, g.floorToInt(g.div(g.mul(exact, highFloat), lowFloat)));
  const isSquare = g.op('Equal', [image.height, image.width]);
  const isWide = g.op('Greater', [image.width, image.height]);
  const squareWidth = atLeastOne(g, g.floorToInt(exact));
  const height = g.where(g.op('Or', [isWide, isSquare]), short, longer);
  const width = g.where(isSquare, squareWidth, g.where(isWide, longer, short));
  return { height: g.where(isKept, image.height, height), width: g.where(isKept, image.width, width) };
}

function wholeMultiples(g: Formula, image: Sides, target: MultipleSides): Sides {
  const { multiple } = target;
  const whole = (value: Name, by: Name): Name => g.mul(g.div(value, by), g.int(multiple));
  if (!('height' in target || 'shortest' in target || 'longest' in target))
    return both(image, (side) => whole(side, g.int(multiple)));
  const side = 'height' in target ? target.height : 'shortest' in target ? target.shortest : target.longest;
  const stated = g.int(Math.floor(side / multiple) * multiple);
  const other = (long: Name, by: Name): Name => whole(g.mul(long, g.int(side)), g.mul(by, g.int(multiple)));
  const widthOf = other(image.width, image.height);
  if ('height' in target) return { height: stated, width: widthOf };
  const compare = 'shortest' in target ? 'LessOrEqual' : 'GreaterOrEqual';
  const isHeight = g.op(compare, [image.height, image.width]);
  return {
    height: g.where(isHeight, stated, other(image.height, image.width)),
    width: g.where(isHeight, widthOf, stated),
  };
}

function byLongSide(g: Formula, image: Sides, longest: number): Sides {
  const scale = g.div(g.float64(longest), double(g, g.max(image.height, image.width)));
  return both(image, (side) =>
    atLeastOne(g, g.floorToInt(g.add(g.mul(double(g, side), scale), g.float64(0.5)))),
  );
}

function keepRatio(g: Formula, image: Sides, target: RatioFit): Sides {
  if (target.fit === 'thumbnail') return thumbnail(g, image, target);
  const { height, width } = both(image, (side) => double(g, side));
  if (target.fit === 'nearest') {
    const { multiple = 1 } = target;
    const scales = [g.div(g.float64(target.height), height), g.div(g.float64(target.width), width)] as const;
    const [down, across] = scales.map((scale) => g.op('Abs', [g.sub(g.float64(1), scale)]));
    const scale = g.where(g.op('Less', [across!, down!]), scales[1], scales[0]);
    const sideOf = (side: Name): Name => {
      const times = g.op('Round', [g.div(g.mul(scale, side), g.float64(multiple))]);
      return g.mul(g.cast(times, 'int64'), g.int(multiple));
    };
    return both({ height, width }, sideOf);
  }
  const ratios = [g.div(height, g.float64(target.height)), g.div(width, g.float64(target.width))] as const;
  const ratio = target.fit === 'inside' ? g.max(...ratios) : g.min(...ratios);
  return both({ height, width }, (side) => rounded(g, g.div(side, ratio)));
}

function thumbnail(g: Formula, image: Sides, target: Size): Sides {
  const height = g.min(image.height, g.int(target.height));
  const width = g.min(image.width, g.int(target.width));
  const isTall = g.op('Greater', [image.height, image.width]);
  const isWide = g.op('Greater', [image.width, image.height]);
  const ofHeight = atLeastOne(g, g.div(g.mul(image.width, height), image.height));
  const ofWidth = atLeastOne(g, g.div(g.mul(image.height, width), image.width));
  return { height: g.where(isWide, ofWidth, height), width: g.where(isTall, ofHeight, width) };
}

/** The region to cut from an image of a size. */
export function cropFormula(
  g: Formula,
  size: Sides,
  crop: Sides | null,
  offset: CropOffset,
  place: CropPlace,
): Place {
  const zero = g.int(0);
  if (crop === null) return { top: zero, left: zero, ...size };
  if (place === 'start') return { top: zero, left: zero, ...crop };
  const at = (side: Name, cropped: Name): Name => {
    const half = g.mul(double(g, g.sub(side, cropped)), g.float64(0.5));
    if (offset === 'floor') return g.floorToInt(half);
    if (offset === 'ceil') return g.cast(g.op('Ceil', [half]), 'int64');
    const towardsZero = g.mul(g.op('Sign', [half]), g.floor(g.op('Abs', [half])));
    if (offset === 'trunc') return g.cast(towardsZero, 'int64');
    const isLess = g.op('Less', [side, cropped]);
    return g.cast(g.where(isLess, towardsZero, g.op('Round', [half])), 'int64');
  };
  return { top: at(size.height, crop.height), left: at(size.width, crop.width), ...crop };
}

/** The part of a region that lies inside an image of a size. */
export function visibleFormula(
  g: Formula,
  size: Sides,
  region: Place,
): { readonly top: Name; readonly left: Name; readonly bottom: Name; readonly right: Name } {
  return {
    top: g.max(region.top, g.int(0)),
    left: g.max(region.left, g.int(0)),
    bottom: g.min(size.height, g.add(region.top, region.height)),
    right: g.min(size.width, g.add(region.left, region.width)),
  };
}
