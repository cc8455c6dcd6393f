/** `tapir serve`: serves an extractor by HTTP. */
import { SHARED_SCALES } from '../../onnx/graph/rewrite/describe.js';
import { isIP } from 'node:net';
import { basename, extname } from 'node:path';
import type { Command } from 'commander';
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
import { settleForm } from '../flags/form-flags.js';
import { findModelFile } from '../flags/find-model.js';
import { findTextModels } from '../flags/find-text-models.js';
import { LABELS_HELP, readLabelsFlag } from '../flags/labels-flag.js';
import { addFlags, readFlags } from '../flags/option-flags.js';
import {
  openExtractor,
  readDeviceFlags,
  readTransformFlag,
  sayFeedNotes,
  type ExtractorFlags,
} from '../flags/open-extractor.js';
import { aborted, type Terminal } from '../terminal/terminal.js';
import { rare } from '../flags/rare.js';
import { addSettings } from '../flags/settings.js';

const SERVICE_FLAGS = {
  token: '--token <token>',
  allowUrls: rare('--allow-urls'),
  maxBatch: '--max-batch <n>',
} as const;
const SERVICE_SETTINGS = [
  'allowPrivateUrls',
  'keepDims',
  'maxWaitMs',
  'maxQueue',
  'maxImages',
  'maxRequests',
  'maxBodyBytes',
  'maxJsonBytes',
  'requestTimeoutMs',
  'shutdownTimeoutMs',
] as const;

interface ServeFlags
  extends
    ExtractorFlags,
    ListenOptions,
    Pick<ServiceOptions, keyof typeof SERVICE_FLAGS | (typeof SERVICE_SETTINGS)[number]> {
  readonly name?: string;
  readonly decodeThreads: number;
  readonly textModel: string;
  readonly labels?: string;
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
    .option(rare('--json'), 'print a line of JSON when ready', false)
    .action((flags: ServeFlags) => runServe(terminal, flags));
  addFlags(command, LISTEN_FIELDS, { host: '--host <address>', port: '--port <n>' });
  addFlags(command, SERVICE_FIELDS, SERVICE_FLAGS);
  addSettings(command, SERVICE_FIELDS, SERVICE_SETTINGS);
  addExtractorFlags(command);
}

/** Serves until it is stopped, which is a success. */
async function runServe(terminal: Terminal, flags: ServeFlags): Promise<void> {
  const { host, port } = flags;
  const token = flags.token ?? (process.env['TAPIR_TOKEN'] || undefined);
  const path = await findModelFile(flags.model, terminal, flags.yes);
  const model = await openModel(path);
  const transform = readTransformFlag(terminal, flags, model);
  const settings = {
    ...readFlags(SERVICE_FIELDS, flags),
    transform,
    name: flags.name ?? basename(flags.model, extname(flags.model)).replaceAll(/[^A-Za-z0-9._-]/g, '-'),
    token,
    onError: (error: unknown) => terminal.err(messageOf(error)),
  };
  const labels = await readLabelsFlag(flags.labels);
  const devices = readDeviceFlags(flags);
  const textTower = await openTextTower(flags, path, devices[0]!, terminal);
  await using _ = { [Symbol.asyncDispose]: async () => textTower?.close() };
  const settled = settleForm(terminal, flags, model, devices);
  await using extractor = await openExtractor(model, settled, transform);
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
