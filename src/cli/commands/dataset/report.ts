/** `tapir report`: writes or serves a page about a dataset. */
import { counted, shown } from '../../../base/printable.js';
import type { Command } from 'commander';
import { invalidOption } from '../../../base/checks.js';
import { readOptions } from '../../../base/options.js';
import { ATTRIBUTION_FIELDS } from '../../../products/explain/options.js';
import { HEATMAP_FIELDS, type ReportHeatmaps } from '../../../products/pages/report/sections/heatmaps.js';
import { readProbe } from '../../../products/features/probe/probe-file.js';
import { makeReport, type MadeReport } from '../../../products/pages/report/make-report.js';
import { serveReport } from '../../../products/pages/report/serve-report.js';
import { REPORT_FIELDS, type ReportOptions } from '../../../products/pages/report/report-options.js';
import { writeReport } from '../../../products/pages/report/write-report.js';
import { formatBytes } from '../../../base/html/numbers.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import { SEARCH_FIELDS } from '../../../products/features/search/search-dataset.js';
import { LABELS_HELP, readLabelsFlag } from '../../flags/labels-flag.js';
import { parseCount } from '../../flags/flag-values.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import { findModelFile, YES_FLAG, YES_HELP, type CommonFlags } from '../../flags/find-model.js';
import { findTextModels } from '../../flags/find-text-models.js';
import { messageOf } from '../../terminal/exit-code.js';
import { withProgressLine } from '../../terminal/progress-view.js';
import { showPage } from '../../terminal/show-page.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';
import { rare } from '../../flags/rare.js';
import { addSettings } from '../../flags/settings.js';

/** The flags that are options of `writeReport`. */
const FLAGS = {
  out: '-o, --out <file>',
  outputs: rare('--output <key>'),
  images: '--images <folder>',
  colourBy: '--colour-by <source>',
} as const;
const SETTINGS = ['sample', 'umap', 'duplicates'] as const;

interface ReportFlags
  extends
    CommonFlags,
    Pick<ReportOptions, keyof typeof FLAGS | (typeof SETTINGS)[number]>,
    Pick<ReportHeatmaps, 'output' | 'photos'> {
  readonly cam?: string | true;
  readonly labels?: string;
  readonly model?: string;
  readonly probe?: string;
  readonly serve: boolean;
  readonly port?: number;
  readonly open: boolean;
  readonly textModel?: string;
  readonly device: Device;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('report')
    .description('write or serve one HTML page about a dataset: a map, near-duplicates, statistics, failures')
    .argument('<dataset>', 'folder that "tapir embed" has written')
    .action((folder: string, flags: ReportFlags) => runReport(terminal, folder, flags));
  addFlags(command, REPORT_FIELDS, FLAGS)
    .option(
      '--cam [layer]',
      'show where the predicted class comes from: Grad-CAM of this layer (default: the last one with places); needs --model',
    )
    .option('--model <file>', 'for --cam and --serve: the ONNX file that made the dataset');
  addSettings(command, REPORT_FIELDS, SETTINGS);
  const heatmaps = { photos: HEATMAP_FIELDS.photos, output: ATTRIBUTION_FIELDS.output };
  addSettings(command, heatmaps, ['photos', 'output'], 'for --cam: ');
  addSettings(command, SEARCH_FIELDS, ['device'], 'for --serve: ')
    .option(rare('--labels <file>'), `for --cam: ${LABELS_HELP}`)
    .option('--probe <file>', 'show confusions and suspected labels of this probe: tapir probe --save')
    .option('--serve', 'serve the page to this machine instead of writing it, with a search', false)
    .option(rare('--port <n>'), 'for --serve: port on this machine (default: a free one)', parseCount)
    .option(rare('--no-open'), 'for --serve: do not open the browser')
    .option(rare('--text-model <file>'), 'for --serve: the text tower, if it does not lie beside the model')
    .option(rare(YES_FLAG), YES_HELP, false)
    .option(rare('--json'), 'print what was written, or where the page is served, as JSON', false);
}

async function runReport(terminal: Terminal, folder: string, flags: ReportFlags): Promise<void> {
  checkFlags(flags);
  const model = flags.model === undefined ? undefined : await findModelFile(flags.model, terminal, flags.yes);
  const options = {
    ...readFlags(REPORT_FIELDS, flags),
    heatmaps: await readHeatmaps(flags, model),
    probe: flags.probe === undefined ? undefined : await readProbe(flags.probe),
  };
  if (flags.serve) {
    const report = await withProgressLine(terminal, async (watch) =>
      makeReport(folder, readOptions(REPORT_FIELDS, { ...options, ...watch }, 'makeReport')),
    );
    return serve(terminal, report, model, flags);
  }
  const summary = await withProgressLine(terminal, (watch) => writeReport(folder, { ...options, ...watch }));
  if (flags.json) return printJson(terminal, summary);
  for (const note of summary.notes) terminal.err(`note: ${note}\n`);
  terminal.out(
    `${shown(summary.path)}: ${counted(summary.images, 'image')}, ${summary.pictures} with a picture, ${options.heatmaps ? `${summary.heatmaps} with a heat map, ` : ''}${formatBytes(summary.bytes)}\n`,
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
    device,
    onError: (error) => terminal.err(messageOf(error)),
  });
  await showPage(terminal, served, { open, json });
}

function checkFlags({ serve, out, port, textModel, cam, model }: ReportFlags): void {
  if (serve && out !== undefined) throw invalidOption('--out', 'left out, as --serve is given', out);
  if (!serve && port !== undefined) throw invalidOption('--serve', 'given, as --port is given', serve);
  if (!serve && textModel !== undefined)
    throw invalidOption('--serve', 'given, as --text-model is given', serve);
  if (cam === undefined && model !== undefined && !serve)
    throw invalidOption('--cam', 'given, with or without a layer, as --model is given', cam);
  if (cam !== undefined && model === undefined)
    throw invalidOption('--model', 'the ONNX file that made the dataset, as --cam is given', model);
}

async function readHeatmaps(
  { cam, labels, ...flags }: ReportFlags,
  model: string | undefined,
): Promise<ReportOptions['heatmaps']> {
  if (cam === undefined || model === undefined) return undefined;
  return {
    ...readFlags(HEATMAP_FIELDS, flags),
    model,
    layer: cam === true ? undefined : cam,
    labels: await readLabelsFlag(labels),
  };
}
