/** A comparison in sentences, for the terminal and the page. */
import type { ComparedOutput, ModelComparison } from './comparison.js';
import type { Agreement } from './compare-outputs.js';

/** Least cosines from which vectors agree closely, and roughly. */
const [CLOSE, ROUGH] = [0.999, 0.98];

/** What it comes to, in a sentence: the output that agrees least decides. */
export function describeVerdict(outputs: readonly ComparedOutput[]): string {
  const compared = outputs.flatMap((output) => (output.cosine ? [{ ...output, ...output.cosine }] : []));
  const [worst] = compared.toSorted((a, b) => a.least - b.least);
  if (!worst)
    return outputs.every(({ images }) => images === 0)
      ? 'No image was compared.'
      : 'The vectors have different shapes, so no cosine says how far they agree.';
  if (outputs.every(({ images, identical }) => identical === images))
    return 'Both models give the same vectors for every image.';
  const words = worst.least >= CLOSE ? 'agree closely' : worst.least >= ROUGH ? 'agree roughly' : 'differ';
  return `The vectors ${words}: the cosine of ${worst.key} is ${formatCosine(worst.mean)} on average and ${formatCosine(worst.least)} at least.`;
}

/** What the numbers say about each output, in a sentence. */
export function describeAgreement({ images, identical, cosine, notFinite }: Agreement): string {
  const left = notFinite === 0 ? '' : ` ${notFinite} with NaN or infinite values are left out.`;
  if (images === 0) return `There is no image to compare.${left}`;
  if (cosine === null)
    return `The vectors have different shapes, so only neighbours are compared: --return and --return-b name other layers.${left}`;
  if (identical === images) return `The vectors are the same for all ${images} images.${left}`;
  const same = identical === 0 ? '' : `; ${identical} of them have the same vectors`;
  return `${images} images were compared${same}.${left}`;
}

/** What the transforms have to do with it, a sentence each. */
export function describePixels(found: ModelComparison): string[] {
  const { transforms, pixels, outputs } = found;
  const assumed = (['a', 'b'] as const)
    .filter((side) => found[side].transform.assumed)
    .map((side) => `The preprocessing of ${side.toUpperCase()} is assumed: no configuration lies beside it.`);
  if (transforms.length === 0)
    return ['Both models got the same pixels: their transforms are the same.', ...assumed];
  const options = transforms.map(
    ({ option, a, b }) => `${option} (${formatOption(a)} and ${formatOption(b)})`,
  );
  const lines = [`The models got different pixels: their transforms differ in ${options.join(', ')}.`];
  if (pixels)
    lines.push(
      pixels.identical === pixels.images
        ? `The pixels of the first ${pixels.images} images are the same nevertheless.`
        : `Normalised pixels differ by ${pixels.meanDifference.toPrecision(3)} on average and ${pixels.maxDifference.toPrecision(3)} at most, over ${pixels.images} images.`,
    );
  if (outputs.every(({ onPixelsOfA }) => onPixelsOfA === null))
    lines.push("A's transform does not fit B, so the models were not compared on the same pixels.");
  return [...lines, ...assumed];
}

/** An option's value. */
export function formatOption(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A cosine with as many nines as it has: `0.99987`. */
export function formatCosine(cosine: number): string {
  if (cosine === 1) return '1';
  return cosine.toFixed(Math.min(9, Math.max(4, 2 - Math.floor(Math.log10(Math.max(1e-12, 1 - cosine))))));
}
