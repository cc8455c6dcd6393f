/** Means and standard deviations that several libraries have, beside ImageNet's. */

/** CLIP's, for pixels from 0 to 1. */
export const CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073] as const;
export const CLIP_STD = [0.26862954, 0.26130258, 0.27577711] as const;

/** Maps pixels from 0 to 1 to −1 to 1. */
export const HALF = [0.5, 0.5, 0.5] as const;
