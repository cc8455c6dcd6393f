import { describe, expect, it } from 'vitest';
import { chooseStateDict } from '../../../../src/learn/parameters/torch/checkpoint.js';
import { PickledStorage, PickledTensor } from '../../../../src/learn/parameters/torch/torch-pickle.js';

const storage = new PickledStorage('0', 'float32', 1);
const tensor = new PickledTensor(storage, 'float32', { offset: 0, dims: [], strides: [] });
const dict = (items: object): Map<string, unknown> => new Map(Object.entries(items));
const weights = dict({ 'fc.weight': tensor });

describe('chooseStateDict', () => {
  it('takes a state dict as it is', () => {
    expect(chooseStateDict(weights, undefined)).toEqual({ tensors: weights, notes: [] });
  });

  it('leaves out what is not a tensor, and says so', () => {
    const given = dict({ 'fc.weight': tensor, epoch: 3, 'fc._extra_state': dict({ scale: tensor }) });
    expect(chooseStateDict(given, undefined)).toEqual({
      tensors: weights,
      notes: ['left out, because they are not tensors: epoch, fc._extra_state'],
    });
  });

  it('finds the only state dict of a checkpoint, even beside a tensor that is not a weight', () => {
    const optimizer = dict({ state: new Map([[0, dict({ step: tensor })]]), param_groups: [] });
    const given = dict({ model_state: weights, optimizer, loss: tensor });
    expect(chooseStateDict(given, undefined)).toEqual({
      tensors: weights,
      notes: ['it is a checkpoint: its "model_state" was read; left out: optimizer, loss'],
    });
  });

  it('names at most ten of what it leaves out', () => {
    const others = Array.from({ length: 12 }, (_, i) => [`k${i}`, i]);
    const given = new Map<unknown, unknown>([['a', tensor], [7, 7], ...(others as [string, number][])]);
    expect(chooseStateDict(given, undefined).notes[0]).toMatch(
      /\(keys that are not text\), k0, .*k8 and 3 more$/,
    );
  });

  it.each<[string, unknown, RegExp]>([
    ['a tensor', tensor, /single tensor/],
    ['a list', [tensor], /a list/],
    ['a number', 3, /no state dict/],
    ['an empty dict', new Map(), /no tensors by name/],
    ['tensors by number', new Map([[0, tensor]]), /no tensors by name/],
    ['several state dicts', dict({ model: weights, ema: weights }), /several state dicts: "model", "ema"/],
  ])('refuses %s', (_what, value, reason) => {
    expect(() => chooseStateDict(value, undefined)).toThrow(reason);
  });
});
