/** The layer to draw where the caller names none: the last one with places. */
import { invalidOption } from '../../base/checks.js';
import { describeFeatures } from '../../run/model/oracle/describe-features.js';
import type { FeatureInfo } from '../../run/model/prune/feature-info.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';

/** Chooses an output with places, else the last value with places. Throws `OPTION_INVALID` if the file proves no such value. */
export async function chooseMap(model: OnnxModel): Promise<FeatureInfo> {
  const outputs = await describeFeatures(
    model,
    model.outputs.map(({ name }) => `tensor:${name}`),
  );
  const found = outputs.find(hasPlaces) ?? (await describeFeatures(model)).findLast(hasPlaces);
  if (found) return found;
  throw invalidOption(
    'layer',
    'the name of a layer that is a map [N, C, H, W] or tokens of patches (the file proves no such layer)',
    undefined,
  );
}

/** Whether a value is proven to be a map of several places, or tokens of patches. A size that the file leaves open counts as several. */
function hasPlaces({ dims, layout, tokens }: FeatureInfo): boolean {
  if (tokens) return true;
  const first = layout === 'NCHW' ? 2 : layout === 'NHWC' ? 1 : 0;
  return first > 0 && dims![first] !== 1 && dims![first + 1] !== 1;
}
