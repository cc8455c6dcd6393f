/**
 * The parts of detectors with a pyramid that need no boxes: backbone, pyramid and dense heads.
 * Faster R-CNN: Ren et al., 2015. Mask R-CNN, Keypoint R-CNN: He et al., 2017. RetinaNet: Lin et al., "Focal Loss for Dense Object Detection", 2017.
 * FCOS: Tian et al., 2019. Version 2 of each: Li et al., "Benchmarking Detection Transfer Learning with Vision Transformers", 2021.
 */
import type { Architecture, ArchitectureSizes, Family, NetworkOutput } from '../architecture.js';
import { COCO_CLASSES, mapOutput, normOf, rowsOutput, type FrozenNorms } from '../detector.js';
import { activate, conv, groupNorm } from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';
import { levelKeys, renamePyramidKey, writePyramid, type ExtraLevels } from '../pyramid.js';
import { MOBILENET_STAGES, mobilenetFeatures } from './mobilenet.js';
import { RESNET_BODIES } from './resnet.js';

const PYRAMID_CHANNELS = 256;
/** A norm of a ResNet, and one of a MobileNet: what they store tells whether they are frozen. */
const RESNET_NORM = 'backbone.body.bn1';
const MOBILENET_NORM = 'backbone.body.0.1';

/** The maps of a backbone on which its pyramid stands. */
type Body = (module: Module, image: Value, sizes: ArchitectureSizes) => readonly Value[];

interface Backbone {
  readonly body: Body;
  readonly extra: ExtraLevels;
  /** Whether the convolutions of the pyramid have norms. */
  readonly hasNorms?: boolean;
  /** Whether `p6` is computed from the last level of the pyramid. */
  readonly isP6OfPyramid?: boolean;
}

/** ResNet-50; `from` is the first stage under the pyramid. */
function resnet50(name: string, from: number, frozen: FrozenNorms): Body {
  return (module, image, sizes) =>
    RESNET_BODIES.resnet50(module, image, { norm: normOf(name, RESNET_NORM, sizes, frozen) }).slice(from);
}

/** MobileNet v3 large: the first block of its last stage, and its last layer. */
function mobilenet(name: string): Body {
  return (module, image, sizes) => {
    const values = mobilenetFeatures(module, image, { norm: normOf(name, MOBILENET_NORM, sizes, {}) });
    return MOBILENET_STAGES.slice(-2).map((at) => values[at]!);
  };
}

/** The dense heads of a detector. */
type Heads = (network: Module, levels: readonly Value[], classes: number) => NetworkOutput[];

function detector(backbone: Backbone, heads: Heads, rest: Partial<Architecture>): Architecture {
  const { body, extra, hasNorms = false, isP6OfPyramid = true } = backbone;
  return {
    task: 'detection',
    classes: COCO_CLASSES,
    renameKey: renamePyramidKey,
    ...rest,
    write(network, image, sizes) {
      const module = network.child('backbone');
      const maps = body(module.child('body'), image, sizes);
      const shape = { channels: PYRAMID_CHANNELS, hasNorms, extra, isP6OfPyramid };
      const levels = writePyramid(module.child('fpn'), maps, shape);
      const keys = levelKeys(
        maps.map((_, at) => String(at)),
        extra,
      );
      return [
        ...levels.map((level, at) => mapOutput(keys[at]!, level)),
        ...heads(network, levels, sizes.classes),
      ];
    },
  };
}

/** `RPNHead`: where objects may be, in so many shapes at each place. */
function regionHeads(anchors: number, depth: number): Heads {
  return (network, levels) => {
    const head = network.child('rpn').child('head');
    const convolved = levels.map((level) => {
      let x = level;
      for (let k = 0; k < depth; k++) x = convRelu(head.child('conv').child(String(k)), x);
      return {
        objectness: conv(head, 'cls_logits', x, anchors, { bias: true }),
        deltas: conv(head, 'bbox_pred', x, 4 * anchors, { bias: true }),
      };
    });
    return [
      ...convolved.map(({ objectness }, at) => mapOutput(`objectness.${at}`, objectness)),
      ...convolved.map(({ deltas }, at) => mapOutput(`pred_bbox_deltas.${at}`, deltas)),
    ];
  };
}

function convRelu(block: Module, x: Value): Value {
  return activate(block, '1', conv(block, '0', x, x.channels, { kernel: 3, bias: true }), 'relu');
}

const GROUPS = 32;
const WIDE = { kernel: 3, bias: true };
/** Convolutions before the last one of a head. */
const HEAD_DEPTH = 4;

/** The maps of a head's branch before its last convolutions, per level. */
function branchOf(
  head: Module,
  levels: readonly Value[],
  block: (conv: Module, k: number, x: Value) => Value,
): Value[] {
  return levels.map((level) => {
    let x = level;
    for (let k = 0; k < HEAD_DEPTH; k++) x = block(head.child('conv'), k, x);
    return x;
  });
}

/** `RetinaNetHead`, with norms of groups or without norms. */
function retinaHeads(hasNorms: boolean): Heads {
  const anchors = 9;
  const block = (convs: Module, k: number, x: Value): Value => {
    const module = convs.child(String(k));
    if (!hasNorms) return convRelu(module, x);
    const y = conv(module, '0', x, x.channels, { kernel: 3 });
    return activate(module, '2', groupNorm(module, '1', y, GROUPS), 'relu');
  };
  return (network, levels, classes) => {
    const head = network.child('head');
    const [scores, boxes] = [head.child('classification_head'), head.child('regression_head')];
    const logits = branchOf(scores, levels, block).map((x) =>
      scores.inHead(() => conv(scores, 'cls_logits', x, anchors * classes, WIDE)),
    );
    const deltas = branchOf(boxes, levels, block).map((x) => conv(boxes, 'bbox_reg', x, 4 * anchors, WIDE));
    return [
      rowsOutput('cls_logits', scores, logits, classes),
      rowsOutput('bbox_regression', boxes, deltas, 4),
    ];
  };
}

