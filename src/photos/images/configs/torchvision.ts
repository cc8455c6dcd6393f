/** The transforms of torchvision's weights (0.29.2), by name. Source: torchvision.models, `*_Weights` (BSD licence). */
import { nearestNames } from '../../../base/nearest-names.js';
import type { Interpolation } from '../resample/kernel.js';
import { ConfigFields, type ConfigOptions } from './config-fields.js';
import { HALF } from './known-numbers.js';

/** Resize, crop, interpolation, the weights' version, and the models with such weights. */
const WEIGHTS: readonly (readonly [number, number, Interpolation, string, string])[] = [
  [224, 224, 'bicubic', 'IMAGENET1K_SWAG_LINEAR_V1', 'RegNet_Y_128GF RegNet_Y_16GF RegNet_Y_32GF ViT_B_16 ViT_H_14 ViT_L_16'],
  [224, 224, 'bicubic', 'IMAGENET1K_V1', 'MaxVit_T'],
  [230, 224, 'bilinear', 'IMAGENET1K_V1', 'ConvNeXt_Small'],
  [232, 224, 'bicubic', 'IMAGENET1K_V1', 'Swin_T'],
  [232, 224, 'bilinear', 'IMAGENET1K_V1', 'ConvNeXt_Base ConvNeXt_Large MNASNet0_75 MNASNet1_3 ResNeXt101_64X4D ShuffleNet_V2_X1_5 ShuffleNet_V2_X2_0'],
  [232, 224, 'bilinear', 'IMAGENET1K_V2', 'MobileNet_V2 MobileNet_V3_Large RegNet_X_16GF RegNet_X_1_6GF RegNet_X_32GF RegNet_X_3_2GF RegNet_X_400MF RegNet_X_800MF RegNet_X_8GF RegNet_Y_16GF RegNet_Y_1_6GF RegNet_Y_32GF RegNet_Y_3_2GF RegNet_Y_400MF RegNet_Y_800MF RegNet_Y_8GF ResNet101 ResNet152 ResNet50 ResNeXt101_32X8D ResNeXt50_32X4D Wide_ResNet101_2 Wide_ResNet50_2'],
  [236, 224, 'bilinear', 'IMAGENET1K_V1', 'ConvNeXt_Tiny'],
  [238, 224, 'bicubic', 'IMAGENET1K_V1', 'Swin_B'],
  [242, 224, 'bilinear', 'IMAGENET1K_V1', 'ViT_L_16'],
  [246, 224, 'bicubic', 'IMAGENET1K_V1', 'Swin_S'],
  [255, 240, 'bilinear', 'IMAGENET1K_V2', 'EfficientNet_B1'],
  [256, 224, 'bicubic', 'IMAGENET1K_V1', 'EfficientNet_B0'],
  [256, 224, 'bilinear', 'IMAGENET1K_FEATURES', 'VGG16'],
  [256, 224, 'bilinear', 'IMAGENET1K_V1', 'AlexNet DenseNet121 DenseNet161 DenseNet169 DenseNet201 GoogLeNet MNASNet0_5 MNASNet1_0 MobileNet_V2 MobileNet_V3_Large MobileNet_V3_Small RegNet_X_16GF RegNet_X_1_6GF RegNet_X_32GF RegNet_X_3_2GF RegNet_X_400MF RegNet_X_800MF RegNet_X_8GF RegNet_Y_16GF RegNet_Y_1_6GF RegNet_Y_32GF RegNet_Y_3_2GF RegNet_Y_400MF RegNet_Y_800MF RegNet_Y_8GF ResNet101 ResNet152 ResNet18 ResNet34 ResNet50 ResNeXt101_32X8D ResNeXt50_32X4D ShuffleNet_V2_X0_5 ShuffleNet_V2_X1_0 SqueezeNet1_0 SqueezeNet1_1 VGG11 VGG11_BN VGG13 VGG13_BN VGG16 VGG16_BN VGG19 VGG19_BN ViT_B_16 ViT_B_32 ViT_L_32 Wide_ResNet101_2 Wide_ResNet50_2'],
  [256, 240, 'bicubic', 'IMAGENET1K_V1', 'EfficientNet_B1'],
  [260, 256, 'bicubic', 'IMAGENET1K_V1', 'Swin_V2_S Swin_V2_T'],
  [272, 256, 'bicubic', 'IMAGENET1K_V1', 'Swin_V2_B'],
  [288, 288, 'bicubic', 'IMAGENET1K_V1', 'EfficientNet_B2'],
  [320, 300, 'bicubic', 'IMAGENET1K_V1', 'EfficientNet_B3'],
  [342, 299, 'bilinear', 'IMAGENET1K_V1', 'Inception_V3'],
  [384, 380, 'bicubic', 'IMAGENET1K_V1', 'EfficientNet_B4'],
  [384, 384, 'bicubic', 'IMAGENET1K_SWAG_E2E_V1', 'RegNet_Y_128GF RegNet_Y_16GF RegNet_Y_32GF ViT_B_16'],
  [384, 384, 'bilinear', 'IMAGENET1K_V1', 'EfficientNet_V2_S'],
  [456, 456, 'bicubic', 'IMAGENET1K_V1', 'EfficientNet_B5'],
  [480, 480, 'bicubic', 'IMAGENET1K_V1', 'EfficientNet_V2_L'],
  [480, 480, 'bilinear', 'IMAGENET1K_V1', 'EfficientNet_V2_M'],
  [512, 512, 'bicubic', 'IMAGENET1K_SWAG_E2E_V1', 'ViT_L_16'],
  [518, 518, 'bicubic', 'IMAGENET1K_SWAG_E2E_V1', 'ViT_H_14'],
  [528, 528, 'bicubic', 'IMAGENET1K_V1', 'EfficientNet_B6'],
  [600, 600, 'bicubic', 'IMAGENET1K_V1', 'EfficientNet_B7'],
]; // prettier-ignore

