/** The names of files that lie beside a model. */

/** Files that hold a model's transform, the surest first: our own, Hugging Face's, Immich's, OpenCLIP's and timm's. */
export const TRANSFORM_FILES = [
  'transform.json',
  'preprocessor_config.json',
  'processor_config.json',
  'preprocess_cfg.json',
  'open_clip_config.json',
  'config.json',
] as const;
