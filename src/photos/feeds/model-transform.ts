/** The transform of a model: the one that was asked for, else the one beside it, else a guess that its file does not contradict. */
import { basename } from 'node:path';
import { invalidOption, show, type Options } from '../../base/checks.js';
import { chooseTransform, type TransformRequest } from './choose-transform.js';
import { TRANSFORM_PRESETS, type TransformOptions } from '../images/transform/transform-options.js';
import { makeTransform, Transform } from '../images/transform/transform.js';
import { photoFileTransform } from './photo-files.js';
import { fitSize } from './photo-size.js';
import { isTokenIds } from '../../run/model/token-ids.js';
import { notOneImage } from './plan-images.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { readPixelFacts, type PixelFacts } from '../../run/model/read-pixel-facts.js';
import { isFloatType } from '../../onnx/file/wire/schema.js';

const GUESS = 'ImageNet1K_V1';
const { mean: MEAN, std: STD } = TRANSFORM_PRESETS[GUESS];
/** Height and width of what it gives. */
const GUESSED_SIDE = 224;
const RGB = 3;
const GREY = 1;
/** Larger factors turn values from 0 to 1, not bytes, into small numbers; so do larger means take them away. */
const LEAST_FACTOR = 0.1;
const MOST_MEAN = 1.5;
/** What Ultralytics pads with. */
const ULTRALYTICS_GREY = 114;

/**
 * The transform that a request means for a model. `'auto'` is the configuration beside the model. Without one, it is `ImageNet1K_V1`,
 * marked {@link Transform.assumed}, with the warning `TAPIR_TRANSFORM_ASSUMED`. The result has the size that the request states.
 *
 * @param own - What `'auto'` is for this model, if its user said so.
 * @param inputs - Those of the model as it is cut, if known. No guess feeds several.
 * @throws {@link TapirError} `TRANSFORM_UNSUPPORTED`; `OPTION_INVALID`, also if the model's file contradicts the guess: the message then
 * has the closest transform. `SIZE_FIXED`: see {@link fitSize}.
 */
export function chooseModelTransform(
  request: TransformRequest,
  model: OnnxModel,
  own?: TransformRequest,
  inputs: readonly TensorInfo[] = [],
): Transform {
  const { path } = modelInternals.of(model);
  const ofPhotos = photoFileTransform(
    request,
    model,
    inputs,
    () => chooseTransform(own ?? 'auto', path, () => undefined).transform,
  );
  if (ofPhotos) return ofPhotos;
  const { transform, size } = chooseTransform(request, path, () => assumeTransform(model, inputs), own);
  return fitSize(transform, size, model);
}

/** What transformers calls the vectors of its models, which have pixels of their own. */
const TRANSFORMERS_OUTPUTS: ReadonlySet<string> = new Set(['image_embeds', 'pooler_output']);

function assumeTransform(model: OnnxModel, inputs: readonly TensorInfo[]): Transform {
  if (inputs.length > 1 || inputs.some(isTokenIds)) throw notOneImage(inputs);
  const facts = readPixelFacts(model);
  // No transform feeds other numbers of channels: planFeeds says so.
  const canFeed = facts !== undefined && [undefined, GREY, RGB].includes(facts.channels);
  const vector = model.outputs.find(({ name }) => TRANSFORMERS_OUTPUTS.has(name));
  const reasons = canFeed ? contradictions(facts) : [];
  if (canFeed && vector)
    reasons.push(
      `its output "${vector.name}" is that of a model of transformers, whose preprocessor_config.json is missing beside it`,
    );
  const guess = makeTransform(GUESS);
  if (!canFeed || reasons.length === 0) {
    warnOfGuess(model);
    return new Transform(guess.options, guess.preset, null, true);
  }
  const expected = `stated for this model: no configuration lies beside it, and ${GUESS} is not its preprocessing, because ${reasons.join('; ')}. The closest that its file tells is --transform '${JSON.stringify(closest(facts))}'; compare it with what the model was trained on`;
  throw invalidOption('transform', expected, undefined);
}