/** Photos of segmentation weights keep their ratio, and are not cropped. */
const SEGMENTATION: ConfigOptions = { resize: 520, crop: null, interpolation: 'bilinear' };
/** Frames of videos are resized without antialias. */
const FRAMES: ConfigOptions = { interpolation: 'bilinear', resampler: 'torch', antialias: false };
const KINETICS: ConfigOptions = {
  ...FRAMES,
  mean: [0.43216, 0.394666, 0.37645],
  std: [0.22803, 0.22145, 0.216989],
};
const RESNETS: ConfigOptions = { ...KINETICS, resize: { height: 128, width: 171 }, crop: 112 };
const MVITS: ConfigOptions = {
  ...FRAMES,
  resize: 256,
  crop: 224,
  mean: [0.45, 0.45, 0.45],
  std: [0.225, 0.225, 0.225],
};
const SWINS: ConfigOptions = { ...FRAMES, resize: 256, crop: 224 };
/** Detectors resize and normalise in the network; their weights only scale. */
const DETECTION: ConfigOptions = { resize: null, crop: null, mean: null, std: null };

/** Weights of other tasks: their version, the transform, and the models. */
const TASKS: readonly (readonly [string, ConfigOptions, string])[] = [
  ['COCO_WITH_VOC_LABELS_V1', SEGMENTATION, 'DeepLabV3_MobileNet_V3_Large DeepLabV3_ResNet101 DeepLabV3_ResNet50 FCN_ResNet101 FCN_ResNet50 LRASPP_MobileNet_V3_Large'],
  ['KINETICS400_V1', RESNETS, 'MC3_18 R2Plus1D_18 R3D_18'],
  ['KINETICS400_V1', { ...KINETICS, resize: { height: 256, width: 256 }, crop: 224 }, 'S3D'],
  ['KINETICS400_V1', MVITS, 'MViT_V1_B MViT_V2_S'],
  ['KINETICS400_V1', SWINS, 'Swin3D_B Swin3D_S Swin3D_T'],
  ['KINETICS400_IMAGENET22K_V1', SWINS, 'Swin3D_B'],
  ['COCO_V1', DETECTION, 'FasterRCNN_MobileNet_V3_Large_320_FPN FasterRCNN_MobileNet_V3_Large_FPN FasterRCNN_ResNet50_FPN FasterRCNN_ResNet50_FPN_V2 FCOS_ResNet50_FPN KeypointRCNN_ResNet50_FPN MaskRCNN_ResNet50_FPN MaskRCNN_ResNet50_FPN_V2 RetinaNet_ResNet50_FPN RetinaNet_ResNet50_FPN_V2 SSD300_VGG16 SSDLite320_MobileNet_V3_Large'],
  ['COCO_LEGACY', DETECTION, 'KeypointRCNN_ResNet50_FPN'],
]; // prettier-ignore

