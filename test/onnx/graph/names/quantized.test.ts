/** Names in files that quantizers and converters rewrote, against what was found out by value (test/fixtures/make/quantized.py). */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { isTapirError } from '../../../../src/base/errors.js';
import { buildGraph } from '../../../../src/onnx/graph/build-graph.js';
import type { Graph } from '../../../../src/onnx/graph/graph.js';
import { listNames } from '../../../../src/onnx/graph/names/name-list.js';
import { resolveNames } from '../../../../src/onnx/graph/names/resolve-names.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { fixturePath } from '../../../support/fixtures.js';

interface Truth {
  /** The tensors with the value of a module. */
  readonly names: Readonly<Record<string, readonly string[]>>;
  readonly absent: readonly string[];
}

const TRUTH = JSON.parse(readFileSync(fixturePath('quantized/names.json'), 'utf8')) as Record<string, Truth>;

function open(file: string): Graph {
  return buildGraph(scanModel(memorySource(readFileSync(fixturePath(`quantized/${file}.onnx`)))));
}

/** The tensor of a name, or the code of the refusal. */
function read(graph: Graph, name: string): { tensor: string } | { code: string } {
  try {
    return { tensor: resolveNames(graph, [name])[0]!.value.name };
  } catch (error) {
    if (isTapirError(error)) return { code: error.code };
    throw error;
  }
}

describe('names in quantised files', () => {
  it.each(Object.entries(TRUTH))('%s: none is wrong', (file, { names, absent }) => {
    const graph = open(file);
    const all = [...Object.entries(names), ...absent.map((name) => [name, [] as string[]] as const)];
    const wrong = all.flatMap(([name, tensors]) => {
      const reading = read(graph, name);
      return 'tensor' in reading && !tensors.includes(reading.tensor) ? [{ name, ...reading, tensors }] : [];
    });
    expect(wrong).toEqual([]);
  });

  // The rest are Dropout modules, tensors that are called as a module, and modules of which the file does not tell whether they end with it.
  it.each([
    ['resnet18.dynamo.int8', 1],
    ['resnet18.torchscript.uint8', 1],
    ['mobilenet_v2.dynamo.int8', 1],
    ['mobilenet_v2.torchscript.uint8', 1],
    ['mobilenet_v3_small.dynamo.int8', 0.94],
    ['inside.dynamo.int8', 1],
    ...[
      'dynamic',
      'half',
      'halves',
      'int8',
      'int8-extended',
      'kernels',
      'slim',
      'slim-dynamic',
      'wide',
    ].flatMap((form): [string, number][] => [
      [`rewritten.torchscript.${form}`, 1],
      [`tokens.torchscript.${form}`, 1],
    ]),
    ...['dynamic', 'half', 'halves', 'int8'].flatMap((form): [string, number][] => [
      [`rewritten.dynamo.${form}`, 1],
      [`tokens.dynamo.${form}`, 1],
    ]),
    ['rewritten.dynamo.kernels', 0.8],
    ['tokens.dynamo.kernels', 1],
    // All places are lost: parameters and calls tell those of layers.
    ['rewritten.dynamo.slim', 0.5],
    ['outside.torchscript.int8', 1],
    ['between.torchscript.int8', 1],
    ['before.torchscript.int8', 1],
    ['residual.torchscript.int8', 1],
  ])('%s: those that a tensor has are answered', (file, least) => {
    const graph = open(file);
    const requests = Object.keys(TRUTH[file]!.names);
    const answered = requests.filter((name) => 'tensor' in read(graph, name));
    expect(answered.length / requests.length).toBeGreaterThanOrEqual(least);
  });

  it.each(Object.keys(TRUTH))('%s: listed names resolve, each to another value', (file) => {
    const graph = open(file);
    const names = listNames(graph);
    expect(new Set(resolveNames(graph, names).map(({ value }) => value)).size).toBe(names.length);
  });

  it('takes the name of a dropped activation for the value after it, and its tensor for that', () => {
    const graph = open('resnet18.dynamo.int8');
    expect(read(graph, 'relu')).toEqual({ tensor: 'relu_DequantizeLinear_Output' });
    expect(read(graph, 'tensor:relu')).toEqual({ tensor: 'relu' });
  });

  it('names the norm whose value a convolution of integers holds', () => {
    const graph = open('rewritten.torchscript.dynamic');
    expect(() => resolveNames(graph, ['conv1'])).toThrow(
      expect.objectContaining({ code: 'NAME_FOLDED', details: { request: 'conv1', instead: 'bn1' } }),
    );
    expect(read(graph, 'bn1')).toEqual({ tensor: '/conv1/Conv_output_0' });
  });

  it('gives the scale of a value that only whole numbers hold', () => {
    const [pool, tensor] = resolveNames(open('rewritten.torchscript.kernels'), [
      'pool',
      'tensor:/pool/GlobalAveragePool_output_0_quantized',
    ]);
    expect(pool!.levels!.scale.name).toBe('/pool/GlobalAveragePool_output_0_scale');
    expect(pool!.value).toBe(tensor!.value);
    expect(tensor!.levels).toBeUndefined();
  });

  it('names both values where an activation may have been part of the module, or of what follows', () => {
    expect(() => resolveNames(open('between.dynamo.int8'), ['a'])).toThrow(
      expect.objectContaining({
        code: 'NAME_AMBIGUOUS',
        details: {
          request: 'a',
          readings: [
            { request: 'tensor:relu', tensor: 'relu' },
            { request: 'tensor:relu_DequantizeLinear_Output', tensor: 'relu_DequantizeLinear_Output' },
          ],
        },
      }),
    );
  });
});
