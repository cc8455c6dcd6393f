/** Mean and standard deviation of each channel (RGB) in ImageNet training, for pixels from 0 to 1. */
export const IMAGENET_MEAN = [0.485, 0.456, 0.406] as const;
export const IMAGENET_STD = [0.229, 0.224, 0.225] as const;
