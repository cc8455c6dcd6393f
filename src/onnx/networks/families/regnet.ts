/** RegNet: Radosavovic et al., "Designing Network Design Spaces", 2020; X is without, Y with squeeze and excitation. */
import { roundHalfEven } from '../../../base/round-half-even.js';
import type { Architecture, Family } from '../architecture.js';
import { convNorm, divisible, squeezeExcitation } from '../blocks.js';
import { BRANCH_GAIN, activate, add, flatten, globalPool, linear } from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

/** The rule of the paper for the widths of all blocks: a straight line, rounded to powers of a multiplier and to eights. */
interface Rule {
  readonly depth: number;
  /** Width at the start of the line. */
  readonly start: number;
  readonly slope: number;
  readonly multiplier: number;
  readonly groupWidth: number;
}

interface Stage {
  readonly width: number;
  readonly groupWidth: number;
  count: number;
}

function stagesOf({ depth, start, slope, multiplier, groupWidth }: Rule): Stage[] {
  const stages = new Map<number, Stage>();
  for (let k = 0; k < depth; k++) {
    const power = Math.round(Math.log((start + slope * k) / start) / Math.log(multiplier));
    const width = roundHalfEven((start * multiplier ** power) / 8) * 8;
    const group = Math.min(groupWidth, width);
    const stage = stages.get(width) ?? { width: divisible(width, group), groupWidth: group, count: 0 };
    stage.count++;
    stages.set(width, stage);
  }
  return [...stages.values()];
}

function writeBlock(
  block: Module,
  x: Value,
  { width, groupWidth }: Stage,
  stride: number,
  squeezes: boolean,
): Value {
  const shortcut = x.channels === width && stride === 1 ? x : convNorm(block, 'proj', x, width, { stride });
  const body = block.child('f');
  let y = convNorm(body, 'a', x, width, { activation: 'relu' });
  const groups = width / groupWidth;
  y = convNorm(body, 'b', y, width, { kernel: 3, stride, groups, activation: 'relu' });
  if (squeezes) y = squeezeExcitation(body, 'se', y, Math.round(0.25 * x.channels), ['relu', 'sigmoid']);
  y = convNorm(body, 'c', y, width, { norm: { gain: BRANCH_GAIN } });
  return activate(block, 'activation', add(block, shortcut, y), 'relu');
}

function regnet(rule: Rule, squeezes: boolean): Architecture {
  return {
    write(network, image, { classes }) {
      let x = convNorm(network, 'stem', image, 32, { kernel: 3, stride: 2, activation: 'relu' });
      const trunk = network.child('trunk_output');
      stagesOf(rule).forEach((stage, at) => {
        const name = `block${at + 1}`;
        for (let k = 0; k < stage.count; k++)
          x = writeBlock(trunk.child(name).child(`${name}-${k}`), x, stage, k === 0 ? 2 : 1, squeezes);
      });
      x = flatten(network, globalPool(network, 'avgpool', x));
      network.startHead();
      return linear(network, 'fc', x, classes);
    },
  };
}

/** Depth, start, slope, multiplier and group width, by the billions of operations. */
type Row = readonly [number, number, number, number, number];

const X: Readonly<Record<string, Row>> = {
  '400mf': [22, 24, 24.48, 2.54, 16],
  '800mf': [16, 56, 35.73, 2.28, 16],
  '1_6gf': [18, 80, 34.01, 2.25, 24],
  '3_2gf': [25, 88, 26.31, 2.25, 48],
  '8gf': [23, 80, 49.56, 2.88, 120],
  '16gf': [22, 216, 55.59, 2.1, 128],
  '32gf': [23, 320, 69.86, 2, 168],
};
const Y: Readonly<Record<string, Row>> = {
  '400mf': [16, 48, 27.89, 2.09, 8],
  '800mf': [14, 56, 38.84, 2.4, 16],
  '1_6gf': [27, 48, 20.71, 2.65, 24],
  '3_2gf': [21, 80, 42.63, 2.66, 24],
  '8gf': [17, 192, 76.82, 2.19, 56],
  '16gf': [18, 200, 106.23, 2.48, 112],
  '32gf': [20, 232, 115.89, 2.53, 232],
  '128gf': [27, 456, 160.83, 2.52, 264],
};

function regnets(letter: string, rows: Readonly<Record<string, Row>>): Family {
  return Object.fromEntries(
    Object.entries(rows).map(([size, [depth, start, slope, multiplier, groupWidth]]) => [
      `regnet_${letter}_${size}`,
      regnet({ depth, start, slope, multiplier, groupWidth }, letter === 'y'),
    ]),
  );
}

export const REGNETS: Family = { ...regnets('x', X), ...regnets('y', Y) };
