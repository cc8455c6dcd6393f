/** The registry of operators: complete, right about types, and matched by every table of rules. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { GRADIENT_RULES } from '../../../../src/learn/gradients/rules/rule-of.js';
import { BATCH_RULES } from '../../../../src/onnx/graph/batch/batch-rules.js';
import { MAC_RULES } from '../../../../src/onnx/graph/cost/macs.js';
import { TORCH_OPERATIONS } from '../../../../src/onnx/graph/names/operations.js';
import type { Operator } from '../../../../src/onnx/graph/operators/operator.js';
import { OPERATORS, operatorOf } from '../../../../src/onnx/graph/operators/operators.js';
import { SIZE_RULES } from '../../../../src/onnx/graph/size-rules.js';
import { fixturePath, projectPath } from '../../../support/fixtures.js';

type Operators = ReadonlyMap<string, Operator>;

const REGISTRY = 'src/onnx/graph/operators/operators.ts';
const standard = OPERATORS.get('')!;
const contributed = OPERATORS.get('com.microsoft')!;

/** What the schemas of the onnx package say about the types of outputs (make/operators.py). */
const schemas = JSON.parse(readFileSync(fixturePath('operators.json'), 'utf8')) as Readonly<
  Record<string, readonly (number | string | null)[]>
>;

/** Operators of floating-point numbers that GRADIENT_UNSUPPORTED names. */
const WITHOUT_GRADIENT = new Set(
  `Acos Acosh AffineGrid Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CausalConvWithState CenterCropPad
  Col2Im Compress Cosh CumProd DFT DeformConv DequantizeLinear Det GRU GlobalLpPool GridSample LSTM LinearAttention LpPool MaxRoiPool
  MaxUnpool NegativeLogLikelihoodLoss OneHot QLinearConv QLinearMatMul QuantizeLinear RNN Range ReverseSequence RoiAlign RotaryEmbedding
  STFT Scatter Shrink SimplifiedLayerNormalization Sinh SoftmaxCrossEntropyLoss SwiGLU Tan TensorScatter Unique Upsample`.split(
    /\s+/,
  ),
);

/** What is to be done where the registry and the tables of rules differ. */
function advise(operators: Operators, others: Operators = contributed): string[] {
  const both = [...operators, ...others];
  const tables = [
    { field: 'sizes', file: 'src/onnx/graph/size-rules.ts', names: SIZE_RULES, rows: [...operators] },
    { field: 'batch', file: 'src/onnx/graph/batch/batch-rules.ts', names: BATCH_RULES, rows: both },
    { field: 'macs', file: 'src/onnx/graph/cost/macs.ts', names: MAC_RULES['']!, rows: [...operators] },
    {
      field: 'macs',
      file: 'src/onnx/graph/cost/macs.ts',
      names: MAC_RULES['com.microsoft']!,
      rows: [...others],
    },
  ] as const;
  const rules = tables.flatMap(({ field, file, names, rows }) => {
    const own = new Set(rows.filter(([, operator]) => operator[field] === 'own').map(([name]) => name));
    const lacking = [...own]
      .filter((name) => !Object.hasOwn(names, name))
      .map((name) => `add ${name} to ${file}, or give it another ${field} in ${REGISTRY}`);
    const idle = Object.keys(names)
      .filter((name) => !own.has(name))
      .map((name) => `${file} has a rule for ${name}: give it ${field} "own" in ${REGISTRY}`);
    return lacking.concat(idle);
  });
  const hasGradient = ([name, { isStep, types }]: readonly [string, Operator]): boolean =>
    isStep || GRADIENT_RULES.has(name) || WITHOUT_GRADIENT.has(name) || typeof types[0] !== 'number';
  return [
    ...rules,
    ...[...operators]
      .filter((row) => !hasGradient(row))
      .map(([name]) => `add ${name} to src/learn/gradients/rules, or to WITHOUT_GRADIENT of this test`),
    ...[...GRADIENT_RULES.keys(), ...WITHOUT_GRADIENT]
      .filter((name) => !operators.has(name) || operators.get(name)!.isStep)
      .map((name) => `${name} has a gradient or needs none: look at ${REGISTRY}`),
    ...[...WITHOUT_GRADIENT]
      .filter((name) => GRADIENT_RULES.has(name))
      .map((name) => `take ${name} out of WITHOUT_GRADIENT of this test`),
  ];
}

