/** The transforms of torchvision's classification weights (0.29.2), by name. Source: torchvision.models, `*_Weights` (BSD licence). */
import { nearestNames } from '../../base/nearest-names.js';
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

/** Weights with other numbers than ImageNet's. */
const NORMALIZED: Readonly<Record<string, Pick<ConfigOptions, 'mean' | 'std'>>> = {
  'EfficientNet_V2_L_Weights.IMAGENET1K_V1': { mean: HALF, std: HALF },
  'VGG16_Weights.IMAGENET1K_FEATURES': {
    mean: [0.48235, 0.45882, 0.40784],
    std: [1 / 255, 1 / 255, 1 / 255],
  },
};

export const TORCHVISION_PREFIX = 'torchvision:';

/**
 * Reads the transform of weights by their name, as in `torchvision:ResNet50_Weights.IMAGENET1K_V2`.
 *
 * @throws {@link TapirError} `TRANSFORM_UNSUPPORTED` for an unknown name.
 */
export function readTorchvisionWeights(request: string): ConfigOptions {
  const wanted = request.slice(TORCHVISION_PREFIX.length);
  const names: string[] = [];
  for (const [resize, crop, interpolation, version, models] of WEIGHTS)
    for (const model of models.split(' ')) {
      const name = `${model}_Weights.${version}`;
      if (name === wanted) return { resize, crop, interpolation, ...NORMALIZED[name] };
      names.push(name);
    }
  const nearest = nearestNames(wanted, names).map((name) => `"${TORCHVISION_PREFIX}${name}"`);
  throw new ConfigFields({}, 'torchvision').refuse(
    'weights',
    `there are no weights "${wanted}"; near it are ${nearest.join(', ')}`,
  );
}

/** Whether it looks like the fields of torchvision's `ImageClassification`. */
export function isTorchvision(json: Readonly<Record<string, unknown>>): boolean {
  return 'resize_size' in json && 'crop_size' in json;
}

/** Reads the fields of torchvision's `ImageClassification`. */
export function readTorchvision(fields: ConfigFields): ConfigOptions {
  fields.skip('model', 'weights');
  const antialias = fields.take('antialias');
  if (antialias === false) throw fields.refuse('antialias', 'a resize without antialias is not supported');
  return {
    resize: fields.integer('resize_size'),
    crop: fields.integer('crop_size'),
    interpolation: fields.interpolation(['nearest', 'bilinear', 'bicubic'], 'bilinear'),
    mean: fields.channels('mean'),
    std: fields.channels('std'),
  };
}
