/** `tapir serve`: serves an extractor by HTTP. */
import { SHARED_SCALES } from '../../graph/rewrite/describe.js';
import { isIP } from 'node:net';
import { basename, extname } from 'node:path';
import type { Command } from 'commander';
import { checkInteger, invalidOption } from '../../base/checks.js';
import { openModel } from '../../model/open/open-model.js';
import { describePrecision } from '../../runtime/capabilities/capabilities.js';
import { createService, LISTEN_DEFAULTS } from '../../serve/service.js';
import { SERVICE_DEFAULTS } from '../../serve/batches/service-options.js';
import { EXIT, messageOf } from '../terminal/exit-code.js';
import { addExtractorFlags, addPartFlags } from '../flags/extractor-flags.js';
import { addFlags } from '../flags/option-flags.js';
import { settleEngine } from '../flags/settle-engine.js';
import { MIN_COSINE } from '../../precision/engines/choose-engine.js';
import { findModelFile } from '../flags/find-model.js';
import { LABELS_HELP, readLabelsFlag } from '../flags/labels-flag.js';
import { openTextTowerFlag } from '../flags/open-text-tower.js';
import { TRANSFORM_PRESETS } from '../../images/transform/transform-options.js';
import {
  describeTransform,
  openExtractor,
  readDeviceFlags,
  readTransformFlags,
  type ExtractorFlags,
} from '../flags/open-extractor.js';
import type { Terminal } from '../terminal/terminal.js';

interface ServeFlags extends ExtractorFlags {
  readonly host: string;
  readonly port: number;
  readonly name?: string;
  readonly maxBatch: number;
  readonly maxWaitMs: number;
  readonly maxQueue: number;
  readonly maxImages: number;
  readonly maxBodyMb: number;
  readonly maxJsonMb: number;
  readonly maxRequests: number;
  readonly maxPixels: number;
  readonly decodeThreads: number;
  readonly keepDims: boolean;
  readonly textModel: string;
  readonly labels?: string;
  readonly token?: string;
  readonly allowUrls: boolean;
  readonly allowPrivateUrls: boolean;
  readonly requestTimeout: number;
  readonly shutdownTimeout: number;
  readonly photos?: string;
  readonly minCosine: number;
  readonly json: boolean;
}

const MIB = 1024 ** 2;
const MOST_BODY_MB = 2047;
const MOST_JSON_MB = 256;
const HOUR_S = 3600;
/** The limit of the presets. */
const { limitPixels } = TRANSFORM_PRESETS.ImageNet1K_V1;

