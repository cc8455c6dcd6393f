/** What holds of a model on this machine: names, pixels, cuts, splits, and the vectors and the speed of each engine and precision. */
import { checkText } from '../../base/checks.js';
import { TRANSFORM_FIELDS } from '../../photos/feeds/choose-transform.js';
import { number, optional, signal, unchecked, type Fields } from '../../base/options.js';
import { counted } from '../../base/printable.js';
import { nameValues } from '../../onnx/graph/names/name-list.js';
import { resolveNames } from '../../onnx/graph/names/resolve-names.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import { getGraphNodeNames, openModel, type OnnxModel } from '../../run/model/open/open-model.js';
import type { ReturnNodes } from '../../run/model/open/return-nodes.js';
import { pruneToRun } from '../../run/model/oracle/prune-model.js';
import { verifyModel } from '../../run/model/oracle/verify.js';
import { identifyFile, type FileIdentity } from '../../run/model/prune/identify-model.js';
import { openForm } from '../../products/precision/judge/judge-forms.js';
import { askedDevices, openModelForm } from '../../products/precision/lowering/forms.js';
import { DEVICE, type Device } from '../../run/runtime/lanes/device.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import {
  checkPhotos,
  FLOAT32,
  type OpenedModel,
  type PhotoCheck,
  type PhotoCheckOptions,
} from './check-photos.js';
import { checkProof, readProof } from './check-proof.js';
import { compared, judge, unproven, yes, type Finding } from './finding.js';
import { readPhotoVectors } from './photo-vectors.js';

export interface ModelCheck {
  readonly model: FileIdentity & { readonly producer: string };
  /** In the order of the table. */
  readonly findings: Readonly<
    Record<'opens' | 'names' | 'pixels' | 'cut' | 'split' | 'reference' | 'agree', Finding>
  > & {
    /** Of a file that takes photos. */
    readonly proof?: Finding;
  };
  readonly engines: PhotoCheck['engines'];
}

export interface CheckModelOptions extends PhotoCheckOptions {
  /** Where it is run; `auto` for every device that works here. */
  readonly device: Device;
  /** What to return; undefined for the graph outputs. */
  readonly returnNodes: ReturnNodes | undefined;
  /** An `.npz` file, or a dataset, with the vectors of photos. */
  readonly against: string | undefined;
}

export const CHECK_FIELDS: Fields<CheckModelOptions> = {
  returnNodes: unchecked<ReturnNodes | undefined>(undefined),
  ...TRANSFORM_FIELDS,
  device: DEVICE,
  against: optional(checkText, 'vectors that must come out: an .npz file by photo name, or a dataset'),
  minCosine: number(0, 1, 0.9999, 'with --against: the least cosine that passes'),
  signal,
};

/** Features that the model is cut at, as shares of its names. */
const CUTS_AT = [0.25, 0.5, 0.75];

/** Checks a model on photos: what can be asked of it, and whether its numbers are right. What is refused later is a finding. */
export async function checkModel(
  path: string,
  photos: string,
  options: CheckModelOptions,
): Promise<ModelCheck> {
  const { against, device, returnNodes, signal } = options;
  const reference = against === undefined ? undefined : await readPhotoVectors(against);
  const model = await openModel(path);
  const devices = await askedDevices(device, signal);
  let opened: OpenedModel | undefined;
  const opens = await judge(async () => {
    const outputs = model.outputs.map(({ name }): [string, string] => [`tensor:${name}`, name]);
    const pruned = await pruneToRun(model, returnNodes ?? outputs);
    const form = { ...FLOAT32, device: devices[0]! };
    const exact = { form, ...(await openForm(() => openModelForm(pruned, form))) };
    opened = { pruned, exact, devices };
    const { extractor } = exact;
    return yes(`${shapesOf(extractor.inputs)} → ${shapesOf(extractor.outputs)}`);
  });
  await using _closed = opened?.exact.extractor;
  const unopened: PhotoCheck = {
    pixels: opens,
    split: opens,
    reference: opens,
    agree: opens,
    engines: [],
  };
  const proof = readProof(model);
  const { engines, ...seen } = opened ? await checkPhotos(opened, photos, reference, options) : unopened;
  return {
    model: { ...(await identifyFile(model)), producer: model.producer },
    findings: {
      opens,
      names: checkNames(model),
      ...(proof && { proof: await judge(() => checkProof(model, proof, devices[0]!)) }),
      cut: await judge(() => checkCut(model)),
      ...seen,
    },
    engines,
  };
}

function shapesOf(values: readonly Pick<TensorInfo, 'name' | 'dims'>[]): string {
  return values.map(({ name, dims }) => `${name} [${dims?.join(', ') ?? '?'}]`).join(', ');
}

/** Each name that is listed denotes the value that it is listed for. */
function checkNames(model: OnnxModel): Finding {
  const { graph } = modelInternals.of(model);
  const named = [...nameValues(graph)];
  const wrong = named.filter(([value, name]) => resolveNames(graph, [name])[0]!.value !== value);
  if (wrong.length > 0)
    return { verdict: 'no', says: `other values: ${wrong.map(([, name]) => name).join(', ')}` };
  const modules = new Set(model.nodes.flatMap(({ module }) => module ?? [])).size;
  const inner = model.nodes.filter(({ role, request }) => role === 'data' && request === null).length;
  return yes(
    `${named.length} names, ${modules || 'no'} modules${inner > 0 ? `, ${counted(inner, 'node')} inside them without a name` : ''}`,
  );
}

/** Features of the model, cut, are those of the whole graph. */
async function checkCut(model: OnnxModel): Promise<Finding> {
  const names = getGraphNodeNames(model).slice(model.inputs.length);
  if (names.length === 0) return unproven('no node has a name');
  const features = [...new Set(CUTS_AT.map((share) => names[Math.floor(share * names.length)]!))];
  const { isEqual, maxRelative, tolerance, rowsRefused } = await verifyModel(
    await pruneToRun(model, features),
  );
  const rows =
    rowsRefused === null
      ? ''
      : ' on one row; the file leaves the batch open, but two rows do not run (--set dynamicBatch=true mends it)';
  return compared(`${features.join(', ')}, against the whole graph${rows}`, isEqual, maxRelative, tolerance);
}
