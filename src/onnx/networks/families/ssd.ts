/**
 * The parts of single-shot detectors that need no boxes. SSD: Liu et al., "SSD: Single Shot MultiBox Detector", 2015. SSDLite: Howard et al., "Searching for
 * MobileNetV3", 2019.
 */
import type { Architecture, Family } from '../architecture.js';
import { convNorm } from '../blocks.js';
import { COCO_CLASSES, mapOutput, rowsOutput } from '../detector.js';
import { activate, conv, maxPool, unitLength, type NormOptions } from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';
import { mobilenetPair } from './mobilenet.js';
import { writeVgg16 } from './vgg.js';

/** The last convolution of a head for a level: it gives `channels`. */
type Predict = (branch: Module, at: string, x: Value, channels: number) => Value;

/** A head whose level `at` has so many boxes at each place. torchvision gives the boxes before the scores. */
function writeSsd(
  body: (backbone: Module, image: Value, isReduced: boolean) => Value[],
  boxes: readonly number[],
  predict: Predict,
): Architecture {
  return {
    task: 'detection',
    classes: COCO_CLASSES,
    write(network, image, { classes, weights }) {
      const isReduced = weights === undefined || weights.get(REDUCED_KEY)?.dims[0] === REDUCED_CHANNELS;
      const levels = body(network.child('backbone'), image, isReduced);
      const head = network.child('head');
      const branch = (name: string, columns: number): Value[] => {
        const list = head.child(name).child('module_list');
        return levels.map((level, at) => predict(list, String(at), level, boxes[at]! * columns));
      };
      const scores = head.inHead(() => branch('classification_head', classes));
      const deltas = branch('regression_head', 4);
      return [
        ...levels.map((level, at) => mapOutput(String(at), level)),
        rowsOutput('bbox_regression', head, deltas, 4),
        rowsOutput('cls_logits', head, scores, classes),
      ];
    },
  };
}

/** SSDLite's last layer has half the channels where torchvision trained its backbone from nothing. */
const REDUCED_KEY = 'backbone.features.1.3.0.weight';
const REDUCED_CHANNELS = 480;

/** Convolutions, each with a ReLU. */
function chain(
  module: Module,
  x: Value,
  first: number,
  layers: readonly (readonly [channels: number, kernel: number, stride?: number, padding?: number])[],
): Value {
  let y = x;
  let at = first;
  for (const [channels, kernel, stride = 1, padding] of layers) {
    y = conv(module, String(at++), y, channels, {
      kernel,
      stride,
      bias: true,
      ...(padding === undefined ? {} : { padding }),
    });
    y = activate(module, String(at++), y, 'relu');
  }
  return y;
}

/** `SSDFeatureExtractorVGG`. */
function vggLevels(backbone: Module, image: Value): Value[] {
  const scale = backbone.parameter('scale_weight', [512], { fill: 20 });
  const conv4 = writeVgg16(backbone.child('features'), image);
  const rows = backbone.operation('view', 512, 'Reshape', [
    backbone.read(scale),
    backbone.constant([1, -1, 1, 1]),
  ]);
  const unit = backbone.function('normalize', 512, () => unitLength(backbone, conv4.name, 1));
  const levels = [backbone.operation('mul', 512, 'Mul', [rows.name, unit.name])];
  const extra = backbone.child('extra');
  const first = extra.child('0');
  let x = maxPool(first, '0', conv4, { kernel: 2, stride: 2 });
  x = chain(
    first,
    x,
    1,
    Array.from({ length: 3 }, () => [512, 3]),
  );
  const last = first.child('7');
  x = maxPool(last, '0', x, { kernel: 3, stride: 1, padding: 1 });
  x = conv(last, '1', x, 1024, { kernel: 3, dilation: 6, bias: true });
  x = activate(last, '2', x, 'relu');
  x = activate(last, '4', conv(last, '3', x, 1024, { bias: true }), 'relu');
  levels.push(x);
  for (const [at, [inner, channels, stride, padding]] of EXTRA.entries())
    levels.push(
      chain(extra.child(String(at + 1)), levels.at(-1)!, 0, [
        [inner, 1],
        [channels, 3, stride, padding],
      ]),
    );
  return levels;
}

/** Inner channels, channels, stride and padding of the levels after VGG. */
const EXTRA = [
  [256, 512, 2, 1],
  [128, 256, 2, 1],
  [128, 256, 1, 0],
  [128, 256, 1, 0],
] as const;

const NORM: NormOptions = { epsilon: 0.001, momentum: 0.03 };
const DEPTHWISE = { kernel: 3, norm: NORM, activation: 'relu6' } as const;

/** `SSDLiteFeatureExtractorMobileNet`. */
function mobileLevels(backbone: Module, image: Value, isReduced: boolean): Value[] {
  const levels = mobilenetPair(backbone.child('features'), image, { isReduced, norm: NORM });
  for (const [at, channels] of [512, 256, 256, 128].entries()) {
    const block = backbone.child('extra').child(String(at));
    const inner = channels / 2;
    let x = convNorm(block, '0', levels.at(-1)!, inner, { norm: NORM, activation: 'relu6' });
    x = convNorm(block, '1', x, inner, { ...DEPTHWISE, stride: 2, groups: inner });
    levels.push(convNorm(block, '2', x, channels, { norm: NORM, activation: 'relu6' }));
  }
  return levels;
}

export const SSDS: Family = {
  ssd300_vgg16: writeSsd(vggLevels, [4, 6, 6, 6, 4, 4], (branch, at, x, channels) =>
    conv(branch, at, x, channels, { kernel: 3, bias: true }),
  ),
  ssdlite320_mobilenet_v3_large: writeSsd(
    mobileLevels,
    Array<number>(6).fill(6),
    (branch, at, x, channels) => {
      const block = branch.child(at);
      const y = convNorm(block, '0', x, x.channels, { ...DEPTHWISE, groups: x.channels });
      return conv(block, '1', y, channels, { bias: true });
    },
  ),
};
