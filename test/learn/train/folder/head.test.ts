import { describe, expect, it } from 'vitest';
import { checkLogits, findHead, fitHead } from '../../../../src/learn/train/folder/head.js';
import { pruneModel } from '../../../../src/run/model/oracle/prune-model.js';
import { createModel } from '../../../../src/learn/zoo/create-model.js';
import { openModel } from '../../../../src/run/model/open/open-model.js';
import { projectPath } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';

describe('the head of a classifier', () => {
  it.each([
    ['resnet18', 'fc'],
    ['mobilenet_v3_small', 'classifier.3'],
    ['mnasnet0_5', 'classifier.1'],
  ])('of %s is %s', async (name, head) => {
    expect(findHead(await createModel(name))?.name).toBe(head);
  });

  it('gets another number of classes, with the numbers of torch’s Linear', async () => {
    const model = await createModel('resnet18');
    const fitted = await fitHead(model, 5, 3);
    expect(fitted.note).toBe('"fc" gets 5 outputs in place of 1000, and starts from scratch');
    expect(fitted.model.outputs[0]!.dims).toEqual(['batch', 5]);
    const weight = await fitted.head!.weight.read();
    expect(weight.dims).toEqual([5, 512]);
    const values = Array.from(weight.data as Float32Array);
    const bound = 1 / Math.sqrt(512);
    expect(Math.max(...values.map(Math.abs))).toBeLessThanOrEqual(bound);
    // Uniform numbers between ±b have a mean square of b² / 3.
    const square = values.reduce((sum, value) => sum + value * value, 0) / values.length;
    expect(square / bound ** 2).toBeCloseTo(1 / 3, 1);
    expect((await fitted.head!.bias!.read()).dims).toEqual([5]);
    const other = await (await fitHead(model, 5, 4)).head!.weight.read();
    expect(other.data).not.toEqual(weight.data);
    const same = await (await fitHead(model, 5, 3)).head!.weight.read();
    expect(same.data).toEqual(weight.data);
  });

  it('is put on the features of a model without one', async () => {
    const backbone = await openModel(
      await (await pruneModel(await createModel('resnet18'), ['avgpool'])).bytes(),
    );
    expect(findHead(backbone)).toBeUndefined();
    const fitted = await fitHead(backbone, 3, 5);
    expect(fitted.model.outputs).toEqual([{ name: 'logits', dtype: 'float32', dims: [null, 3] }]);
    expect(fitted.note).toMatch(/^a new layer "head" takes the 512 features of ".*" to 3 classes$/);
    expect(fitted.head).toMatchObject({ name: 'head', weight: { dims: [3, 512] }, bias: { dims: [3] } });
    const bound = 1 / Math.sqrt(512);
    const { data } = await fitted.head!.weight.read();
    expect(Math.max(...Array.from(data as Float32Array, Math.abs))).toBeLessThanOrEqual(bound);
    expect(new Set(data as Float32Array).size).toBeGreaterThan(1000);
  });

  it('has a name that the model does not have: the demo ends in head.conv', async () => {
    const { head, note } = await fitHead(await openModel(projectPath('models/demo.onnx')), 3, 5);
    expect(head).toMatchObject({ name: 'head2', weight: { dims: [3, 1280] } });
    expect(note).toContain('a new layer "head2"');
  });

  it.each(['Softmax', 'Sigmoid'])(
    'that ends in %s is refused, with a command that cuts it off',
    async (op) => {
      const spec = { inputs: [{ name: 'x', dims: ['n', 3] }], outputs: [{ name: 'p', dims: ['n', 3] }] };
      const nodes = [
        { op: 'Identity', inputs: ['x'], outputs: ['scores'] },
        { op, inputs: ['scores'], outputs: ['p'] },
      ];
      const model = await openModel(modelBytes({ ...spec, nodes }));
      expect(() => checkLogits(model)).toThrow('--return "tensor:scores=logits"');
      expect(() => checkLogits(model)).toThrow(op);
    },
  );

  it('stays where the number is right', async () => {
    const model = await createModel('resnet18');
    expect(await fitHead(model, 1000, 0)).toMatchObject({ model, note: null });
  });
});
