/** `tapir report`: writes a page about a dataset. */
import type { Command } from 'commander';
import { invalidOption } from '../../base/checks.js';
import { HEATMAP_DEFAULTS, type GivenReportHeatmaps } from '../../apps/report/heatmaps.js';
import { readProbe } from '../../apps/probe/probe-file.js';
import { REPORT_DEFAULTS, writeReport } from '../../apps/report/write-report.js';
import { formatBytes } from '../../apps/pages/numbers.js';
import { parseNumber } from '../flags/flag-values.js';
import { findModelFile, YES_FLAG, YES_HELP } from '../flags/find-model.js';
import { printable } from '../terminal/table.js';
import type { Terminal } from '../terminal/terminal.js';

interface ReportFlags {
  readonly out?: string;
  readonly output?: readonly string[];
  readonly images?: string;
  readonly sample: string;
  readonly umap: boolean;
  readonly cam?: string;
  readonly model?: string;
  readonly camPhotos: string;
  readonly camOutput?: string;
  readonly probe?: string;
  readonly duplicates?: number;
  readonly yes: boolean;
  readonly json: boolean;
}

/** Adds the command. */
export function addReportCommand(program: Command, terminal: Terminal): void {
  program
    .command('report')
    .description('write one HTML page about a dataset: a map, near-duplicates, statistics, failures')
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
      '--cam <layer>',
      'show where the predicted class comes from: Grad-CAM of this layer, such as layer4; needs --model',
    )
    .option('--model <file>', 'for --cam: the ONNX file that made the dataset')
    .option('--cam-photos <n>', 'for --cam: number of photos, at most 100', String(HEATMAP_DEFAULTS.photos))
    .option('--cam-output <name>', 'for --cam: the logits, before a softmax (default: the first output)')
    .option('--probe <file>', 'show confusions and suspected labels of this probe: tapir probe --save')
    .option(
      '--duplicates <cosine>',
      'also compare every pair of the whole dataset, as tapir dedupe does, such as 0.97',
      parseNumber,
    )
    .option(YES_FLAG, YES_HELP, false)
    .option('--json', 'print what was written, and the groups of --duplicates, as JSON', false)
    .action((folder: string, flags: ReportFlags) => runReport(terminal, folder, flags));
}

async function runReport(terminal: Terminal, folder: string, flags: ReportFlags): Promise<void> {
  const { out, output, images, umap } = flags;
  if (!/^\d+$/.test(flags.sample)) throw invalidOption('sample', 'a whole number', flags.sample);
  const sample = Number(flags.sample);
  const heatmaps = await readHeatmaps(terminal, flags);
  const summary = await writeReport(folder, {
    out,
    outputs: output,
    images,
    sample,
    umap,
    heatmaps,
    duplicates: flags.duplicates ?? null,
    probe: flags.probe === undefined ? null : await readProbe(flags.probe),
    signal: terminal.signal,
    onPhase: (phase) => {
      if (terminal.isTerminal) terminal.err(`${printable(phase)}\n`);
    },
  });
  if (flags.json) {
    terminal.out(`${JSON.stringify(summary, null, 2)}\n`);
    return;
  }
  for (const note of summary.notes) terminal.err(`note: ${note}\n`);
  terminal.out(
    `${printable(summary.path)}: ${summary.images} images, ${summary.pictures} with a picture, ${heatmaps ? `${summary.heatmaps} with a heat map, ` : ''}${formatBytes(summary.bytes)}\n`,
  );
}

/** The flags of heat maps: the layer and the model belong together. */
async function readHeatmaps(
  terminal: Terminal,
  { cam, model, camPhotos, camOutput, yes }: ReportFlags,
): Promise<GivenReportHeatmaps | null> {
  if (cam === undefined && model === undefined) return null;
  if (cam === undefined) throw invalidOption('--cam', 'the layer of the heat maps, as --model is given', cam);
  if (model === undefined)
    throw invalidOption('--model', 'the ONNX file that made the dataset, as --cam is given', model);
  if (!/^\d+$/.test(camPhotos)) throw invalidOption('--cam-photos', 'a whole number', camPhotos);
  const path = await findModelFile(model, terminal, yes);
  return { model: path, layer: cam, output: camOutput, photos: Number(camPhotos) };
}
