/** Makes trainers. */
import { givenFields, invalidOption, type Options } from '../../base/checks.js';
import { deriveModel, readModel, type ModelSource, type OnnxModel } from '../../run/model/open/open-model.js';
import { prunedInternals } from '../../run/model/prune/pruned-model.js';
import { extractorInternals, type Extractor } from '../../extract/extractor.js';
import { inheritFrom, readSession } from '../../extract/inherit-options.js';
import { readPlace } from '../../extract/replicas/place-options.js';
import { packageVersion } from '../../base/package.js';
import { identifyFile } from '../../run/model/prune/identify-model.js';
import { compareFacts, compareTensors, leaveOnFailure } from './ranks/compare-ranks.js';
import { checkFixedNorms } from './statistics/norm-layers.js';
import { formOf } from './losses/targets.js';
import { findTrainable, ownTensors, type WantedTensor } from './runs/trained-tensors.js';
import { newTrainer, type Trainer } from './trainer.js';
import {
  readTrainerOptions,
  type TrainerOptions,
  type TrainerSetup,
  type TrainedGroup,
} from './runs/trainer-options.js';
import { addLoss, isInLoss, normTensors, sameNode, trainableNorms } from './runs/training-graphs.js';
import { TrainingSessions } from './runs/training-sessions.js';
import { TrainingState, type NormStatistics, type TrainedParameter } from './runs/training-state.js';

/**
 * Trains a model: the backward pass is that of {@link differentiate}, the losses are torch.nn's and the optimizers torch.optim's. Each device
 * computes the gradients of its rows; they add up, in the order of devices, to those of the batch.
 *
 * @param model - A model, where to open one, or an extractor: its pruned model is trained, on its devices.
 * @param given - See {@link TrainerOptions}.
 * @returns The trainer; close it after use.
 * @throws {@link TapirError} those of {@link differentiate}; `OPTION_INVALID`; `NAME_NOT_FOUND` for parameters; `PARAMETER_FOLDED`;
 * `NORMS_UNAVAILABLE` if BatchNorm is to be trained and an exporter folded it, or if it is in training mode in the file;
 * `OUTPUT_MISFIT`; `RANKS_DIFFER` if a rank of the group has another version, model or options.
 *
 * @example Fine-tunes the head of a ResNet-50.
 * ```ts
 * import { createTrainer } from 'onnx-tapir/train';
 *
 * const trainer = await createTrainer('resnet50.onnx', {
 *   loss: 'cross-entropy',
 *   optimizer: { kind: 'sgd', lr: 0.01, momentum: 0.9 },
 *   parameters: ['layer4', 'fc'],
 * });
 * const input = { dtype: 'float32', dims: [2, 3, 224, 224], data: new Float32Array(2 * 3 * 224 * 224) };
 * const { loss } = await trainer.step({ input, target: [207, 281] });
 * await (await trainer.model()).save('tuned.onnx');
 * await trainer.close();
 * ```
 */
export async function createTrainer(
  model: OnnxModel | ModelSource | Extractor,
  given: Options<TrainerOptions> & Pick<TrainerOptions, 'loss' | 'optimizer'>,
): Promise<Trainer> {
  const setup = readTrainerOptions({ ...inheritedPlace(model, given), ...given });
  return await leaveOnFailure(setup.group, () => openTrainer(model, setup));
}

async function openTrainer(
  model: OnnxModel | ModelSource | Extractor,
  setup: TrainerSetup,
): Promise<Trainer> {
  const { group: ranks } = setup;
  const base = await readTrainable(model);
  if (ranks.size > 1) {
    const { sha256 } = await identifyFile(base);
    await compareFacts(ranks, { version: packageVersion(), model: sha256, ...setup.facts });
  }
  const norms = setup.batchNorm === 'frozen' ? [] : await trainableNorms(base);
  const wanted = new Map<string, { readonly tensor: WantedTensor; readonly group: TrainedGroup }>();
  for (const group of setup.groups)
    for (const tensor of await findTrainable(base, group.patterns)) {
      if (wanted.has(tensor.name))
        throw invalidOption('parameters', 'groups that share no parameter', tensor.name);
      wanted.set(tensor.name, { tensor, group });
    }
  const statistics = norms.flatMap(normTensors);
  const owned = await ownTensors(base, [...[...wanted.values()].map(({ tensor }) => tensor), ...statistics]);
  const place = await readPlace(owned.model, setup.place);
  const loss = await addLoss(owned.model, setup.output, formOf(setup.loss), setup.inputSizes);
  if (setup.batchNorm === 'frozen') await checkFixedNorms(loss.model);
  const parameters = [...wanted.values()].flatMap(
    ({ tensor: { name }, group: { optimizer } }): TrainedParameter[] => {
      const tensor = owned.tensors.get(name)!;
      // As in torch, a parameter without a gradient stays as it is: that of a head that the loss does not see.
      const isTrained = tensor.name === name && isInLoss(loss, tensor);
      return isTrained ? [{ tensor, optimizer, kept: optimizer.start(tensor.values.length) }] : [];
    },
  );
  if (parameters.length === 0)
    throw invalidOption('parameters', 'parameters that the output depends on', [...wanted.keys()].join(', '));
  const kept = norms.flatMap((norm): NormStatistics[] => {
    const node = sameNode(loss.model, norm.node);
    if (!node) return [];
    const [mean, variance] = normTensors(norm).map(({ name }) => owned.tensors.get(name)!);
    return [{ layer: { ...norm, node, input: node.inputs[0]! }, mean: mean!, variance: variance! }];
  });
  const sessions = new TrainingSessions({
    place,
    loss,
    parameters: parameters.map(({ tensor }) => tensor),
    buffers: [...new Set(kept.flatMap(({ mean, variance }) => [mean, variance]))],
    layers: kept.map(({ layer }) => layer),
    isSynced:
      setup.batchNorm === 'synced' &&
      (place.devices.length > 1 || setup.accumulate !== undefined || ranks.size > 1),
    group: ranks,
    inputSizes: setup.inputSizes,
    recompute: setup.recompute,
  });
  const state = new TrainingState(owned.model, parameters, kept);
  await compareTensors(ranks, state.tensors, 0);
  await sessions.gradients();
  return newTrainer({ model: base, setup, state, sessions });
}

/** The model to train: that of an extractor is cut down to its outputs. */
async function readTrainable(model: OnnxModel | ModelSource | Extractor): Promise<OnnxModel> {
  if (!extractorInternals.has(model)) return readModel(model as OnnxModel | ModelSource);
  const pruned = (model as Extractor).model;
  return deriveModel(pruned.source, prunedInternals.of(pruned).chunks);
}

/** Where an extractor runs. */
function inheritedPlace(model: unknown, given: Options<TrainerOptions>) {
  const { session = {} } = givenFields(given, 'createTrainer');
  const inherited = inheritFrom(model);
  if (!inherited) return {};
  const { isolation, cudaLibraries } = inherited.lane;
  const { device, devices = [device!] } = inherited.place;
  return { isolation, cudaLibraries, devices, session: readSession(session, inherited.session) };
}
