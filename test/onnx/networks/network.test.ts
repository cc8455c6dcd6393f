/** How nodes, tensors and parameters of a network are named. */
import { describe, expect, it } from 'vitest';
import { activate, add, adaptivePool, conv, linear } from '../../../src/onnx/networks/layers.js';
import { Module } from '../../../src/onnx/networks/module.js';
import { Network } from '../../../src/onnx/networks/network.js';

const input = { name: 'input', channels: 3 };

describe('network', () => {
  it('names nodes as TorchScript and tensors as torchvision', () => {
    const network = new Network(17);
    const block = new Module(network).child('layer1').child('0');
    let x = conv(block, 'conv1', input, 4, { kernel: 3 });
    x = activate(block, 'relu', x, 'relu');
    x = activate(block, 'relu', add(block, x, x), 'relu');
    conv(block.child('downsample'), '0', x, 8);
    expect(network.nodes.map(({ name, outputs }) => [name, ...outputs])).toEqual([
      ['/layer1/layer1.0/conv1/Conv', 'layer1.0.conv1'],
      ['/layer1/layer1.0/relu/Relu', 'layer1.0.relu'],
      ['/layer1/layer1.0/Add', 'layer1.0.add'],
      ['/layer1/layer1.0/relu_1/Relu', 'layer1.0.relu_1'],
      ['/layer1/layer1.0/downsample/downsample.0/Conv', 'layer1.0.downsample.0'],
    ]);
    expect([...network.parameters.keys()]).toEqual(['layer1.0.conv1.weight', 'layer1.0.downsample.0.weight']);
  });

  it('counts names as torchvision does: without the number that a module’s own name ends in', () => {
    const network = new Network(17);
    const block = new Module(network).child('block');
    const names = ['ln_1', 'ln_2'].map((name) => activate(block, name, input, 'relu').name);
    block.skip(2);
    names.push(block.operation('getitem', 3, 'Identity', ['input']).name);
    expect(names).toEqual(['block.ln', 'block.ln_1', 'block.getitem_2']);
  });

  it('reads parameters under their whole keys, and writes equal constants once', () => {
    const network = new Network(17);
    const module = new Module(network);
    const block = module.child('features').child('1');
    expect(block.read(block.parameter('scale', [4], { fill: 1 }))).toBe('features.1.scale');
    expect(module.read(module.parameter('token', [4], { fill: 1 }))).toBe('token');
    expect(network.nodes).toMatchObject([
      { inputs: ['features.1.scale'], outputs: ['features.1.features_1_scale'] },
    ]);
    expect(module.constant([1, 2])).toBe(block.constant([1, 2]));
    expect(module.constant(1)).not.toBe(module.constant({ float: 1 }));
  });

  it('knows the parameters of the classifier', () => {
    const network = new Network(17);
    const module = new Module(network);
    const x = adaptivePool(module, linear(module, 'fc1', input, 4), 1);
    network.isHead = true;
    linear(module, 'fc2', x, 5);
    const heads = [...network.parameters.values()].filter(({ isHead }) => isHead);
    expect(heads.map(({ key, dims }) => [key, dims])).toEqual([
      ['fc2.weight', [5, 4]],
      ['fc2.bias', [5]],
    ]);
  });
});
