import { describe, expect, it } from 'vitest';
import type { Node } from '../../../src/onnx/graph/graph.js';
import {
  firstPlaceOf,
  joinPath,
  parsePythonStrings,
  placeOf,
  splitPath,
} from '../../../src/onnx/graph/module-path.js';

function nodeWith(name: string, scopes?: string, tensor = `${name}_output_0`, domain = ''): Node {
  const metadata = new Map(scopes === undefined ? [] : [['pkg.torch.onnx.name_scopes', scopes]]);
  // Nothing else is read.
  return { name, domain, outputs: [{ name: tensor }], scanned: { metadata } } as unknown as Node;
}

describe('placeOf', () => {
  it.each([
    ['/conv1/Conv', 'conv1', 'Conv'],
    ['/layer4/layer4.2/relu_2/Relu', 'layer4.2.relu_2', 'Relu'],
    ['/layer1/layer1.0/downsample/downsample.0/Conv', 'layer1.0.downsample.0', 'Conv'],
    ['/features/features.1/features.1.0/block/block.0/block.0.0/Conv', 'features.1.0.block.0.0', 'Conv'],
    ['/encoder/layer.1/attention/q_proj/MatMul', 'encoder.layer.1.attention.q_proj', 'MatMul'],
    ['/Flatten', '', 'Flatten'],
    ['/layer1/layer1.0/Add_1', 'layer1.0', 'Add_1'],
  ])('reads %s of TorchScript', (name, path, operation) => {
    expect(placeOf(nodeWith(name))).toMatchObject({ scheme: 'torchscript', path, operation });
  });

  it.each(['Conv_0', '', 'a/b/Conv', '/a//Conv', '/a/conv', '/'])('reads nothing from %j', (name) => {
    expect(placeOf(nodeWith(name))).toBeUndefined();
  });

  it('places a node after its tensor, which tells the last operator that was fused into it', () => {
    const fused = nodeWith('/conv1/Conv', undefined, '/bn1/BatchNormalization_output_0');
    expect(placeOf(fused)).toMatchObject({ path: 'bn1', operation: 'BatchNormalization' });
    expect(firstPlaceOf(fused)).toMatchObject({ path: 'conv1', operation: 'Conv' });
    // An output of the graph has a name of its own.
    expect(placeOf(nodeWith('/fc/Gemm', undefined, 'output'))).toMatchObject({ path: 'fc' });
    expect(placeOf(nodeWith('/fc/Gemm', undefined, 'output', 'com.microsoft'))).toBeUndefined();
  });

  it('reads the scopes of the dynamo exporter', () => {
    const place = placeOf(nodeWith('node_relu_48', "['', 'layer4', 'layer4.2', 'layer4.2.relu', 'relu_48']"));
    expect(place).toMatchObject({ scheme: 'dynamo', path: 'layer4.2.relu', operation: 'relu_48' });
    expect(placeOf(nodeWith('n', "['', 'add']"))).toMatchObject({ path: '', operation: 'add' });
    expect(placeOf(nodeWith('n', 'no list'))).toBeUndefined();
  });
});

describe('parsePythonStrings', () => {
  it.each([
    [`['a', "b'c", 'd\\'e']`, ['a', "b'c", "d'e"]],
    ['[]', []],
    [' [ ] ', []],
  ])('reads %s', (text, items) => expect(parsePythonStrings(text)).toEqual(items));

  it.each(["['a'", "['a' 'b']", '[1]', "['a'] + x", ''])('refuses %s', (text) => {
    expect(parsePythonStrings(text)).toBeUndefined();
  });
});

describe('paths', () => {
  it('split and join at the last dot', () => {
    expect(splitPath('a.b.c')).toEqual(['a.b', 'c']);
    expect(splitPath('a')).toEqual(['', 'a']);
    expect(joinPath('', 'a')).toBe('a');
    expect(joinPath('a.b', 'c')).toBe('a.b.c');
  });
});
