/** Names in files from which onnxruntime's quantizer dropped activations, against what was found out by value (test/fixtures/make/quantized.py). */
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
    ['resnet18.dynamo.int8', 0.97],
    ['resnet18.torchscript.uint8', 1],
    ['mobilenet_v2.dynamo.int8', 1],
    ['mobilenet_v2.torchscript.uint8', 1],
    ['mobilenet_v3_small.dynamo.int8', 0.94],
    ['inside.dynamo.int8', 1],
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

  it('says which values a tensor can mean that has the name of an activation', () => {
    expect(() => resolveNames(open('resnet18.dynamo.int8'), ['relu'])).toThrow(
      expect.objectContaining({
        code: 'NAME_AMBIGUOUS',
        details: {
          request: 'relu',
          readings: [
            { request: 'tensor:relu', tensor: 'relu' },
            { request: 'module:relu', tensor: 'relu_DequantizeLinear_Output' },
          ],
        },
      }),
    );
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
