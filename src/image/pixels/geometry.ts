/** The geometry of torchvision's Resize and CenterCrop. Arithmetic only. */

/** Height and width in pixels. */
export interface Size {
  readonly height: number;
  readonly width: number;
}

/** A region of a resized image. It may reach beyond the image on any side, where CenterCrop pads with zeros. */
export interface Region extends Size {
  readonly top: number;
  readonly left: number;
}

/** The result size of Resize: a number becomes the shorter side; the longer one is truncated, as by Python's int(). */
export function resizedSize({ height, width }: Size, target: number | Size | null): Size {
  if (target === null) return { height, width };
  if (typeof target !== 'number') return target;
  const [short, long] = width <= height ? [width, height] : [height, width];
  const newLong = Math.max(1, Math.trunc((target * long) / short));
  return width <= height ? { height: newLong, width: target } : { height: target, width: newLong };
}

/** The region that CenterCrop cuts from an image of a size. */
export function centerCrop(size: Size, crop: Size | null): Region {
  if (crop === null) return { top: 0, left: 0, ...size };
  return { top: cropOffset(size.height, crop.height), left: cropOffset(size.width, crop.width), ...crop };
}

/** Half the difference, rounded half to even as by Python's round(). An image that is too small gets padding instead. */
function cropOffset(size: number, crop: number): number {
  if (size < crop) return -Math.trunc((crop - size) / 2);
  const half = (size - crop) / 2;
  const floor = Math.floor(half);
  return half - floor === 0.5 ? floor + (floor % 2) : Math.round(half);
}