/** `FCOSHead`: one box at each place, and how central the place is. */
const fcosHeads: Heads = (network, levels, classes) => {
  const block = (convs: Module, k: number, x: Value): Value => {
    const y = groupNorm(convs, String(3 * k + 1), conv(convs, String(3 * k), x, x.channels, WIDE), GROUPS);
    return activate(convs, String(3 * k + 2), y, 'relu');
  };
  const head = network.child('head');
  const [scores, boxes] = [head.child('classification_head'), head.child('regression_head')];
  const logits = branchOf(scores, levels, block).map((x) =>
    scores.inHead(() => conv(scores, 'cls_logits', x, classes, WIDE)),
  );
  const features = branchOf(boxes, levels, block);
  const distances = features.map((x) => {
    const y = conv(boxes, 'bbox_reg', x, 4, WIDE);
    return boxes.operation('relu', 4, 'Relu', [y.name]);
  });
  const centres = features.map((x) => conv(boxes, 'bbox_ctrness', x, 1, WIDE));
  return [
    rowsOutput('cls_logits', scores, logits, classes),
    rowsOutput('bbox_regression', boxes, distances, 4),
    rowsOutput('bbox_ctrness', boxes, centres, 1),
  ];
};

const REGIONS = 'roi_heads';
const CLASSES_OF_REGIONS = `${REGIONS}.box_predictor.cls_score.bias`;
const unusedHeads = (kinds: string): RegExp => new RegExp(`^${REGIONS}\\.(?:${kinds})_(?:head|predictor)\\.`);

/** Older checkpoints have no numbers for the convolution of the region head. */
function renameRegionKey(key: string): string {
  return renamePyramidKey(key).replace(/^rpn\.head\.conv\.(weight|bias)$/, 'rpn.head.conv.0.0.$1');
}

/** Older checkpoints count ReLUs among the convolutions of RetinaNet's heads. */
function renameRetinaKey(key: string): string {
  return renamePyramidKey(key).replace(
    /^(head\.\w+_head\.conv\.)(\d+)\.(weight|bias)$/,
    (_, start: string, at: string, kind: string) => `${start}${Number(at) / 2}.0.${kind}`,
  );
}

/** A detector of regions with ResNet-50. */
function regionNetwork(name: string, kinds: string, classes: number, version: 1 | 2): Architecture {
  const frozen = version === 1 ? { proof: { key: CLASSES_OF_REGIONS, rows: classes } } : {};
  const backbone = { body: resnet50(name, 0, frozen), extra: 'pool', hasNorms: version === 2 } as const;
  const rest = { classes, unusedKeys: unusedHeads(kinds), renameKey: renameRegionKey };
  return detector(backbone, regionHeads(3, version), rest);
}

function mobileNetwork(name: string): Architecture {
  const rest = { unusedKeys: unusedHeads('box'), renameKey: renameRegionKey };
  return detector({ body: mobilenet(name), extra: 'pool' }, regionHeads(15, 1), rest);
}

function retinaNetwork(name: string, version: 1 | 2): Architecture {
  const proof = { key: 'head.classification_head.cls_logits.bias', rows: 9 * COCO_CLASSES };
  const body = resnet50(name, 1, version === 1 ? { proof } : {});
  const backbone = { body, extra: 'p6p7', isP6OfPyramid: version === 1 } as const;
  const rest = version === 1 ? { renameKey: renameRetinaKey } : {};
  return detector(backbone, retinaHeads(version === 2), rest);
}

/** Keypoint R-CNN finds persons only. */
const PERSON_CLASSES = 2;

export const DETECTIONS: Family = {
  fasterrcnn_resnet50_fpn: regionNetwork('fasterrcnn_resnet50_fpn', 'box', COCO_CLASSES, 1),
  fasterrcnn_resnet50_fpn_v2: regionNetwork('fasterrcnn_resnet50_fpn_v2', 'box', COCO_CLASSES, 2),
  fasterrcnn_mobilenet_v3_large_fpn: mobileNetwork('fasterrcnn_mobilenet_v3_large_fpn'),
  fasterrcnn_mobilenet_v3_large_320_fpn: mobileNetwork('fasterrcnn_mobilenet_v3_large_320_fpn'),
  maskrcnn_resnet50_fpn: regionNetwork('maskrcnn_resnet50_fpn', 'box|mask', COCO_CLASSES, 1),
  maskrcnn_resnet50_fpn_v2: regionNetwork('maskrcnn_resnet50_fpn_v2', 'box|mask', COCO_CLASSES, 2),
  keypointrcnn_resnet50_fpn: regionNetwork('keypointrcnn_resnet50_fpn', 'box|keypoint', PERSON_CLASSES, 1),
  retinanet_resnet50_fpn: retinaNetwork('retinanet_resnet50_fpn', 1),
  retinanet_resnet50_fpn_v2: retinaNetwork('retinanet_resnet50_fpn_v2', 2),
  fcos_resnet50_fpn: detector({ body: resnet50('fcos_resnet50_fpn', 1, {}), extra: 'p6p7' }, fcosHeads, {}),
};
