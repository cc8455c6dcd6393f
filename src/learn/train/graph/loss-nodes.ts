/**
 * A loss after an output, as nodes. It is a sum over all elements or rows; the caller divides by their number, so that the
 * losses of parts of a batch add up. Everything that depends on targets alone (classes, weights, smoothing) is computed before the run and
 * fed: so one formula serves many losses.
 */
import { TapirError } from '../../../base/errors.js';
import { ELEMENT_TYPE, type Dim } from '../../../onnx/file/wire/schema.js';
import type { NewValue } from '../../../onnx/file/wire/write-model.js';
import { GraphMath } from '../../gradients/backward/graph-math.js';
import { opsetOf } from '../../../onnx/graph/operator-sets.js';
import { NodeBuilder } from '../../../onnx/graph/rewrite/node-builder.js';
import type { Rewrite, RewriteOutput } from '../../../onnx/graph/rewrite/rewrite.js';

/** What is summed, with x the output and t, u the fed tensors, of its dims. */
export type LossForm =
  /** −t · log softmax(x), over axis 1. */
  | { readonly kind: 'log-softmax' }
  /** −t · x. */
  | { readonly kind: 'linear' }
  /** t · x + u · softplus(−x). */
  | { readonly kind: 'logistic' }
  /** (x − t)². */
  | { readonly kind: 'squared' }
  /** |x − t|. */
  | { readonly kind: 'absolute' }
  /** With d = |x − t|: d² / 2β below β, else d − β / 2; times `scale`. */
  | { readonly kind: 'smooth'; readonly beta: number; readonly scale: number }
  /** 1 − the cosine of x and t over axis 1, where t has length 1. */
  | { readonly kind: 'cosine' };

/** A graph with a loss. */
export interface LossRewrite {
  readonly rewrite: Rewrite;
  /** Names of the inputs for what the form calls t and u. */
  readonly targets: readonly string[];
  /** The name of the output `[]` with the sum. */
  readonly loss: string;
  /** The name of the output with the index of the largest element along axis 1, int64; undefined for losses without classes. */
  readonly predicted: string | undefined;
}

/** Since this operator set, LogSoftmax works along one axis. */
const LOG_SOFTMAX_AXIS = 13;
/** What torch adds to squared lengths in cosine losses. */
export const COSINE_EPSILON = 1e-12;

/** Adds a loss after an output: float32, of known rank. Throws `OUTPUT_MISFIT` if the operator set lacks the arithmetic. */
export function withLoss(
  rewrite: Rewrite,
  output: RewriteOutput,
  { dims, form }: { readonly dims: readonly Dim[]; readonly form: LossForm },
): LossRewrite {
  const { names } = rewrite;
  const opset = opsetOf(rewrite.cut.graph);
  const refuse = (reason: string): TapirError => misfit(output, reason);
  if (form.kind === 'log-softmax' && dims.length > 2 && opset < LOG_SOFTMAX_AXIS)
    throw refuse(`a loss over axis 1 of ${dims.length} needs operator set ${LOG_SOFTMAX_AXIS}`);
  const builder = new NodeBuilder(names, 'loss', opset, refuse);
  const math = new GraphMath(builder, ELEMENT_TYPE.float32, new Map());
  const targets = Array.from({ length: form.kind === 'logistic' ? 2 : 1 }, () =>
    names.take('tapir/loss/target'),
  );
  const terms = termsOf(math, output.tensor, targets, form);
  const loss = builder.add('ReduceSum', [terms], { keepdims: 0 });
  const hasClasses = form.kind === 'log-softmax' || (form.kind === 'linear' && dims.length > 1);
  const predicted = hasClasses ? builder.add('ArgMax', [output.tensor], { axis: 1, keepdims: 0 }) : undefined;
  const added = (tensor: string, elemType: number, of: readonly Dim[]): RewriteOutput => ({
    ...output,
    request: tensor,
    key: tensor,
    tensor,
    type: { elemType, dims: of },
    layout: undefined,
    computed: ['loss'],
  });
  const inputs = targets.map((name): NewValue => ({ name, elemType: ELEMENT_TYPE.float32, dims }));
  return {
    rewrite: {
      ...rewrite,
      inputs: [...rewrite.inputs, ...inputs],
      outputs: [
        ...rewrite.outputs,
        added(loss, ELEMENT_TYPE.float32, []),
        ...(predicted === undefined ? [] : [added(predicted, ELEMENT_TYPE.int64, dims.toSpliced(1, 1))]),
      ],
      back: [...rewrite.back, ...builder.nodes],
      tensors: [...rewrite.tensors, ...builder.tensors],
    },
    targets,
    loss,
    predicted,
  };
}

/** The terms of the sum. */
function termsOf(math: GraphMath, x: string, [t, u]: readonly string[], form: LossForm): string {
  const negative = (tensor: string): string => math.one('Neg', tensor);
  const difference = (): string => math.sub(x, t!);
  switch (form.kind) {
    case 'log-softmax':
      return math.mul(negative(t!), math.nodes.add('LogSoftmax', [x], { axis: 1 }));
    case 'linear':
      return math.mul(negative(t!), x);
    case 'logistic':
      return math.add(math.mul(t!, x), math.mul(u!, math.one('Softplus', negative(x))));
    case 'squared': {
      const off = difference();
      return math.mul(off, off);
    }
    case 'absolute':
      return math.one('Abs', difference());
    case 'smooth': {
      const { beta, scale } = form;
      const off = math.one('Abs', difference());
      const near = math.mul(math.mul(off, off), scale / 2 / beta);
      const far = math.mul(math.sub(off, beta / 2), scale);
      return math.where(math.less(off, beta), near, far);
    }
    case 'cosine': {
      const along = math.sum(math.mul(x, t!), [1], false);
      const length = math.one('Sqrt', math.add(math.sum(math.mul(x, x), [1], false), COSINE_EPSILON));
      return math.sub(1, math.div(along, length));
    }
  }
}

function misfit({ request }: RewriteOutput, reason: string): TapirError<'OUTPUT_MISFIT'> {
  const actual = 'of an older operator set';
  return new TapirError(
    'OUTPUT_MISFIT',
    `no loss can be put after "${request}": ${reason}; convert the model first (onnx.version_converter)`,
    {
      details: { output: request, actual, reason },
    },
  );
}
