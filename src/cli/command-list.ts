/** The commands: what each is for, and where it is. */
import type { Command } from 'commander';
import type { Terminal } from './terminal/terminal.js';

/**
 * A command in the list of all: half a line about it, under 60 characters, and its module. A group has commands instead of a module.
 * A module is loaded when its command is called. To load all of them takes longer than most commands run.
 */
export type Listed = readonly [
  summary: string,
  content:
    | (() => Promise<{ readonly addCommand: (program: Command, terminal: Terminal) => void }>)
    | Readonly<Record<string, Listed>>,
];

/** The commands by what they are for, in the order of the help. */
export const COMMANDS: Readonly<Record<string, Readonly<Record<string, Listed>>>> = {
  'Look at a model': {
    nodes: ['list the names that you can ask for', () => import('./commands/nodes.js')],
    explore: [
      'a page: modules, costs, what a cut keeps, what it sees',
      () => import('./commands/explore.js'),
    ],
    compare: ['measure how far the vectors of two models agree', () => import('./commands/compare.js')],
    check: ['check names, pixels, cuts, engines and vectors here', () => import('./commands/check.js')],
    draw: [
      'draw what a model sees in photos',
      {
        cam: ['draw where in a photo a score comes from', () => import('./commands/draw/cam.js')],
        'features-map': ['draw what a layer sees in photos', () => import('./commands/draw/features-map.js')],
        segment: ['write the class of every pixel of photos', () => import('./commands/draw/segment.js')],
      },
    ],
  },
  'Cut, quantise, train': {
    extract: ['cut a model down to the values that you name', () => import('./commands/extract.js')],
    quantize: ['write a model in 8 bits, calibrated on photos', () => import('./commands/quantize.js')],
    train: ['fine-tune on a folder with a subfolder per class', () => import('./commands/train.js')],
  },
  'Embed photos': {
    embed: ['embed photos into a dataset; resumes', () => import('./commands/embed/embed.js')],
    import: ['make a dataset of vectors in a Parquet table', () => import('./commands/import.js')],
    merge: ['merge the parts of embed --shard', () => import('./commands/merge.js')],
    serve: ['serve features over HTTP, with OpenAI’s API', () => import('./commands/serve.js')],
  },
  'Use the vectors': {
    report: [
      'a page: a map, near-duplicates, statistics, failures',
      () => import('./commands/dataset/report.js'),
    ],
    search: ['find the photos nearest to photos, words or vectors', () => import('./commands/search.js')],
    dedupe: ['list near-duplicates and the best copy of each', () => import('./commands/dataset/dedupe.js')],
    probe: [
      'train a classifier on the vectors, or label by words',
      () => import('./commands/probe/probe.js'),
    ],
    classify: ['name the classes of photos, with a classifier', () => import('./commands/probe/classify.js')],
  },
  'Get models, set up': {
    demo: ['embed example photos, or yours, and open a page', () => import('./commands/demo.js')],
    models: [
      'list, pull, create and change models',
      {
        list: ['list the known models', () => import('./commands/models/list.js')],
        pull: ['download a model with trained weights', () => import('./commands/models/pull.js')],
        create: ['write one of torchvision’s networks as ONNX', () => import('./commands/models/create.js')],
        params: ['list the parameters under torch’s names', () => import('./commands/models/params.js')],
        load: ['load a state dict into a model', () => import('./commands/models/load.js')],
        bn: ['re-estimate BatchNorm statistics from photos', () => import('./commands/models/bn.js')],
        split: ['cut a model into stages, for several devices', () => import('./commands/models/split.js')],
        differentiate: [
          'write the gradients of a model as an ONNX file',
          () => import('./commands/models/differentiate.js'),
        ],
      },
    ],
    engines: ['install OpenVINO, CUDA, or plugins of ONNX Runtime', () => import('./commands/engines.js')],
    bench: ['measure speed on this machine', () => import('./commands/bench/bench.js')],
    doctor: ['say what runs here, and what to do about the rest', () => import('./commands/doctor.js')],
  },
};
