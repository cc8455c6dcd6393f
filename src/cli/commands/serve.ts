/** `tapir serve`: serves an extractor by HTTP. */
import { SHARED_SCALES } from '../../onnx/graph/rewrite/describe.js';
import { isIP } from 'node:net';
import { basename, extname } from 'node:path';
import type { Command } from 'commander';
import { integer, type Fields } from '../../base/options.js';
import { openModel } from '../../run/model/open/open-model.js';
import { isTapirError } from '../../base/errors.js';
import { createTextEncoder, type TextTower } from '../../products/features/text/text-encoder.js';
import type { Device } from '../../run/runtime/lanes/device.js';
import { describePrecision } from '../../run/runtime/capabilities/capabilities.js';
import { createService, LISTEN_FIELDS, type ListenOptions } from '../../products/serve/service.js';
import {
  SERVICE_DEFAULTS,
  SERVICE_FIELDS,
  type ServiceOptions,
} from '../../products/serve/batches/service-options.js';
import { EXIT, messageOf } from '../terminal/exit-code.js';
import { addExtractorFlags } from '../flags/extractor-flags.js';
import { settleEngine } from '../flags/settle-engine.js';
import { MIN_COSINE } from '../../products/precision/judge/choose-engine.js';
import { findModelFile } from '../flags/find-model.js';
import { findTextModels } from '../flags/find-text-models.js';
import { LABELS_HELP, readLabelsFlag } from '../flags/labels-flag.js';
import { addFlags, readFlags } from '../flags/option-flags.js';
import { TRANSFORM_PRESETS } from '../../photos/images/transform/transform-options.js';
import {
  openExtractor,
  readDeviceFlags,
  readTransformFlag,
  sayFeedNotes,
  type ExtractorFlags,
} from '../flags/open-extractor.js';
import { aborted, type Terminal } from '../terminal/terminal.js';
import { rare } from '../flags/rare.js';

const MIB = 1024 ** 2;
const HOUR_S = 3600;

/** Options in other units. */
interface OwnOptions {
  readonly maxBodyMb: number;
  readonly maxJsonMb: number;
  readonly limitPixels: number;
  readonly requestTimeout: number;
  readonly shutdownTimeout: number;
}

const OWN_FIELDS: Fields<OwnOptions> = {
  maxBodyMb: integer(1, 2047, SERVICE_DEFAULTS.maxBodyBytes / MIB, 'size of a request in MiB; beyond: 413'),
  maxJsonMb: integer(
    1,
    256,
    SERVICE_DEFAULTS.maxJsonBytes / MIB,
    'size of JSON in a request in MiB; beyond: 413',
  ),
  // The limit of the presets.
  limitPixels: integer(
    1,
    2 ** 31 - 1,
    TRANSFORM_PRESETS.ImageNet1K_V1.limitPixels,
    'pixels of an image; beyond: 413',
  ),
  requestTimeout: integer(
    1,
    HOUR_S,
    SERVICE_DEFAULTS.requestTimeoutMs / 1000,
    'seconds for a request to arrive',
  ),
  shutdownTimeout: integer(
    0,
    HOUR_S,
    SERVICE_DEFAULTS.shutdownTimeoutMs / 1000,
    'seconds to finish requests when stopped',
  ),
};

const SERVICE_FLAGS = {
  token: '--token <token>',
  allowUrls: rare('--allow-urls'),
  allowPrivateUrls: rare('--allow-private-urls'),
  keepDims: rare('--keep-dims'),
  maxBatch: '--max-batch <n>',
  maxWaitMs: rare('--max-wait-ms <n>'),
  maxQueue: rare('--max-queue <n>'),
  maxImages: rare('--max-images <n>'),
  maxRequests: rare('--max-requests <n>'),
} as const;

interface ServeFlags
  extends ExtractorFlags, OwnOptions, ListenOptions, Pick<ServiceOptions, keyof typeof SERVICE_FLAGS> {
  readonly name?: string;
  readonly decodeThreads: number;
  readonly textModel: string;
  readonly labels?: string;
  readonly photos?: string;
  readonly minCosine: number;
  readonly json: boolean;
}

