/** What torchvision's architectures run, in order: names as torchvision lists them, with the operator of each. */

/** An operator class of a step; `pass` steps (Dropout, a concatenation of one) may have left no node. */
export type StepKind =
  'conv' | 'bn' | 'relu' | 'maxpool' | 'avgpool' | 'add' | 'cat' | 'flatten' | 'linear' | 'pass';

/** A call of a module, or an operation. */
export interface Step {
  readonly kind: StepKind;
  readonly name: string;
  /** The steps it reads; the one before it if absent. */
  readonly reads?: readonly string[];
  /** Side of a convolution's kernel. */
  readonly kernel?: number;
  /** Channels that a convolution gives. */
  readonly channels?: number;
}

/** An architecture of torchvision. */
export interface Architecture {
  readonly name: string;
  readonly steps: () => Step[];
}

const step = (kind: StepKind, name: string, more: Partial<Step> = {}): Step => ({ kind, name, ...more });

/** He et al., "Deep Residual Learning for Image Recognition", 2015; ResNeXt and wide ResNets run the same. */
function resnet(blocks: readonly number[], convolutions: 2 | 3): Step[] {
  const steps = [
    step('conv', 'conv1', { kernel: 7 }),
    step('bn', 'bn1'),
    step('relu', 'relu'),
    step('maxpool', 'maxpool'),
  ];
  let entry = 'maxpool';
  blocks.forEach((count, stage) => {
    for (let block = 0; block < count; block++) {
      const at = (name: string): string => `layer${stage + 1}.${block}.${name}`;
      for (let k = 1; k <= convolutions; k++) {
        const kernel = convolutions === 3 && k !== 2 ? 1 : 3;
        steps.push(step('conv', at(`conv${k}`), { kernel }), step('bn', at(`bn${k}`)));
        if (k < convolutions) steps.push(step('relu', at(k === 1 ? 'relu' : `relu_${k - 1}`)));
      }
      // Where channels or size change: everywhere at first except for basic blocks, whose first stage keeps both.
      const hasDownsample = block === 0 && (stage > 0 || convolutions === 3);
      if (hasDownsample) {
        steps.push(
          step('conv', at('downsample.0'), { kernel: 1, reads: [entry] }),
          step('bn', at('downsample.1')),
        );
      }
      const reads = [at(`bn${convolutions}`), hasDownsample ? at('downsample.1') : entry];
      steps.push(step('add', at('add'), { reads }), step('relu', at(`relu_${convolutions - 1}`)));
      entry = at(`relu_${convolutions - 1}`);
    }
  });
  return [...steps, step('avgpool', 'avgpool'), step('flatten', 'flatten'), step('linear', 'fc')];
}

/** Huang et al., "Densely Connected Convolutional Networks", 2017. */
function densenet(blocks: readonly number[]): Step[] {
  const at = (name: string): string => `features.${name}`;
  const steps = [
    step('conv', at('conv0'), { kernel: 7 }),
    step('bn', at('norm0')),
    step('relu', at('relu0')),
    step('maxpool', at('pool0')),
  ];
  let entry = at('pool0');
  blocks.forEach((layers, index) => {
    const block = at(`denseblock${index + 1}`);
    const features = [entry];
    for (let layer = 1; layer <= layers; layer++) {
      const inside = (name: string): string => `${block}.denselayer${layer}.${name}`;
      steps.push(step(layer === 1 ? 'pass' : 'cat', inside('cat'), { reads: [...features] }));
      for (const k of [1, 2])
        steps.push(
          step('bn', inside(`norm${k}`)),
          step('relu', inside(`relu${k}`)),
          step('conv', inside(`conv${k}`), { kernel: k === 1 ? 1 : 3 }),
        );
      features.push(inside('conv2'));
    }
    steps.push(step('cat', `${block}.cat`, { reads: features }));
    if (index === blocks.length - 1) return;
    const transition = at(`transition${index + 1}`);
    steps.push(
      step('bn', `${transition}.norm`),
      step('relu', `${transition}.relu`),
      step('conv', `${transition}.conv`, { kernel: 1 }),
      step('avgpool', `${transition}.pool`),
    );
    entry = `${transition}.pool`;
  });
  return [
    ...steps,
    step('bn', at('norm5')),
    step('relu', 'relu'),
    step('avgpool', 'adaptive_avg_pool2d'),
    step('flatten', 'flatten'),
    step('linear', 'classifier'),
  ];
}

/** Simonyan and Zisserman, "Very Deep Convolutional Networks", 2015; convolutions per stage. */
function vgg(stages: readonly number[], hasBatchNorm: boolean): Step[] {
  const kinds = stages.flatMap((count): StepKind[] => [
    ...Array.from({ length: count }, (): StepKind[] =>
      hasBatchNorm ? ['conv', 'bn', 'relu'] : ['conv', 'relu'],
    ).flat(),
    'maxpool',
  ]);
  const classifier: StepKind[] = ['linear', 'relu', 'pass', 'linear', 'relu', 'pass', 'linear'];
  return [
    ...withConvolutions(
      kinds,
      stages.flatMap((count, stage) =>
        Array.from({ length: count }, () => [Math.min(512, 64 * 2 ** stage), 3] as const),
      ),
    ),
    step('avgpool', 'avgpool'),
    step('flatten', 'flatten'),
    ...classifier.map((kind, i) => step(kind, `classifier.${i}`)),
  ];
}

