/**
 * FCN: Long et al., "Fully Convolutional Networks for Semantic Segmentation", 2015.
 * DeepLabV3: Chen et al., "Rethinking Atrous Convolution for Semantic Image Segmentation", 2017.
 * LR-ASPP: Howard et al., "Searching for MobileNetV3", 2019.
 */
import { invalidOption } from '../../../base/checks.js';
import type { Architecture, ArchitectureSizes, Family, NetworkOutput } from '../architecture.js';
import { activate, add, batchNorm, cat, conv, dropout, globalPool, interpolate } from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';
import { MOBILENET_STAGES, mobilenetFeatures } from './mobilenet.js';
import { RESNET_BODIES, type ResNetBody } from './resnet.js';

/** The classes of Pascal VOC and the background, on which torchvision's weights were trained. */
const VOC_CLASSES = 21;
const DILATED = { isDilated: true };

/** The feature maps of a backbone: the last, and the one for the auxiliary classifier or for details. */
type Backbone = (module: Module, image: Value) => { readonly high: Value; readonly low: Value };

function resnet(body: ResNetBody): Backbone {
  return (module, image) => {
    const [, , low, high] = body(module, image, DILATED) as [Value, Value, Value, Value];
    return { high, low };
  };
}

/** `low` is an eighth of the image's size. */
function mobilenet(module: Module, image: Value): { readonly high: Value; readonly low: Value } {
  const values = mobilenetFeatures(module, image, DILATED);
  return { high: values.at(-1)!, low: values[MOBILENET_STAGES.at(-4)!]! };
}

/** A convolution, a norm, a ReLU, in a Sequential from this place on. */
function convRelu(module: Module, x: Value, channels: number, kernel = 1, dilation = 1, at = 0): Value {
  let y = conv(module, String(at), x, channels, { kernel, dilation });
  y = batchNorm(module, String(at + 1), y);
  return activate(module, String(at + 2), y, 'relu');
}

/** Scores of classes. */
function classify(module: Module, name: string, x: Value, classes: number): Value {
  return module.inHead(() => conv(module, name, x, classes, { bias: true }));
}

/** `FCNHead`. */
function fcnHead(head: Module, x: Value, classes: number): Value {
  const y = dropout(head, '3', convRelu(head, x, x.channels / 4, 3));
  return classify(head, '4', y, classes);
}

/** `DeepLabHead`: dilated convolutions side by side, and the mean of the map. */
function deeplabHead(head: Module, x: Value, classes: number): Value {
  const channels = 256;
  const aspp = head.child('0');
  const branch = (at: number): Module => aspp.child('convs').child(String(at));
  const branches = [convRelu(branch(0), x, channels)];
  for (const [k, rate] of [12, 24, 36].entries())
    branches.push(convRelu(branch(k + 1), x, channels, 3, rate));
  const pooling = branch(4);
  pooling.skip(1);
  const mean = convRelu(pooling, globalPool(pooling, '0', x), channels, 1, 1, 1);
  branches.push(interpolate(pooling, mean, x, 'linear'));
  const project = aspp.child('project');
  const joined = dropout(project, '3', convRelu(project, cat(aspp, branches), channels));
  return classify(head, '4', convRelu(head, joined, channels, 3, 1, 1), classes);
}

/** `LRASPPHead`. */
function lrasppHead(head: Module, { high, low }: ReturnType<Backbone>, classes: number): Value {
  const channels = 128;
  const x = convRelu(head.child('cbr'), high, channels);
  const scale = head.child('scale');
  let s = conv(scale, '1', globalPool(scale, '0', high), channels);
  s = activate(scale, '2', s, 'sigmoid');
  const scaled = head.operation('mul', channels, 'Mul', [x.name, s.name]);
  const enlarged = interpolate(head, scaled, low, 'linear');
  const [fine, coarse] = [
    classify(head, 'low_classifier', low, classes),
    classify(head, 'high_classifier', enlarged, classes),
  ];
  return add(head, fine, coarse);
}

/** Scores of the image's own size. */
function output(
  key: string,
  scores: Value,
  image: Value,
  network: Module,
  { imageSize }: ArchitectureSizes,
): NetworkOutput {
  const { name: tensor, channels } = interpolate(network, scores, image, 'linear');
  return { key, tensor, dims: ['batch', channels, imageSize || 'height', imageSize || 'width'] };
}

const AUXILIARY = 'aux_classifier';

function hasAuxiliary({ auxLoss, weights }: ArchitectureSizes): boolean {
  return auxLoss ?? weights?.has(`${AUXILIARY}.0.weight`) ?? false;
}

/** A network with an auxiliary classifier, which torchvision always makes an `FCNHead`. */
function simple(backbone: Backbone, writeHead: typeof fcnHead): Architecture {
  return {
    task: 'segmentation',
    classes: VOC_CLASSES,
    unusedKeys: /^aux_classifier\./,
    write(network, image, sizes) {
      network.skip(1);
      const { high, low } = backbone(network.child('backbone'), image);
      const scores = writeHead(network.child('classifier'), high, sizes.classes);
      const out = output('out', scores, image, network, sizes);
      if (!hasAuxiliary(sizes)) return [out];
      const others = fcnHead(network.child(AUXILIARY), low, sizes.classes);
      return [out, output('aux', others, image, network, sizes)];
    },
  };
}

const RESNET50 = resnet(RESNET_BODIES.resnet50);
const RESNET101 = resnet(RESNET_BODIES.resnet101);

export const SEGMENTATIONS: Family = {
  fcn_resnet50: simple(RESNET50, fcnHead),
  fcn_resnet101: simple(RESNET101, fcnHead),
  deeplabv3_resnet50: simple(RESNET50, deeplabHead),
  deeplabv3_resnet101: simple(RESNET101, deeplabHead),
  deeplabv3_mobilenet_v3_large: simple(mobilenet, deeplabHead),
  lraspp_mobilenet_v3_large: {
    task: 'segmentation',
    classes: VOC_CLASSES,
    write(network, image, sizes) {
      if (sizes.auxLoss === true)
        throw invalidOption('auxLoss', 'left out: this network has no auxiliary classifier', true);
      const maps = mobilenet(network.child('backbone'), image);
      const scores = lrasppHead(network.child('classifier'), maps, sizes.classes);
      return [output('out', scores, image, network, sizes)];
    },
  },
};