/** Adds the command. Its flags for model and transform are those of `embed`. */
export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('serve')
    .description('serve features of images by HTTP: /embed, /classify, and OpenAI’s /v1/embeddings')
    .optionsGroup('Service:')
    .option('--name <name>', `${SERVICE_FIELDS.name.about} (default: the file’s)`)
    .option(
      '--text-model <file>',
      'text tower for texts in /v1/embeddings: a file, none, or auto for the one beside the model',
      'auto',
    )
    .option('--labels <file>', LABELS_HELP)
    .option(rare('--photos <source>'), 'with --engine auto or --precision auto: images such as will be sent')
    .option(rare('--json'), 'print a line of JSON when ready', false)
    .action((flags: ServeFlags) => runServe(terminal, flags));
  addFlags(command, { minCosine: MIN_COSINE }, { minCosine: rare('--min-cosine <x>') });
  addFlags(command, LISTEN_FIELDS, { host: '--host <address>', port: '--port <n>' });
  addFlags(command, SERVICE_FIELDS, SERVICE_FLAGS);
  addFlags(command, OWN_FIELDS, {
    maxBodyMb: rare('--max-body-mb <n>'),
    maxJsonMb: rare('--max-json-mb <n>'),
    limitPixels: rare('--max-pixels <n>'),
    requestTimeout: rare('--request-timeout <n>'),
    shutdownTimeout: rare('--shutdown-timeout <n>'),
  });
  addExtractorFlags(command);
}

/** Serves until it is stopped, which is a success. */
async function runServe(terminal: Terminal, flags: ServeFlags): Promise<void> {
  const { host, port, limitPixels } = flags;
  const token = flags.token ?? (process.env['TAPIR_TOKEN'] || undefined);
  const path = await findModelFile(flags.model, terminal, flags.yes);
  const model = await openModel(path);
  const transform = readTransformFlag(terminal, flags, model).with({ limitPixels });
  const settings = {
    ...readFlags(SERVICE_FIELDS, flags),
    transform,
    name: flags.name ?? basename(flags.model, extname(flags.model)).replaceAll(/[^A-Za-z0-9._-]/g, '-'),
    maxBodyBytes: flags.maxBodyMb * MIB,
    maxJsonBytes: flags.maxJsonMb * MIB,
    token,
    requestTimeoutMs: flags.requestTimeout * 1000,
    shutdownTimeoutMs: flags.shutdownTimeout * 1000,
    onError: (error: unknown) => terminal.err(messageOf(error)),
  };
  const labels = await readLabelsFlag(flags.labels);
  const [device] = readDeviceFlags(flags);
  const textTower = await openTextTower(flags, path, device!, terminal);
  await using _ = { [Symbol.asyncDispose]: async () => textTower?.close() };
  const settled = await settleEngine(terminal, flags, {
    model,
    transform,
    photos: flags.photos,
    minCosine: flags.minCosine,
    otherwise: 'a name, or "auto" with images to measure on (--photos)',
  });
  await using extractor = await openExtractor(model, settled.flags, transform);
  sayFeedNotes(terminal, extractor, transform);
  if (extractor.model.plan.notes.includes(SHARED_SCALES)) terminal.err(`warning: ${SHARED_SCALES}\n`);
  if (textTower) terminal.err(`text tower: ${textTower.model.label}, output ${textTower.output}\n`);
  await using service = createService(extractor, {
    ...settings,
    textTower,
    labels,
    maxBufferedBytes: Math.max(SERVICE_DEFAULTS.maxBufferedBytes, settings.maxBodyBytes),
  });
  // Signals are heard before the line that says that the service runs.
  const stopped = aborted(terminal.signal);
  const url = await service.listen({ host, port });
  if (token === undefined && !isLoopback(host))
    terminal.err(`warning: everyone who reaches ${host} can use this service: no token is set (--token)\n`);
  terminal.err(
    `serving "${settings.name}" on ${extractor.device} (${extractor.engine}, ${describePrecision(extractor)}) at ${url}\n`,
  );
  const outputs = extractor.outputs.map(({ name }) => name);
  if (flags.json) terminal.out(`${JSON.stringify({ url, name: settings.name, outputs })}\n`);
  await stopped;
  terminal.err('stopping: finishing requests\n');
  await service.close();
  terminal.exitCode = EXIT.done;
}

/**
 * Opens the text tower that a flag names: a file, `none`, or `auto` for one that lies beside the image model. Only a named one of a
 * repository is downloaded. A tower that `auto` finds and cannot open is a warning.
 */
async function openTextTower(
  { textModel, yes }: ServeFlags,
  imageModel: string,
  device: Device,
  terminal: Terminal,
): Promise<TextTower | undefined> {
  if (textModel === 'none') return undefined;
  if (textModel !== 'auto')
    return createTextEncoder((await findTextModels({ textModel, yes }, terminal)).textModel!, { device });
  try {
    return await createTextEncoder(imageModel, { device });
  } catch (error) {
    if (!isTapirError(error)) throw error;
    const isMissing = isTapirError(error, 'OPTION_INVALID') && error.details.option === 'textModel';
    if (!isMissing) terminal.err(`warning: the text tower is left out: ${error.message}\n`);
    return undefined;
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}
