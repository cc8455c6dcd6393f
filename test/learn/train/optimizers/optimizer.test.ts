/** The optimizers against torch's trajectories, and what they refuse. */
import { describe, expect, it } from 'vitest';
import { readOptimizer, type OptimizerState } from '../../../../src/learn/train/optimizers/optimizer.js';
import type { OptimizerLike } from '../../../../src/learn/train/optimizers/optimizer-options.js';
import { givenOf, optimizerRuns, type OptimizerRun } from '../../../support/train-fixtures.js';

const { parameter, gradients, runs } = optimizerRuns;

/** The parameter after each step. */
function train(run: OptimizerRun): number[][] {
  const optimizer = readOptimizer(givenOf(run));
  const values = new Float32Array(parameter);
  const state = optimizer.start(values.length);
  return gradients.map((gradient, i) => {
    const momentum = run.momentum && { momentum: run.momentum[i]! };
    const at = { step: i + 1, lr: run.lr?.[i] ?? optimizer.options.lr, ...momentum };
    optimizer.update(values, new Float32Array(gradient), state, at);
    return [...values];
  });
}

/** The largest difference, as a share of the expected value. A NaN is the largest of all. */
function relativeError(actual: readonly number[], expected: readonly number[]): number {
  const errors = expected.map((value, i) => Math.abs(actual[i]! - value) / Math.abs(value));
  return errors.some(Number.isNaN) ? Infinity : Math.max(...errors);
}

describe('optimizers against torch', () => {
  it.each(
    runs.map((run) => [run.kind, JSON.stringify(run.options), run.lr ? 'in one cycle' : '', run] as const),
  )('%s %s %s', (_kind, _options, _cycle, run) => {
    for (const [i, values] of train(run).entries())
      expect(relativeError(values, run.after[i]!), `step ${i + 1}`).toBeLessThan(1e-6);
  });

  it('covers every optimizer, and every option changes something', () => {
    expect(new Set(runs.map(({ kind }) => kind))).toEqual(
      new Set(['sgd', 'adam', 'adamw', 'rmsprop', 'adagrad']),
    );
    const ends = runs.map(({ after }) => JSON.stringify(after.at(-1)));
    expect(new Set(ends).size).toBe(runs.length);
  });
});

