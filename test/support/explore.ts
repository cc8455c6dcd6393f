/** Small models to explore. */
import { modelBytes, type NodeSpec } from './graphs.js';

/** A U-Net of two levels, as PyTorch's TorchScript exporter names it: parts of ModuleLists with pooling between them, and norms folded into convolutions. */
export function tinyUNet(): Uint8Array {
  const nodes: NodeSpec[] = [];
  const initializers: Record<string, { dims: number[]; values: number[] }> = {};
  const conv = (path: string, input: string, [to, from]: [number, number]): string => {
    const place = `/${path.split('.')[0]}.${path.split('.')[1]}/${path}`;
    const count = to * from * 9;
    const weight = `onnx::Conv_${nodes.length}`;
    initializers[weight] = {
      dims: [to, from, 3, 3],
      values: Array.from({ length: count }, (_, i) => Math.sin(i) / 3),
    };
    const bias = { dims: [to], values: Array.from({ length: to }, (_, i) => i / 10) };
    initializers[`${weight}b`] = bias;
    const output = `${place}/Conv_output_0`;
    nodes.push({
      op: 'Conv',
      inputs: [input, weight, `${weight}b`],
      outputs: [output],
      name: `${place}/Conv`,
      ints: { pads: [1, 1, 1, 1] },
    });
    const relu = place.replace(/\.0$/, '.2');
    nodes.push({ op: 'Relu', inputs: [output], outputs: [`${relu}/Relu_output_0`], name: `${relu}/Relu` });
    return `${relu}/Relu_output_0`;
  };
  const fine = conv('down.0.0', 'image', [4, 3]);
  nodes.push({
    op: 'MaxPool',
    inputs: [fine],
    outputs: ['/MaxPool_output_0'],
    name: '/MaxPool',
    ints: { kernel_shape: [2, 2], strides: [2, 2] },
  });
  const coarse = conv('down.1.0', '/MaxPool_output_0', [8, 4]);
  initializers['up.weight'] = {
    dims: [8, 4, 2, 2],
    values: Array.from({ length: 128 }, (_, i) => Math.cos(i) / 4),
  };
  nodes.push(
    {
      op: 'ConvTranspose',
      inputs: [coarse, 'up.weight'],
      outputs: ['/up/ConvTranspose_output_0'],
      name: '/up/ConvTranspose',
      ints: { strides: [2, 2] },
    },
    {
      op: 'Concat',
      inputs: [fine, '/up/ConvTranspose_output_0'],
      outputs: ['/Concat_output_0'],
      name: '/Concat',
      ints: { axis: 1 },
    },
  );
  const merged = conv('merge.0.0', '/Concat_output_0', [4, 8]);
  return modelBytes(
    {
      inputs: [{ name: 'image', dims: ['batch', 3, 16, 16] }],
      outputs: [{ name: merged, dims: ['batch', 4, 16, 16] }],
      nodes,
      initializers,
    },
    { producer: 'pytorch' },
  );
}

/** Attention of 16 patches among each other, with one head, for images of 8 × 8. */
export function tinyAttention(): Uint8Array {
  const shape = (values: readonly number[]) => ({
    dims: [values.length],
    values,
    elemType: 'int64' as const,
  });
  const nodes: NodeSpec[] = [
    { op: 'Conv', inputs: ['image', 'patch'], outputs: ['patches'], ints: { strides: [2, 2] } },
    { op: 'Reshape', inputs: ['patches', 'rows'], outputs: ['channels'] },
    { op: 'Transpose', inputs: ['channels'], outputs: ['tokens'], ints: { perm: [0, 2, 1] } },
    { op: 'MatMul', inputs: ['tokens', 'channels'], outputs: ['products'] },
    { op: 'Reshape', inputs: ['products', 'heads'], outputs: ['logits'] },
    { op: 'Softmax', inputs: ['logits'], outputs: ['attention'], ints: { axis: 3 } },
  ];
  return modelBytes({
    inputs: [{ name: 'image', dims: [1, 3, 8, 8] }],
    outputs: [{ name: 'attention', dims: [1, 1, 16, 16] }],
    nodes,
    initializers: {
      patch: { dims: [4, 3, 2, 2], values: Array.from({ length: 48 }, (_, i) => Math.sin(7 * i) / 5) },
      rows: shape([1, 4, 16]),
      heads: shape([1, 1, 16, 16]),
    },
  });
}

/** Two towers, as CLIP has them: an image whose channels are split, and ids of which the largest two are taken. Their results are added up. */
export function tinyTowers(): Uint8Array {
  const int64 = (values: readonly number[]) => ({
    dims: [values.length],
    values,
    elemType: 'int64' as const,
  });
  return modelBytes({
    inputs: [
      { name: 'ids', dims: ['rows', 4], elemType: 7 },
      { name: 'image', dims: ['rows', 3, 8, 8] },
    ],
    outputs: [
      { name: 'both', dims: ['rows', 2, 8, 8] },
      { name: 'places', dims: ['rows', 2], elemType: 7 },
    ],
    nodes: [
      {
        op: 'Split',
        name: 'split',
        inputs: ['image', 'sizes'],
        outputs: ['first', 'rest'],
        ints: { axis: 1 },
      },
      { op: 'Relu', name: 'seen', inputs: ['first'], outputs: ['bright'] },
      { op: 'Sub', name: 'sub', inputs: ['rest', 'bright'], outputs: ['colours'] },
      { op: 'TopK', name: 'topk', inputs: ['ids', 'two'], outputs: ['top', 'places'] },
      { op: 'Cast', name: 'cast', inputs: ['top'], outputs: ['read'], ints: { to: 1 } },
      { op: 'ReduceMax', name: 'most', inputs: ['read'], outputs: ['text'], ints: { keepdims: 0 } },
      { op: 'Add', name: 'both', inputs: ['colours', 'text'], outputs: ['both'] },
    ],
    initializers: { sizes: int64([1, 2]), two: int64([2]) },
  });
}
