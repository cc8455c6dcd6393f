/** The names of files that lie beside a model. */

/**
 * Files that hold a model's transform, the surest first: our own, Hugging Face's, Immich's, OpenCLIP's and timm's. Of Hugging Face's two,
 * transformers 5 reads what processor_config.json says of images, and writes no other.
 */
export const TRANSFORM_FILES = [
  'transform.json',
  'processor_config.json',
  'preprocessor_config.json',
  'preprocess_cfg.json',
  'open_clip_config.json',
  'config.json',
] as const;

/** sentence-transformers' list of the folders with the parts of a model. */
export const MODULES_FILE = 'modules.json';