/** Adds the command. Its flags for model and transform are those of `embed`. */
export function addServeCommand(program: Command, terminal: Terminal): void {
  const count = (flag: string) => (text: string) => {
    if (/^\d{1,15}$/.test(text)) return Number(text);
    throw invalidOption(flag, 'a whole number', text);
  };
  const numbers: readonly (readonly [flag: string, help: string, value: number])[] = [
    ['--port', 'port; 0 takes a free one', LISTEN_DEFAULTS.port],
    ['--max-batch', 'images per run; 0 for 8 on the CPU and 32 on a GPU', SERVICE_DEFAULTS.maxBatch],
    ['--max-wait-ms', 'how long an image waits for others to fill its batch', SERVICE_DEFAULTS.maxWaitMs],
    ['--max-queue', 'images that may wait; beyond: 503', SERVICE_DEFAULTS.maxQueue],
    ['--max-images', 'images per request; beyond: 413', SERVICE_DEFAULTS.maxImages],
    ['--max-body-mb', 'size of a request in MiB; beyond: 413', SERVICE_DEFAULTS.maxBodyBytes / MIB],
    ['--max-json-mb', 'size of JSON in a request in MiB; beyond: 413', SERVICE_DEFAULTS.maxJsonBytes / MIB],
    ['--max-requests', 'requests in progress; beyond: 429', SERVICE_DEFAULTS.maxRequests],
    ['--max-pixels', 'pixels of an image; beyond: 413', limitPixels],
    ['--request-timeout', 'seconds for a request to arrive', SERVICE_DEFAULTS.requestTimeoutMs / 1000],
    [
      '--shutdown-timeout',
      'seconds to finish requests when stopped',
      SERVICE_DEFAULTS.shutdownTimeoutMs / 1000,
    ],
  ];
  const command = program
    .command('serve')
    .description(
      'serve features of images by HTTP: /embed, /classify, OpenAI’s /v1/embeddings, and the Open Inference Protocol under /v2',
    )
    .option('--host <address>', 'address to bind to; 0.0.0.0 for all', LISTEN_DEFAULTS.host)
    .option('--name <name>', 'the model’s name in paths and replies (default: the file’s)')
    .option(
      '--text-model <file>',
      'text tower for texts in /v1/embeddings: a file, none, or auto for the one beside the model',
      'auto',
    )
    .option('--labels <file>', LABELS_HELP)
    .option('--token <token>', 'bearer token that callers must send (default: TAPIR_TOKEN, if set)')
    .option('--allow-urls', 'fetch images from URLs in requests', SERVICE_DEFAULTS.allowUrls)
    .option(
      '--allow-private-urls',
      'fetch from private and local addresses, too',
      SERVICE_DEFAULTS.allowPrivateUrls,
    )
    .option('--keep-dims', 'keep trailing 1×1 dims', SERVICE_DEFAULTS.keepDims)
    .option('--photos <source>', 'with --engine auto or --precision auto: images such as will be sent')
    .option('--json', 'print a line of JSON when ready', false);
  addFlags(command, { minCosine: MIN_COSINE }, { minCosine: '--min-cosine <x>' });
  for (const [flag, help, value] of numbers) command.option(`${flag} <n>`, help, count(flag), value);
  command.action((flags: ServeFlags) => runServe(terminal, flags));
  addExtractorFlags(command);
  addPartFlags(command);
}

/** Serves until it is stopped, which is a success. */
async function runServe(terminal: Terminal, flags: ServeFlags): Promise<void> {
  const { host, port, maxBatch, maxWaitMs, maxQueue, maxImages, maxRequests } = flags;
  const { keepDims, allowUrls, allowPrivateUrls, decodeThreads } = flags;
  const token = flags.token ?? (process.env['TAPIR_TOKEN'] || undefined);
  const path = await findModelFile(flags.model, terminal, flags.yes);
  const model = await openModel(path);
  const transform = readTransformFlags(model, flags).with({
    limitPixels: checkInteger('--max-pixels', flags.maxPixels, 1, 2 ** 31 - 1),
  });
  terminal.err(describeTransform(transform, flags));
  const settings = {
    transform,
    keepDims,
    decodeThreads,
    name: flags.name ?? basename(flags.model, extname(flags.model)).replaceAll(/[^A-Za-z0-9._-]/g, '-'),
    maxBatch,
    maxWaitMs,
    maxQueue,
    maxImages,
    maxRequests,
    maxBodyBytes: checkInteger('--max-body-mb', flags.maxBodyMb, 1, MOST_BODY_MB) * MIB,
    maxJsonBytes: checkInteger('--max-json-mb', flags.maxJsonMb, 1, MOST_JSON_MB) * MIB,
    token,
    allowUrls,
    allowPrivateUrls,
    requestTimeoutMs: checkInteger('--request-timeout', flags.requestTimeout, 1, HOUR_S) * 1000,
    shutdownTimeoutMs: checkInteger('--shutdown-timeout', flags.shutdownTimeout, 0, HOUR_S) * 1000,
    onError: (error: unknown) => terminal.err(messageOf(error)),
  };
  const labels = flags.labels === undefined ? undefined : await readLabelsFlag(flags.labels);
  const [device] = readDeviceFlags(flags);
  const textTower = await openTextTowerFlag(flags, path, device!, terminal);
  await using _ = { [Symbol.asyncDispose]: async () => textTower?.close() };
  const settled = await settleEngine(terminal, flags, {
    model,
    transform,
    photos: flags.photos,
    minCosine: flags.minCosine,
    otherwise: 'a name, or "auto" with images to measure on (--photos)',
  });
  const extractor = await openExtractor(model, settled.flags, transform);
  try {
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
  } finally {
    await extractor.close();
  }
  terminal.exitCode(EXIT.done);
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