describe('readOptimizer', () => {
  it("has torch's defaults", () => {
    expect(readOptimizer('sgd').options).toMatchObject({ lr: 0.001, momentum: 0, weightDecay: 0 });
    expect(readOptimizer('adam').options).toMatchObject({ lr: 0.001, betas: [0.9, 0.999], eps: 1e-8 });
    expect(readOptimizer('adamw').options).toMatchObject({ lr: 0.001, weightDecay: 0.01 });
    expect(readOptimizer('rmsprop').options).toMatchObject({ lr: 0.01, alpha: 0.99, centered: false });
    expect(readOptimizer('adagrad').options).toMatchObject({ lr: 0.01, lrDecay: 0, eps: 1e-10 });
    expect(readOptimizer({ kind: 'adam', lr: undefined })).toMatchObject({ options: { lr: 0.001 } });
  });

  it.each<[OptimizerLike, readonly string[]]>([
    ['sgd', []],
    [{ kind: 'sgd', momentum: 0.9 }, ['momentum']],
    ['adamw', ['mean', 'square']],
    [{ kind: 'adam', amsgrad: true }, ['mean', 'square', 'largest']],
    ['rmsprop', ['square']],
    [{ kind: 'rmsprop', centered: true, momentum: 0.9 }, ['square', 'mean', 'momentum']],
    ['adagrad', ['sum']],
  ])('%j keeps %j', (given, names) => {
    const optimizer = readOptimizer(given);
    expect(optimizer.keeps).toEqual(names);
    expect(Object.keys(optimizer.start(3))).toEqual(names);
  });

  it('starts at zero, and Adagrad at its initial accumulator', () => {
    expect(readOptimizer('adam').start(2)).toEqual({
      mean: new Float32Array(2),
      square: new Float32Array(2),
    });
    const adagrad = readOptimizer({ kind: 'adagrad', initialAccumulatorValue: 0.5 });
    expect(adagrad.start(2)).toEqual({ sum: Float32Array.of(0.5, 0.5) });
  });

  it.each<[unknown, string, RegExp]>([
    ['adamax', 'optimizer', /one of "sgd", "adam", "adamw", "rmsprop", "adagrad", got "adamax"/],
    [null, 'optimizer', /the name of an optimizer or its options/],
    [{ lr: 0.1 }, 'optimizer.kind', /one of "sgd"/],
    [{ kind: 'sgd', betas: [0.9, 0.9] }, 'betas', /the optimizer "sgd" has no option "betas"; it has lr, /],
    [{ kind: 'sgd', lr: -1 }, 'optimizer.lr', /a finite number from 0, got -1/],
    [{ kind: 'sgd', lr: NaN }, 'optimizer.lr', /a finite number/],
    [{ kind: 'sgd', momentum: -0.1 }, 'optimizer.momentum', /from 0/],
    [{ kind: 'sgd', dampening: '0' }, 'optimizer.dampening', /a finite number/],
    [{ kind: 'sgd', nesterov: true }, 'optimizer.nesterov', /Nesterov needs a momentum/],
    [{ kind: 'sgd', nesterov: true, momentum: 0.9, dampening: 0.1 }, 'optimizer.nesterov', /no dampening/],
    [{ kind: 'sgd', maximize: 1 }, 'optimizer.maximize', /true or false/],
    [{ kind: 'adam', betas: [0.9, 1] }, 'optimizer.betas', /two numbers from 0 and below 1/],
    [{ kind: 'adamw', betas: [0.9] }, 'optimizer.betas', /two numbers/],
    [{ kind: 'adam', eps: -1e-8 }, 'optimizer.eps', /from 0/],
    [{ kind: 'adamw', weightDecay: -1 }, 'optimizer.weightDecay', /from 0/],
    [{ kind: 'rmsprop', alpha: Infinity }, 'optimizer.alpha', /finite/],
    [{ kind: 'rmsprop', centered: 'yes' }, 'optimizer.centered', /true or false/],
    [{ kind: 'adagrad', lrDecay: -1 }, 'optimizer.lrDecay', /from 0/],
    [{ kind: 'adagrad', initialAccumulatorValue: -1 }, 'optimizer.initialAccumulatorValue', /from 0/],
  ])('refuses %j', (given, option, message) => {
    const read = (): unknown => readOptimizer(given as OptimizerLike);
    expect(read).toThrow(message);
    expect(read).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', details: expect.objectContaining({ option }) }),
    );
  });
});

describe('Optimizer', () => {
  it('goes on from a stored state with the same bits', () => {
    for (const run of runs) {
      const optimizer = readOptimizer(givenOf(run));
      const whole = train(run).at(-1);
      const values = new Float32Array(parameter);
      let state: OptimizerState = optimizer.start(values.length);
      for (const [i, gradient] of gradients.entries()) {
        const momentum = run.momentum && { momentum: run.momentum[i]! };
        const at = { step: i + 1, lr: run.lr?.[i] ?? optimizer.options.lr, ...momentum };
        optimizer.update(values, new Float32Array(gradient), state, at);
        state = Object.fromEntries(Object.entries(state).map(([name, kept]) => [name, kept.slice()]));
      }
      expect([...values], JSON.stringify(run.options)).toEqual(whole);
    }
  });

  it('leaves the gradient as it is', () => {
    for (const run of runs) {
      const optimizer = readOptimizer(givenOf(run));
      const gradient = Float32Array.of(1, -2);
      optimizer.update(Float32Array.of(3, 4), gradient, optimizer.start(2), { step: 1, lr: 0.1 });
      expect(gradient).toEqual(Float32Array.of(1, -2));
    }
  });
});
