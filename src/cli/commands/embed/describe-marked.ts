/** What a run says of photos whose pixels depend on how they are opened. */
import { counted } from '../../../base/printable.js';
import type { EmbeddedManifest } from '../../../datasets/files/manifest.js';

/** A line for turned photos and one for transparent ones, where there are some. */
export function describeMarked({ run: { marked }, transform }: EmbeddedManifest): string[] {
  const { turned, transparent } = marked ?? { turned: 0, transparent: 0 };
  const lines: string[] = [];
  if (turned > 0)
    lines.push(
      transform.orientation === 'exif'
        ? `${counted(turned, 'photo')} with an EXIF orientation, turned upright; --transform orientation=ignore reads them as stored, as Image.open(f) and torchvision do`
        : `${counted(turned, 'photo')} with an EXIF orientation, read as stored, as Image.open(f) and torchvision do; --transform orientation=exif turns them upright, as transformers does with paths and URLs`,
    );
  if (transparent > 0)
    lines.push(
      transform.alpha === 'white'
        ? `${counted(transparent, 'photo')} with transparency, laid over white; --transform alpha=drop shows what is under alpha, as convert("RGB") does`
        : `${counted(transparent, 'photo')} with transparency, without their alpha, as convert("RGB") does; --transform alpha=white lays them over white, as transformers 5 does with Image.open(f)`,
    );
  return lines;
}
