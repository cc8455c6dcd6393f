/** Sizes and costs of a model in one run, node by node. */
import type { OnnxModel } from '../../../../run/model/open/open-model.js';
import type { Value } from '../../../../onnx/graph/graph.js';
import { modelInternals } from '../../../../run/model/open/model-state.js';
import { NO_SIZES } from '../../../../run/model/open/input-sizes.js';
import { bytesOf, measureCosts } from '../../../../run/model/oracle/model-costs.js';
import { timeNodes } from '../../../../run/model/oracle/time-nodes.js';
import type { ModelMeasure } from './model-structure.js';

/** Measures a model: ONNX Runtime infers the sizes; where it cannot, the model runs once on made-up inputs. Times are of the CPU. */
export async function measureModel(model: OnnxModel, isTimed: boolean): Promise<ModelMeasure> {
  const { graph } = modelInternals.of(model);
  const costs = await measureCosts(model, { batch: undefined, inputSizes: NO_SIZES });
  const times = isTimed ? await timeNodes(model, costs, 0) : undefined;
  const fed = new Map(costs.inputs.map(({ name, dims }) => [name, dims]));
  const shapeOf = (value: Value | undefined) => value && costs.shapes.get(value);
  return {
    inputs: graph.inputs.map(({ name }) => fed.get(name) ?? null),
    dims: graph.nodes.map(({ outputs }) => outputs.map((value) => shapeOf(value)?.dims ?? null)),
    bytes: graph.nodes.map(({ outputs }) =>
      outputs.map((value) => {
        const shape = shapeOf(value);
        return shape ? bytesOf(shape) : 0;
      }),
    ),
    macs: graph.nodes.map((node) => costs.nodes.get(node)?.macs ?? null),
    milliseconds: times ? graph.nodes.map((node) => times.get(node) ?? null) : null,
  };
}
