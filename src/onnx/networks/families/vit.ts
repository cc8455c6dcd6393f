/** ViT: Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale", 2020. */
import type { Architecture, Family } from '../architecture.js';
import { attention } from '../attention.js';
import { mlp, permute } from '../blocks.js';
import { FILTERS, ZEROS, add, conv, dropout, layerNorm, linear, product, sizes } from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

const EPSILON = 1e-6;
const SPREAD = { spread: 0.02 };

/** `torch.nn.MultiheadAttention` on one list of tokens. It returns a pair, of which torchvision lists both. */
function selfAttention(block: Module, x: Value, heads: number, tokens: number): Value {
  const { channels } = x;
  const y = block.layer('self_attention', channels, (layer) => {
    const joined = product(
      layer,
      x.name,
      layer.parameter('in_proj_weight', [3 * channels, channels], FILTERS),
      layer.parameter('in_proj_bias', [3 * channels], ZEROS),
    );
    const output = layer.child('out_proj');
    const mixed = attention(layer, joined, { channels, heads, tokens });
    const weight = output.parameter('weight', [channels, channels], FILTERS);
    product(layer, mixed, weight, output.parameter('bias', [channels], ZEROS));
  });
  const first = block.operation('getitem', channels, 'Identity', [y.name]);
  block.skip(1);
  return first;
}

function writeBlock(block: Module, input: Value, { heads, hidden }: ViT, tokens: number): Value {
  let x = layerNorm(block, 'ln_1', input, EPSILON);
  x = selfAttention(block, x, heads, tokens);
  x = dropout(block, 'dropout', x);
  x = add(block, x, input);
  const y = layerNorm(block, 'ln_2', x, EPSILON);
  return add(block, x, mlp(block, y, hidden));
}

interface ViT {
  readonly patch: number;
  readonly layers: number;
  readonly heads: number;
  readonly channels: number;
  readonly hidden: number;
}

function vit(shape: ViT): Architecture {
  const { patch, layers, channels } = shape;
  return {
    imageSize: 224,
    multipleOf: patch,
    renameKey: (key) => key.replace('.mlp.linear_1.', '.mlp.0.').replace('.mlp.linear_2.', '.mlp.3.'),
    write(network, image, { classes, imageSize }) {
      const patches = (imageSize / patch) ** 2;
      const token = network.parameter('class_token', [1, 1, channels], SPREAD);
      // torchvision lists how it reads the sizes of the image and of the batch.
      network.skip(5);
      const grid = { kernel: patch, stride: patch, padding: 0, bias: true };
      let x = conv(network, 'conv_proj', image, channels, grid);
      const target = network.constant([0, channels, patches]);
      x = network.operation('reshape', channels, 'Reshape', [x.name, target]);
      x = permute(network, x, [0, 2, 1]);
      const dims = [sizes(network, x.name, 0, 1), network.constant([1, channels])];
      const expanded = [network.read(token), network.node('Concat', dims, { axis: 0 })];
      const first = network.operation('expand', channels, 'Expand', expanded);
      x = network.operation('cat', channels, 'Concat', [first.name, x.name], { axis: 1 });
      const encoder = network.child('encoder');
      const places = encoder.parameter('pos_embedding', [1, patches + 1, channels], SPREAD);
      x = add(encoder, x, { name: encoder.read(places), channels });
      x = dropout(encoder, 'dropout', x);
      for (let k = 0; k < layers; k++)
        x = writeBlock(encoder.child('layers').child(`encoder_layer_${k}`), x, shape, patches + 1);
      x = layerNorm(encoder, 'ln', x, EPSILON);
      x = network.operation('getitem', channels, 'Gather', [x.name, network.constant(0)], { axis: 1 });
      network.startHead();
      return linear(network.child('heads'), 'head', x, classes);
    },
  };
}

const BASE = { layers: 12, heads: 12, channels: 768, hidden: 3072 };
const LARGE = { layers: 24, heads: 16, channels: 1024, hidden: 4096 };

export const VITS: Family = {
  vit_b_16: vit({ ...BASE, patch: 16 }),
  vit_b_32: vit({ ...BASE, patch: 32 }),
  vit_l_16: vit({ ...LARGE, patch: 16 }),
  vit_l_32: vit({ ...LARGE, patch: 32 }),
  vit_h_14: vit({ patch: 14, layers: 32, heads: 16, channels: 1280, hidden: 5120 }),
};