/** Weights with other numbers than ImageNet's. */
const NORMALIZED: Readonly<Record<string, Pick<ConfigOptions, 'mean' | 'std'>>> = {
  'EfficientNet_V2_L_Weights.IMAGENET1K_V1': { mean: HALF, std: HALF },
  'VGG16_Weights.IMAGENET1K_FEATURES': {
    mean: [0.48235, 0.45882, 0.40784],
    std: [1 / 255, 1 / 255, 1 / 255],
  },
};

export const TORCHVISION_PREFIX = 'torchvision:';

/** How many names a message has. */
const MOST_NAMES = 4;

/** The versions that torchvision's `DEFAULT` can be, the first that there is. */
const DEFAULT = [
  'IMAGENET1K_V2',
  'IMAGENET1K_V1',
  'IMAGENET1K_SWAG_E2E_V1',
  'COCO_WITH_VOC_LABELS_V1',
  'KINETICS400_V1',
  'COCO_V1',
];

/**
 * Reads the transform of weights by their name, as in `torchvision:ResNet50_Weights.IMAGENET1K_V2`, or `….DEFAULT`.
 *
 * @throws {@link TapirError} `TRANSFORM_UNSUPPORTED` for an unknown name.
 */
export function readTorchvisionWeights(request: string): {
  readonly options: ConfigOptions;
  /** What `DEFAULT` stands for. */
  readonly weights: string;
} {
  const wanted = request.slice(TORCHVISION_PREFIX.length);
  const [, model] = /^(.+)\.DEFAULT$/.exec(wanted) ?? [];
  const meant = model === undefined ? [wanted] : DEFAULT.map((version) => `${model}.${version}`);
  const found = new Map<string, ConfigOptions>();
  for (const [resize, crop, interpolation, version, models] of WEIGHTS)
    for (const one of models.split(' ')) {
      const name = `${one}_Weights.${version}`;
      found.set(name, { resize, crop, interpolation, ...NORMALIZED[name] });
    }
  for (const [version, options, models] of TASKS)
    for (const one of models.split(' ')) found.set(`${one}_Weights.${version}`, options);
  const weights = meant.find((name) => found.has(name));
  if (weights !== undefined) return { options: found.get(weights)!, weights };
  // By the network alone: versions are long and much alike.
  const networkOf = (name: string): string => name.replace(/(_Weights?)?(\..*)?$/i, '');
  const networks = nearestNames(networkOf(wanted), [...found.keys()].map(networkOf));
  const nearest = networks
    .flatMap((network) => [...found.keys()].filter((name) => networkOf(name) === network))
    .slice(0, MOST_NAMES)
    .map((name) => `"${TORCHVISION_PREFIX}${name}"`);
  const hint =
    nearest.length > 0
      ? `near it are ${nearest.join(', ')}`
      : 'names are those of torchvision.models, such as "torchvision:ResNet50_Weights.DEFAULT"';
  throw new ConfigFields({}, 'torchvision').refuse('weights', `there are no weights "${wanted}"; ${hint}`);
}

/** Whether it looks like the fields of torchvision's `ImageClassification`. */
export function isTorchvision(json: Readonly<Record<string, unknown>>): boolean {
  return 'resize_size' in json && 'crop_size' in json;
}

/** Reads the fields of torchvision's `ImageClassification`. */
export function readTorchvision(fields: ConfigFields): ConfigOptions {
  fields.skip('model', 'weights');
  const antialias = fields.take('antialias');
  if (antialias === false)
    throw fields.refuse('antialias', 'only frames of videos are resized without antialias');
  return {
    resize: fields.integer('resize_size'),
    crop: fields.integer('crop_size'),
    interpolation: fields.interpolation(['nearest', 'bilinear', 'bicubic'], 'bilinear'),
    mean: fields.channels('mean'),
    std: fields.channels('std'),
  };
}
