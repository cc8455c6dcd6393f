/** The methods of attribution, and what each of them needs. */

/** Class activation maps: of a layer inside the network. */
export const LAYER_METHODS = [
  'grad-cam',
  'grad-cam++',
  'xgrad-cam',
  'hires-cam',
  'layer-cam',
  'eigen-cam',
  'score-cam',
] as const;

/** Statistics of the gradients at noisy images. */
export const NOISE_METHODS = ['smooth-grad', 'smooth-grad-squared', 'var-grad'] as const;

/** Maps of the pixels that the score depends on. */
export const INPUT_METHODS = [
  'saliency',
  'input-x-gradient',
  'integrated-gradients',
  'smooth-grad',
  'smooth-grad-squared',
  'var-grad',
] as const;

export type LayerMethod = (typeof LAYER_METHODS)[number];
export type InputMethod = (typeof INPUT_METHODS)[number];
export type NoiseMethod = (typeof NOISE_METHODS)[number];

/** The methods of {@link createAttribution}, by name: class activation maps of a layer first. */
export const ATTRIBUTION_METHODS: readonly AttributionMethod[] = [...LAYER_METHODS, ...INPUT_METHODS];

/** The methods of {@link createAttribution}. */
export type AttributionMethod = LayerMethod | InputMethod;

export function isLayerMethod(method: AttributionMethod): method is LayerMethod {
  return (LAYER_METHODS as readonly string[]).includes(method);
}

/** Whether a method takes a backward pass. */
export function hasGradient(method: AttributionMethod): boolean {
  return method !== 'eigen-cam' && method !== 'score-cam';
}