/** Numbered features, their convolutions of the given channels and kernels in turn. */
function withConvolutions(
  kinds: readonly StepKind[],
  convolutions: readonly (readonly [channels: number, kernel: number])[],
): Step[] {
  let next = 0;
  return kinds.map((kind, i) => {
    const name = `features.${i}`;
    if (kind !== 'conv') return step(kind, name);
    const [channels, kernel] = convolutions[next++]!;
    return step(kind, name, { channels, kernel });
  });
}

/** Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014. */
function alexnet(): Step[] {
  const kinds: StepKind[] = [
    ...(['conv', 'relu', 'maxpool', 'conv', 'relu', 'maxpool'] as const),
    ...(['conv', 'relu', 'conv', 'relu', 'conv', 'relu', 'maxpool'] as const),
  ];
  const classifier: StepKind[] = ['pass', 'linear', 'relu', 'pass', 'linear', 'relu', 'linear'];
  return [
    ...withConvolutions(kinds, [
      [64, 11],
      [192, 5],
      [384, 3],
      [256, 3],
      [256, 3],
    ]),
    step('avgpool', 'avgpool'),
    step('flatten', 'flatten'),
    ...classifier.map((kind, i) => step(kind, `classifier.${i}`)),
  ];
}

/** Iandola et al., "SqueezeNet", 2016; `pools` are the places of its max poolings among its features. */
function squeezenet(pools: readonly number[], kernel: number): Step[] {
  const fire = (at: string): Step[] => [
    step('conv', `${at}.squeeze`, { kernel: 1 }),
    step('relu', `${at}.squeeze_activation`),
    step('conv', `${at}.expand1x1`, { kernel: 1 }),
    step('relu', `${at}.expand1x1_activation`),
    step('conv', `${at}.expand3x3`, { kernel: 3, reads: [`${at}.squeeze_activation`] }),
    step('relu', `${at}.expand3x3_activation`),
    step('cat', `${at}.cat`, { reads: [`${at}.expand1x1_activation`, `${at}.expand3x3_activation`] }),
  ];
  const features = Array.from({ length: 13 }, (_, i): Step[] => {
    const at = `features.${i}`;
    if (i === 0) return [step('conv', at, { kernel })];
    return i === 1 ? [step('relu', at)] : pools.includes(i) ? [step('maxpool', at)] : fire(at);
  });
  return [
    ...features.flat(),
    step('pass', 'classifier.0'),
    step('conv', 'classifier.1', { kernel: 1 }),
    step('relu', 'classifier.2'),
    step('avgpool', 'classifier.3'),
    step('flatten', 'flatten'),
  ];
}

/** All architectures whose names follow from the order of their operators. */
export const ARCHITECTURES: readonly Architecture[] = [
  { name: 'resnet18', steps: () => resnet([2, 2, 2, 2], 2) },
  { name: 'resnet34', steps: () => resnet([3, 4, 6, 3], 2) },
  { name: 'resnet50', steps: () => resnet([3, 4, 6, 3], 3) },
  { name: 'resnet101', steps: () => resnet([3, 4, 23, 3], 3) },
  { name: 'resnet152', steps: () => resnet([3, 8, 36, 3], 3) },
  { name: 'densenet121', steps: () => densenet([6, 12, 24, 16]) },
  { name: 'densenet161', steps: () => densenet([6, 12, 36, 24]) },
  { name: 'densenet169', steps: () => densenet([6, 12, 32, 32]) },
  { name: 'densenet201', steps: () => densenet([6, 12, 48, 32]) },
  ...[false, true].flatMap((hasBatchNorm): Architecture[] => {
    const suffix = hasBatchNorm ? '_bn' : '';
    return [
      { name: `vgg11${suffix}`, steps: () => vgg([1, 1, 2, 2, 2], hasBatchNorm) },
      { name: `vgg13${suffix}`, steps: () => vgg([2, 2, 2, 2, 2], hasBatchNorm) },
      { name: `vgg16${suffix}`, steps: () => vgg([2, 2, 3, 3, 3], hasBatchNorm) },
      { name: `vgg19${suffix}`, steps: () => vgg([2, 2, 4, 4, 4], hasBatchNorm) },
    ];
  }),
  { name: 'alexnet', steps: alexnet },
  { name: 'squeezenet1_0', steps: () => squeezenet([2, 6, 11], 7) },
  { name: 'squeezenet1_1', steps: () => squeezenet([2, 5, 8], 3) },
];