const warned = new WeakSet<OnnxModel>();

/** Warns once of each model whose pixels are assumed. */
function warnOfGuess(model: OnnxModel): void {
  if (warned.has(model)) return;
  warned.add(model);
  const { path } = modelInternals.of(model);
  const name = path === undefined ? 'the model' : show(basename(path));
  process.emitWarning(
    `${GUESS} is assumed: no configuration lies beside ${name}. If the model was trained with other pixels, its numbers are wrong. State its own with option "transform": torchvision:WEIGHTS or a file`,
    { code: 'TAPIR_TRANSFORM_ASSUMED' },
  );
}

/** What speaks against ImageNet's pixels, channels first, in the normalisation of torchvision. */
function contradictions({ name, elemType, ultralytics, ...facts }: PixelFacts): string[] {
  const { isLast, channels, height, width, scaling, steps } = facts;
  const isOther = [height, width].some((side) => side !== undefined && side !== GUESSED_SIDE);
  // Bytes are normalised in the graph, whatever the transform says.
  const isFloat = isFloatType(elemType);
  const size = [height, width].map((side) => side ?? '?').join(' × ');
  const operators = steps.map(({ node }) => node.opType).join(', ');
  return [
    ...(channels === GREY ? [`its input "${name}" has one channel`] : []),
    ...(isOther ? [`its input "${name}" takes ${size}`] : []),
    ...(isFloat && isPixelScaling(scaling) ? [`the graph normalises its input itself (${operators})`] : []),
    ...(isFloat && isLast && channels === RGB
      ? ['its channels come last, as in Keras and TensorFlow, whose models take other values']
      : []),
    ...(ultralytics === undefined ? [] : ['Ultralytics wrote it, whose models take values from 0 to 1']),
  ];
}

/** Whether the arithmetic gives numbers around 0 from bytes, or from values from 0 to 1. */
function isPixelScaling(scaling: PixelFacts['scaling']): scaling is NonNullable<PixelFacts['scaling']> {
  return scaling !== undefined && (takesBytes(scaling) || scaling.factor.every((factor) => factor >= 1));
}

function takesBytes({ factor, shift }: NonNullable<PixelFacts['scaling']>): boolean {
  return factor.every(
    (one, channel) => one > 0 && (one < LEAST_FACTOR || -shift[channel]! / one > MOST_MEAN),
  );
}

/** The options that differ from the guess where the file tells better. */
function closest(facts: PixelFacts): Options<TransformOptions> {
  const { channels, height, width, isLast, scaling, ultralytics, elemType } = facts;
  const size = height !== undefined && width !== undefined ? { height, width } : undefined;
  const isDetector = ultralytics !== undefined && ultralytics !== 'classify';
  // Its classify_transforms take the shortest side and the centre, and squash where the sides differ.
  const side = ultralytics === 'classify' && height === width ? (height ?? GUESSED_SIDE) : undefined;
  const resize =
    side !== undefined
      ? { resize: side, crop: side }
      : size === undefined
        ? { crop: GUESSED_SIDE }
        : { resize: isDetector ? ({ fit: 'inside', ...size } as const) : size, crop: size };
  const isRaw = isPixelScaling(scaling) || ultralytics !== undefined || !isFloatType(elemType);
  const half = channels === GREY ? ([0.5] as const) : ([0.5, 0.5, 0.5] as const);
  const isGuessed = channels !== GREY && !isLast;
  return {
    ...resize,
    ...(isDetector ? { fill: ULTRALYTICS_GREY } : {}),
    ...(channels === GREY ? { channelOrder: 'grey' } : {}),
    ...(isPixelScaling(scaling) && takesBytes(scaling) ? { scale: 1 } : {}),
    mean: isRaw ? null : isGuessed ? MEAN : half,
    std: isRaw ? null : isGuessed ? STD : half,
  };
}
