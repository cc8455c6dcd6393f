/** What torchvision's architectures run, in order: the steps of the networks whose names follow from the order of their operators. */
import { writeNetwork, type Family } from '../../networks/architecture.js';
import { ALEXNETS } from '../../networks/families/alexnet.js';
import { DENSENETS } from '../../networks/families/densenet.js';
import { RESNETS } from '../../networks/families/resnet.js';
import { SQUEEZENETS } from '../../networks/families/squeezenet.js';
import { VGGS } from '../../networks/families/vgg.js';

/** The operator class of a step by the operator that networks write. */
const KINDS = {
  Conv: 'conv',
  BatchNormalization: 'bn',
  Relu: 'relu',
  MaxPool: 'maxpool',
  AveragePool: 'avgpool',
  GlobalAveragePool: 'avgpool',
  // Of a pooling to a size.
  MatMul: 'avgpool',
  Add: 'add',
  Concat: 'cat',
  Flatten: 'flatten',
  Gemm: 'linear',
  // Of Dropout.
  Identity: 'pass',
} as const;

/** An operator class of a step; `pass` steps (Dropout, a concatenation of one) may have left no node. */
export type StepKind = (typeof KINDS)[keyof typeof KINDS];

/** A call of a module, or an operation. */
export interface Step {
  readonly kind: StepKind;
  readonly name: string;
  /** The steps that it reads, or {@link IMAGE}; empty where it reads the one before it in a way that torchvision does not list. */
  readonly reads: readonly string[];
  /** Side of a convolution's kernel. */
  readonly kernel: number | undefined;
  /** Channels that a convolution gives, where they count. */
  readonly channels: number | undefined;
}

/** The name of what the first step reads. */
export const IMAGE = 'x';

/**
 * The networks by their number of convolutions, so that only one or two are written for a graph. Others run the same as some of these: wide
 * ResNets and ResNeXt.
 */
export const ORDINAL_NETWORKS: Readonly<Record<number, readonly string[]>> = {
  5: ['alexnet'],
  8: ['vgg11', 'vgg11_bn'],
  10: ['vgg13', 'vgg13_bn'],
  13: ['vgg16', 'vgg16_bn'],
  16: ['vgg19', 'vgg19_bn'],
  20: ['resnet18'],
  26: ['squeezenet1_0', 'squeezenet1_1'],
  36: ['resnet34'],
  53: ['resnet50'],
  104: ['resnet101'],
  120: ['densenet121'],
  155: ['resnet152'],
  160: ['densenet161'],
  168: ['densenet169'],
  200: ['densenet201'],
};

/** The families that the list names: everything that reads names loads them. */
const NETWORKS: Family = { ...ALEXNETS, ...DENSENETS, ...RESNETS, ...SQUEEZENETS, ...VGGS };

/** Mere chains of convolutions and poolings: only their channels tell them from others. */
const IS_CHAIN = /^(?:vgg|alexnet)/;

/** The steps of a network. */
export function stepsOf(name: string): Step[] {
  const { nodes, parameters } = writeNetwork(NETWORKS[name]!, IMAGE);
  const listed = new Set([IMAGE]);
  return nodes.flatMap(({ opType, inputs, outputs: [output] }): Step[] => {
    // Tensors that torchvision does not list have a path.
    if (output!.startsWith('/')) return [];
    listed.add(output!);
    const reads = inputs.filter((input) => listed.has(input));
    const kind = opType === 'Concat' && inputs.length === 1 ? 'pass' : KINDS[opType as keyof typeof KINDS];
    const dims = kind === 'conv' ? parameters.get(inputs[1]!)!.dims : [];
    return [
      { kind, name: output!, reads, kernel: dims[2], channels: IS_CHAIN.test(name) ? dims[0] : undefined },
    ];
  });
}