describe('the registry', () => {
  it('has every operator of ONNX, once', () => {
    const names = [...standard.keys()].filter((name) => name !== 'SimplifiedLayerNormalization');
    expect(Object.keys(schemas).filter((name) => !standard.has(name))).toEqual([]);
    expect(names.filter((name) => !(name in schemas))).toEqual([]);
    const text = readFileSync(projectPath(REGISTRY), 'utf8');
    const rows = text.slice(text.indexOf('STANDARD:'), text.indexOf('CONTRIBUTED:'));
    const written = [...rows.matchAll(/^ {2}\['([^']+)'/gm)].flatMap(([, list]) => list!.split(' '));
    expect(written.length).toBe(standard.size);
    expect(written.filter((name, k) => written.indexOf(name) !== k)).toEqual([]);
  });

  it('has the types that ONNX’s schemas state', () => {
    // An attribute of operator set 23 can state another type than that of the scale.
    const known = Object.entries(schemas).filter(([name]) => name !== 'DequantizeLinear');
    const wrong = known.flatMap(([name, expected]) => {
      const { types } = standard.get(name)!;
      return expected.flatMap((type, k) => {
        const stated = types[k] ?? types.at(-1)!;
        const isUnknown = stated === 'unknown' || (type === null && stated === 'stated');
        return isUnknown || stated === type ? [] : [`${name}: output ${k} is ${type}, not ${stated}`];
      });
    });
    expect(wrong).toEqual([]);
  });

  it('is matched by the tables of rules', () => {
    expect(advise(standard)).toEqual([]);
  });

  it('says which tables a new operator misses', () => {
    const row = standard.get('Conv')!;
    const added = new Map([...standard, ['NewOp', { ...row, batch: 'own' }] as const]);
    expect(advise(added)).toEqual([
      'add NewOp to src/onnx/graph/size-rules.ts, or give it another sizes in src/onnx/graph/operators/operators.ts',
      'add NewOp to src/onnx/graph/batch/batch-rules.ts, or give it another batch in src/onnx/graph/operators/operators.ts',
      'add NewOp to src/onnx/graph/cost/macs.ts, or give it another macs in src/onnx/graph/operators/operators.ts',
      'add NewOp to src/learn/gradients/rules, or to WITHOUT_GRADIENT of this test',
    ]);
    const without = new Map([...standard].filter(([name]) => name !== 'Conv'));
    expect(advise(without)).toHaveLength(3);
  });

  it('knows the operators that torch’s operations become', () => {
    const operators = Object.values(TORCH_OPERATIONS).flat();
    expect(operators.filter((name) => !standard.has(name))).toEqual([]);
  });

  it('tells domains apart, and knows no function of an exporter', () => {
    expect(operatorOf({ domain: '', opType: 'QLinearConv' })?.axes).toBe('channels second');
    expect(operatorOf({ domain: 'com.microsoft', opType: 'QLinearConv' })?.axes).toBe('unknown');
    expect(operatorOf({ domain: 'pkg.onnxscript.torch_lib', opType: 'Relu' })).toBeUndefined();
    expect(operatorOf({ domain: '', opType: 'constructor' })).toBeUndefined();
  });

  it('counts one operator as one thing: an activation, attention', () => {
    // Once listed for Keras, and not for BatchNorms in front of them.
    for (const opType of ['Softsign', 'ThresholdedRelu', 'Swish'])
      expect(operatorOf({ domain: '', opType })?.isActivation, opType).toBe(true);
    // Once listed for its products, and not for what it does to tokens.
    expect(operatorOf({ domain: 'com.microsoft', opType: 'QAttention' })?.isAttention).toBe(true);
  });
});
