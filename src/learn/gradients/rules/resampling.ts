/**
 * Rules of Resize and Pad: maps that are linear along each axis. What they do to one axis is read off what the same operator makes of the
 * identity matrix, so every mode is right without a formula.
 */
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import type { NewAttribute } from '../../../onnx/file/wire/write-model.js';
import type { Backward, Rule, Rules } from '../backward/backward.js';
import { axesFrom } from '../backward/graph-math.js';

/** The identity matrix with the size of an axis of the input. */
function identity(b: Backward, axis: number): string {
  const size = b.sizeAt(b.value(0), axis);
  return b.one('EyeLike', b.expand(0, b.concat([size, size], 0)));
}

/** Multiplies a gradient along an axis with a matrix `[before, after]`. */
function multiplyAlong(b: Backward, gradient: string, axis: number, matrix: string): string {
  const rank = b.rank(b.value(0));
  if (axis === rank - 2) return b.matmul(matrix, gradient);
  const last = b.transpose(matrix, [1, 0]);
  if (axis === rank - 1) return b.matmul(gradient, last);
  const swap = Array.from({ length: rank }, (_, i) => (i === axis ? rank - 1 : i === rank - 1 ? axis : i));
  return b.transpose(b.matmul(b.transpose(gradient, swap), last), swap);
}

/** Axes whose sizes before and after are not proven equal. */
function changedAxes(b: Backward): number[] {
  const after = b.dims(b.output(0));
  return b.dims(b.value(0)).flatMap((size, axis) => (size !== null && size === after[axis] ? [] : [axis]));
}

/** Attributes of Resize that say how it interpolates. */
const INTERPOLATION = ['mode', 'coordinate_transformation_mode', 'nearest_mode'] as const;

/** Since this operator set, Resize has a region, and takes sizes. */
const RESIZE_SIZES = 11;

const resize: Rule = (b) => {
  const hasSizes = b.has(3);
  const scales = b.opset >= RESIZE_SIZES ? 2 : 1;
  if (b.text('coordinate_transformation_mode', '') === 'tf_crop_and_resize') b.refuse('it cuts a region out');
  if (b.text('keep_aspect_ratio_policy', 'stretch') !== 'stretch') b.refuse('it keeps the aspect ratio');
  if (b.hasAttribute('axes')) b.refuse('it names the axes that it resizes');
  if (!hasSizes && !b.has(scales)) b.refuse('it has neither scales nor sizes');
  const attributes: Record<string, NewAttribute> = {};
  for (const name of INTERPOLATION) if (b.hasAttribute(name)) attributes[name] = b.text(name, '');
  for (const name of ['exclude_outside', 'antialias'])
    if (b.hasAttribute(name)) attributes[name] = b.int(name, 0);
  if (b.hasAttribute('cubic_coeff_a'))
    attributes['cubic_coeff_a'] = { float: b.float('cubic_coeff_a', -0.75) };
  /** What the axis becomes, `[before, after]`: the third axis of [1, before, before, 1] is resized. */
  const matrix = (axis: number): string => {
    const rows = b.unsqueeze(identity(b, axis), [0, 3]);
    const one = b.ints([1]);
    if (hasSizes) {
      const sizes = b.concat([one, b.sizeAt(b.value(0), axis), b.sizeAt(b.output(0), axis), one], 0);
      return b.squeeze(b.nodes.add('Resize', [rows, '', '', sizes], attributes), [0, 3]);
    }
    const same = b.reshape(b.scalar(1, ELEMENT_TYPE.float32), [1]);
    const scale = b.slice(b.input(scales), [0], [axis], [axis + 1]);
    const list = b.concat([same, same, scale, same], 0);
    const inputs = scales === 2 ? [rows, '', list] : [rows, list];
    return b.squeeze(b.nodes.add('Resize', inputs, attributes), [0, 3]);
  };
  return [
    () => {
      const spatial = b.dims(b.value(0)).flatMap((_, axis) => (axis > 1 ? [axis] : []));
      // A scale can move elements and keep the size.
      const axes = hasSizes ? changedAxes(b) : [...new Set([...changedAxes(b), ...spatial])];
      return axes.reduce((gradient, axis) => multiplyAlong(b, gradient, axis, matrix(axis)), b.dy);
    },
    ...[1, 2, 3].map(() => undefined),
  ];
};

/** Since this operator set, Pad reads its pads from an input. */
const PADS_INPUT = 11;

/** Zeros before and after are cut off again; all other modes copy elements, whose gradients add up. */
const pad: Rule = (b) => {
  const mode = b.text('mode', 'constant');
  const given = b.list('pads') ?? b.constant(1);
  const rank = b.rank(b.value(0));
  const axes = b.has(3)
    ? (b.constant(3) ?? b.refuse('its axes are computed in the graph')).map((axis) => b.wrap(axis, rank))
    : axesFrom(0, rank);
  const padsOf = (axis: number): readonly [number, number] => {
    const at = axes.indexOf(axis);
    return at < 0 ? [0, 0] : [given![at]!, given![at + axes.length]!];
  };
  const all = axesFrom(0, rank);
  return [
    () => {
      if (mode === 'constant' && given)
        return b.pad(b.dy, [...all.map((axis) => -padsOf(axis)[0]), ...all.map((axis) => -padsOf(axis)[1])]);
      if (mode === 'constant') {
        const inputs = [b.dy, b.one('Neg', b.input(1))];
        return b.nodes.add('Pad', b.has(3) ? [...inputs, '', b.input(3)] : inputs);
      }
      if (!given) b.refuse(`its mode is "${mode}" and its pads are computed in the graph`);
      return all.reduce((gradient, axis) => {
        const [before, after] = padsOf(axis);
        if (before === 0 && after === 0) return gradient;
        const pads = [0, before, 0, after];
        const matrix =
          b.opset >= PADS_INPUT
            ? b.nodes.add('Pad', [identity(b, axis), b.ints(pads)], { mode })
            : b.nodes.add('Pad', [identity(b, axis)], { mode, pads });
        return multiplyAlong(b, gradient, axis, matrix);
      }, b.dy);
    },
    () => undefined,
  ];
};

export const resampling: Rules = { Resize: resize, Pad: pad };
