/** `tapir report`: writes or serves a page about a dataset. */
import { shown } from '../../../base/printable.js';
import type { Command } from 'commander';
import { invalidOption } from '../../../base/checks.js';
import { HEATMAP_DEFAULTS } from '../../../pages/report/sections/heatmaps.js';
import { readProbe } from '../../../features/probe/probe-file.js';
import { makeReport, type MadeReport } from '../../../pages/report/make-report.js';
import { serveReport } from '../../../pages/report/serve-report.js';
import { REPORT_DEFAULTS, type ReportOptions } from '../../../pages/report/report-options.js';
import { writeReport } from '../../../pages/report/write-report.js';
import { formatBytes } from '../../../html/numbers.js';
import { readDevice, type Device } from '../../../runtime/lanes/device.js';
import { parseCount, parseNumber } from '../../flags/flag-values.js';
import { findModelFile, YES_FLAG, YES_HELP } from '../../flags/find-model.js';
import { findTextModels } from '../../flags/find-text-models.js';
import { messageOf } from '../../terminal/exit-code.js';
import { createProgressLine } from '../../terminal/progress-view.js';
import { showPage } from '../../terminal/show-page.js';
import type { Terminal } from '../../terminal/terminal.js';

interface ReportFlags {
  readonly out?: string;
  readonly output?: readonly string[];
  readonly images?: string;
  readonly sample: string;
  readonly umap: boolean;
  readonly cam?: string | true;
  readonly model?: string;
  readonly camPhotos: string;
  readonly camOutput?: string;
  readonly probe?: string;
  readonly duplicates?: number;
  readonly serve: boolean;
  readonly port?: number;
  readonly open: boolean;
  readonly textModel?: string;
  readonly device: string;
  readonly yes: boolean;
  readonly json: boolean;
}

/** Adds the command. */
export function addReportCommand(program: Command, terminal: Terminal): void {
  program
    .command('report')
    .description('write or serve one HTML page about a dataset: a map, near-duplicates, statistics, failures')
    .argument('<dataset>', 'folder that "tapir embed" has written')
    .option('--out <file>', 'HTML file to write (default: report.html in the dataset)')
    .option(
      '--output <key>',
      'show this output only; repeatable (default: all)',
      (key: string, before: readonly string[] | undefined) => [...(before ?? []), key],
    )
    .option('--images <folder>', 'folder of the images (default: the folder that was embedded)')
    .option('--sample <n>', 'maximum number of images on the map', String(REPORT_DEFAULTS.sample))
    .option('--no-umap', 'make the map only by PCA, which is faster')
    .option(
      '--cam [layer]',
      'show where the predicted class comes from: Grad-CAM of this layer (default: the last one with places); needs --model',
    )
    .option('--model <file>', 'for --cam and --serve: the ONNX file that made the dataset')
    .option('--cam-photos <n>', 'for --cam: number of photos, at most 100', String(HEATMAP_DEFAULTS.photos))
    .option(
      '--cam-output <name>',
      'for --cam: the scores (default: the first output, or what its final Softmax or Sigmoid reads)',
    )
    .option('--probe <file>', 'show confusions and suspected labels of this probe: tapir probe --save')
    .option(
      '--duplicates <cosine>',
      'also compare every pair of the whole dataset, as tapir dedupe does, such as 0.97',
      parseNumber,
    )
    .option('--serve', 'serve the page to this machine instead of writing it, with a search', false)
    .option('--port <n>', 'for --serve: port on this machine (default: a free one)', parseCount)
    .option('--no-open', 'for --serve: do not open the browser')
    .option('--text-model <file>', 'for --serve: the text tower, if it does not lie beside the model')
    .option('--device <device>', 'for --serve: cpu, cuda, cuda:1, webgpu or auto', 'cpu')
    .option(YES_FLAG, YES_HELP, false)
    .option('--json', 'print what was written, or where the page is served, as JSON', false)
    .action((folder: string, flags: ReportFlags) => runReport(terminal, folder, flags));
}

async function runReport(terminal: Terminal, folder: string, flags: ReportFlags): Promise<void> {
  const { out, output, images, umap } = flags;
  checkFlags(flags);
  const model = flags.model === undefined ? undefined : await findModelFile(flags.model, terminal, flags.yes);
  const view = createProgressLine(terminal);
  const contents = {
    outputs: output ?? [],
    images: images ?? '',
    sample: Number(flags.sample),
    umap,
    heatmaps: readHeatmaps(flags, model),
    duplicates: flags.duplicates ?? null,
    probe: flags.probe === undefined ? null : await readProbe(flags.probe),
    signal: terminal.signal,
    onProgress: view.show,
  };
  if (flags.serve) return serve(terminal, await makeReport(folder, contents).finally(view.end), model, flags);
  const summary = await writeReport(folder, { out, ...contents }).finally(view.end);
  if (flags.json) {
    terminal.out(`${JSON.stringify(summary, null, 2)}\n`);
    return;
  }
  for (const note of summary.notes) terminal.err(`note: ${note}\n`);
  terminal.out(
    `${shown(summary.path)}: ${summary.images} images, ${summary.pictures} with a picture, ${contents.heatmaps ? `${summary.heatmaps} with a heat map, ` : ''}${formatBytes(summary.bytes)}\n`,
  );
}

/** Serves the page until it is stopped. */
async function serve(
  terminal: Terminal,
  report: MadeReport,
  model: string | undefined,
  { port = 0, open, json, device, ...flags }: ReportFlags,
): Promise<void> {
  const textModel =
    flags.textModel === undefined ? undefined : (await findTextModels(flags, terminal)).textModel;
  const served = await serveReport(report, {
    port,
    model,
    textModel,
    device: device as Device,
    onError: (error) => terminal.err(messageOf(error)),
  });
  await showPage(terminal, served, { open, json });
}

/** Flags that need others. */
function checkFlags({
  sample,
  serve,
  out,
  port,
  textModel,
  cam,
  camPhotos,
  model,
  device,
}: ReportFlags): void {
  if (!/^\d+$/.test(sample)) throw invalidOption('sample', 'a whole number', sample);
  readDevice('--device', device);
  if (serve && out !== undefined) throw invalidOption('--out', 'left out, as --serve is given', out);
  if (!serve && port !== undefined) throw invalidOption('--serve', 'given, as --port is given', serve);
  if (!serve && textModel !== undefined)
    throw invalidOption('--serve', 'given, as --text-model is given', serve);
  if (cam === undefined && model !== undefined && !serve)
    throw invalidOption('--cam', 'given, with or without a layer, as --model is given', cam);
  if (cam !== undefined && model === undefined)
    throw invalidOption('--model', 'the ONNX file that made the dataset, as --cam is given', model);
  if (!/^\d+$/.test(camPhotos)) throw invalidOption('--cam-photos', 'a whole number', camPhotos);
}

function readHeatmaps(
  { cam, camPhotos, camOutput }: ReportFlags,
  model: string | undefined,
): ReportOptions['heatmaps'] {
  if (cam === undefined || model === undefined) return null;
  return { model, layer: cam === true ? undefined : cam, output: camOutput, photos: Number(camPhotos) };
}
