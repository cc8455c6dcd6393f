/** Rules of activation functions. At a kink they give PyTorch's slope. */
import type { Backward, Rule, Rules } from '../backward/backward.js';

/** A function of one element: `gradient` is that of its input. */
const activation =
  (gradient: (b: Backward) => string): Rule =>
  (b) => [() => gradient(b)];

/** The slope is 1 or 0: `passes` is the condition for 1. */
const gate = (passes: (b: Backward) => string): Rule => activation((b) => b.where(passes(b), b.dy, 0));

const SELU_ALPHA = 1.67326319217681884765625;
const SELU_GAMMA = 1.05070102214813232421875;

/** 1 above 0, and the given slope elsewhere. */
const leaky = (b: Backward, slope: string | number): string =>
  b.where(b.greater(b.x, 0), b.dy, b.mul(b.dy, slope));

/** x · σ(αx): its slope is s + αx·s·(1 − s). */
const swish = (b: Backward, alpha: number): string => {
  const s = b.one('Sigmoid', alpha === 1 ? b.x : b.mul(b.x, alpha));
  return b.mul(b.dy, b.add(s, b.mul(b.mul(b.x, alpha), b.mul(s, b.sub(1, s)))));
};

/** x·Φ(x): its slope is Φ(x) + x·φ(x). */
const gelu = (b: Backward): string => {
  const cumulative = b.mul(b.add(b.one('Erf', b.mul(b.x, Math.SQRT1_2)), 1), 0.5);
  const density = b.mul(b.one('Exp', b.mul(b.mul(b.x, b.x), -0.5)), 1 / Math.sqrt(2 * Math.PI));
  return b.mul(b.dy, b.add(cumulative, b.mul(b.x, density)));
};

/** x/2 · (1 + t) with t = tanh(√(2/π)·(x + 0.044715·x³)). */
const tanhGelu = (b: Backward): string => {
  const [root, cubic] = [Math.sqrt(2 / Math.PI), 0.044715];
  const square = b.mul(b.x, b.x);
  const t = b.one('Tanh', b.mul(b.mul(b.x, root), b.add(b.mul(square, cubic), 1)));
  const inner = b.mul(b.add(b.mul(square, 3 * cubic), 1), root);
  const slope = b.mul(b.mul(b.x, b.sub(1, b.mul(t, t))), inner);
  return b.mul(b.dy, b.mul(b.add(b.add(t, 1), slope), 0.5));
};

/** x·tanh(softplus(x)): its slope is t + x·(1 − t²)·σ(x). */
const mish = (b: Backward): string => {
  const t = b.one('Tanh', b.one('Softplus', b.x));
  const inner = b.mul(b.sub(1, b.mul(t, t)), b.one('Sigmoid', b.x));
  return b.mul(b.dy, b.add(t, b.mul(b.x, inner)));
};

/** max(0, min(1, αx + β)) passes where it is strictly between its bounds. */
const isBetween = (b: Backward, low: number, high: number): string =>
  b.nodes.add('And', [b.greater(b.x, low), b.less(b.x, high)]);

export const activations: Rules = {
  Relu: gate((b) => b.greater(b.y, 0)),
  LeakyRelu: activation((b) => leaky(b, b.float('alpha', 0.01))),
  ThresholdedRelu: gate((b) => b.greater(b.x, b.float('alpha', 1))),
  /** The slope of negative elements is an input, which is broadcast. */
  PRelu: (b) => [
    () => leaky(b, b.input(1)),
    () => {
      const gradient = b.where(b.greater(b.x, 0), 0, b.mul(b.dy, b.x));
      return b.fit(gradient, b.dims(b.output(0)), b.value(1));
    },
  ],
  Elu: activation((b) => leaky(b, b.mul(b.one('Exp', b.x), b.float('alpha', 1)))),
  Celu: activation((b) => leaky(b, b.one('Exp', b.div(b.x, b.float('alpha', 1))))),
  Selu: activation((b) => {
    const gamma = b.float('gamma', SELU_GAMMA);
    return b.mul(leaky(b, b.mul(b.one('Exp', b.x), b.float('alpha', SELU_ALPHA))), gamma);
  }),
  Sigmoid: activation((b) => b.mul(b.dy, b.mul(b.y, b.sub(1, b.y)))),
  Tanh: activation((b) => b.mul(b.dy, b.sub(1, b.mul(b.y, b.y)))),
  Softplus: activation((b) => b.mul(b.dy, b.one('Sigmoid', b.x))),
  Softsign: activation((b) => {
    const root = b.add(b.one('Abs', b.x), 1);
    return b.div(b.dy, b.mul(root, root));
  }),
  Gelu: activation((b) => (b.text('approximate', 'none') === 'tanh' ? tanhGelu(b) : gelu(b))),
  Swish: activation((b) => swish(b, b.float('alpha', 1))),
  Mish: activation(mish),
  HardSigmoid: (b) => {
    const [alpha, beta] = [b.float('alpha', 0.2), b.float('beta', 0.5)];
    return [() => b.where(isBetween(b, -beta / alpha, (1 - beta) / alpha), b.mul(b.dy, alpha), 0)];
  },
  /** x · max(0, min(1, x/6 + 1/2)). */
  HardSwish: activation((b) => {
    const inner = b.where(b.less(b.x, 3), b.mul(b.dy, b.add(b.div(b.x, 3), 0.5)), b.dy);
    return b.where(b.greater(b.x, -3), inner, 0);
  }),
  /** Passes strictly between the bounds, which are inputs since operator set 11: at them, ReLU6 has slope 0. */
  Clip: (b) => {
    const bound = (name: string, position: number): string | number | undefined =>
      b.has(position) ? b.input(position) : b.hasAttribute(name) ? b.float(name, 0) : undefined;
    const inside = (): string | undefined => {
      const [low, high] = [bound('min', 1), bound('max', 2)];
      const above = low === undefined ? undefined : b.greater(b.x, low);
      const below = high === undefined ? undefined : b.less(b.x, high);
      return above !== undefined && below !== undefined
        ? b.nodes.add('And', [above, below])
        : (above ?? below);
    };
    return [
      () => {
        const passes = inside();
        return passes === undefined ? b.dy : b.where(passes, b.dy, 0);
      },
    ];
  },
};
