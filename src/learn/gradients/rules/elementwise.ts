/** Rules of operators on single elements, with broadcasting. */
import type { Backward, InputGradient, Rule, Rules } from '../backward/backward.js';

/** An operator with one input: `slope` is its derivative. */
const unary =
  (slope: (b: Backward) => string | number): Rule =>
  (b) => [() => b.mul(b.dy, slope(b))];

/** The gradient of an input that was broadcast to the dims of the output. */
function fitted(b: Backward, position: number, gradient: () => string): InputGradient {
  return () => b.fit(gradient(), b.dims(b.output(0)), b.value(position));
}

/** An operator that broadcasts its inputs: `gradient` is that of an input under the dims of the output. */
const broadcast =
  (gradient: (b: Backward, position: number) => string): Rule =>
  (b) =>
    b.node.inputs.map((_, position) => fitted(b, position, () => gradient(b, position)));

const add = broadcast((b) => b.dy);
/** Max and Min: the inputs that give the result share the gradient evenly. */
const extreme: Rule = (b) => {
  const isChosen = (position: number): string => b.indicator(b.equal(b.input(position), b.y));
  const { length } = b.node.inputs;
  const count = (): string =>
    b.node.inputs.map((_, position) => isChosen(position)).reduce((sum, one) => b.add(sum, one));
  return b.node.inputs.map((_, position) =>
    fitted(b, position, () => (length === 1 ? b.dy : b.div(b.mul(b.dy, isChosen(position)), count()))),
  );
};

const cast: Rule = (b) => [
  () => b.cast(b.dy, b.elemTypeOf(b.value(0)) ?? b.refuse('the type of its input is unknown')),
];

export const arithmetic: Rules = {
  Add: add,
  Sum: add,
  Sub: broadcast((b, position) => (position === 0 ? b.dy : b.one('Neg', b.dy))),
  Mul: broadcast((b, position) => b.mul(b.dy, b.input(1 - position))),
  Div: broadcast((b, position) =>
    position === 0 ? b.div(b.dy, b.input(1)) : b.one('Neg', b.div(b.mul(b.dy, b.y), b.input(1))),
  ),
  Mean: broadcast((b) => b.div(b.dy, b.node.inputs.length)),
  /** Where an exponent is 0 the slope is 0, also at base 0; log(0) counts as 0, as in PyTorch. */
  Pow: (b) => {
    const inBase = (): string => {
      const exponent = b.cast(b.input(1), b.elemType);
      const slope = b.mul(exponent, b.pow(b.x, b.sub(exponent, 1)));
      return b.mul(b.dy, b.where(b.equal(exponent, 0), 0, slope));
    };
    const inExponent = (): string => {
      const log = b.one('Log', b.where(b.equal(b.x, 0), 1, b.x));
      return b.mul(b.dy, b.mul(b.y, log));
    };
    return [fitted(b, 0, inBase), fitted(b, 1, inExponent)];
  },
  Max: extreme,
  Min: extreme,
  /** The first input decides, and has no gradient. */
  Where: (b) => [
    () => undefined,
    fitted(b, 1, () => b.where(b.input(0), b.dy, 0)),
    fitted(b, 2, () => b.where(b.input(0), 0, b.dy)),
  ],
  /** x − y · trunc(x / y), where the quotient is constant almost everywhere. */
  Mod: (b) => {
    if (b.int('fmod', 0) !== 1) b.refuse('only fmod = 1 is a remainder of floating-point numbers');
    return [fitted(b, 0, () => b.dy)];
  },
  Cast: cast,
  /** The second input only states the type, and has no gradient. */
  CastLike: (b) => [...cast(b), () => undefined],
  /** For inference it gives its input. In training mode, the mask of this very run says what was kept and scaled. */
  Dropout: (b) => {
    const isTraining = b.has(2) ? b.constant(2)?.[0] : 0;
    if (isTraining === undefined) b.refuse('whether it is in training mode is computed in the graph');
    const masked = (): string => {
      if (!b.node.outputs[1]) b.refuse('it is in training mode, and gives no mask');
      const share = b.sub(1, b.has(1) ? b.input(1) : 0.5);
      return b.where(b.output(1).name, b.div(b.dy, share), 0);
    };
    return [() => (isTraining === 0 ? b.dy : masked()), () => undefined];
  },
  Identity: (b) => [() => b.dy],
  Neg: (b) => [() => b.one('Neg', b.dy)],
  Abs: unary((b) => b.one('Sign', b.x)),
  Exp: unary((b) => b.y),
  Log: (b) => [() => b.div(b.dy, b.x)],
  // At 0 the slope is infinite; where nothing arrives (a norm that a bound replaced), nothing passes.
  Sqrt: (b) => [() => b.where(b.equal(b.dy, 0), 0, b.div(b.dy, b.mul(b.y, 2)))],
  Reciprocal: (b) => [() => b.one('Neg', b.mul(b.dy, b.mul(b.y, b.y)))],
  Sin: unary((b) => b.one('Cos', b.x)),
  Cos: (b) => [() => b.one('Neg', b.mul(b.dy, b.one('Sin', b.x)))],
  Erf: unary((b) => b.mul(b.one('Exp', b.one('Neg', b.mul(b.x, b.x))), 2 / Math.sqrt(Math.PI))),
};
