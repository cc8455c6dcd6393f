/** The tables of operators that compute in float16, and of those that do not. */
import { describe, expect, it } from 'vitest';
import {
  canConvert,
  convertibleOperators,
  halfForm,
  isKnownOperator,
  keptReason,
  readsAnyType,
} from '../../../../src/products/precision/graph/half-forms.js';

describe('operators in float16', () => {
  it('compute if they hold the weights, and follow what they read otherwise', () => {
    expect(['Conv', 'Gemm', 'MatMul'].map(halfForm)).toEqual(['computes', 'computes', 'computes']);
    expect(['Add', 'Relu', 'BatchNormalization'].map(halfForm)).toEqual(['follows', 'follows', 'follows']);
    // The product of its input and a Sigmoid, which both follow.
    expect(halfForm('Swish')).toBe('follows');
    expect(['Reshape', 'Transpose'].map(halfForm)).toEqual(['moves', 'moves']);
  });

  it.each([
    ['LayerNormalization', /sums many terms/],
    ['ReduceMean', /sums many terms/],
    ['Softmax', /exponentials or powers/],
    ['Pow', /exponentials or powers/],
    ['Resize', /positions or an order/],
    ['TopK', /positions or an order/],
    ['NoSuchOperator', /not known/],
  ])('%s stays in float32', (operator, reason) => {
    expect(halfForm(operator)).toBeUndefined();
    expect(keptReason(operator)).toMatch(reason);
  });

  it('lets an option overrule sums and exponentials, not positions', () => {
    expect(convertibleOperators()).toContain('Softmax');
    expect(canConvert('Resize')).toBe(false);
    for (const operator of convertibleOperators()) {
      expect(halfForm(operator), operator).toBeUndefined();
      expect(isKnownOperator(operator), operator).toBe(true);
    }
    for (const opType of ['Cast', 'Shape', 'Size']) {
      expect(readsAnyType({ domain: '', opType }), opType).toBe(true);
      expect(halfForm(opType), opType).toBeUndefined();
    }
  });
});
