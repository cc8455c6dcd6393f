/** A network of a few nodes for clips [N, 3, T, H, W]: a convolution over frames, height and width. */
import { modelBytes } from './graphs.js';

/** @param frames - The axis of frames: a name, or the number that the file fixes. @param side - Height and width. */
export function videoNet(frames: string | number = 'frames', side = 16): Uint8Array {
  const values = Array.from({ length: 4 * 3 * 2 * 3 * 3 }, (_, i) => Math.sin(1 + i * 12.9898) / 2);
  return modelBytes({
    inputs: [{ name: 'input', dims: ['batch', 3, frames, side, side] }],
    outputs: [{ name: 'map', dims: ['batch', 4, 'time', side, side] }],
    nodes: [
      {
        name: '/stem/Conv',
        op: 'Conv',
        inputs: ['input', 'stem.weight'],
        outputs: ['map'],
        ints: { kernel_shape: [2, 3, 3], pads: [0, 1, 1, 0, 1, 1] },
      },
    ],
    initializers: { 'stem.weight': { dims: [4, 3, 2, 3, 3], values } },
  });
}
