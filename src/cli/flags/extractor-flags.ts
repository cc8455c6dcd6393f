/** Flags that several commands have, as commander declares them. */
import { Option, type Command } from 'commander';
import { TRANSFORM_FLAGS } from './transform-flags.js';
import { EMBED_FIELDS } from '../../datasets/embed/embed-options.js';
import { DECODE_MODES } from '../../photos/images/decode/decode-options.js';
import { ENGINES, PRECISIONS } from '../../run/runtime/capabilities/capabilities.js';
import { LANE_FIELDS } from '../../run/runtime/lanes/lane-options.js';
import { MODEL_HELP, YES_FLAG, YES_HELP } from './find-model.js';
import { collect, parseCount } from './flag-values.js';
import { addFlags } from './option-flags.js';
import { NORMALIZE } from './open-extractor.js';
import { addPartFlags } from './part-flags.js';
import { RETURN_HELP } from './return-flags.js';
import { rare } from './rare.js';

/** Adds the flags for the model, where it runs, and what is added to its graph. */
export function addExtractorFlags(command: Command): void {
  command
    .optionsGroup('Model:')
    .requiredOption('--model <file>', MODEL_HELP)
    .option(rare(YES_FLAG), YES_HELP, false)
    .requiredOption('--return <name[=key]>', RETURN_HELP, collect);
  addPartFlags(command);
  command
    .optionsGroup('Where it runs:')
    .option('--device <device>', 'cpu, cuda, cuda:1, webgpu or auto (default: cpu)')
    .option(
      '--devices <list>',
      'several devices, which take whole batches: cuda:0,cuda:1, or all for every GPU',
    )
    .option(
      rare('--pipeline'),
      'put one stage of the model on each of --devices, for a model that none of them can hold',
      false,
    )
    .option(
      rare('--sessions <n>'),
      'sessions per device; 0: two on CUDA, one on WebGPU, one per core of a CPU (at most four), one for fewer than 64 images',
      parseCount,
      0,
    )
    .addOption(
      new Option(
        rare('--engine <name>'),
        `${LANE_FIELDS.engine.about}; auto: the fastest on the first images`,
      )
        .choices([...ENGINES, 'auto'])
        .default(LANE_FIELDS.engine.fallback),
    )
    .addOption(
      new Option(
        rare('--precision <type>'),
        `${LANE_FIELDS.precision.about}; auto: the fastest that --min-cosine allows`,
      )
        .choices([...PRECISIONS, 'auto'])
        .default(LANE_FIELDS.precision.fallback),
    );
  addFlags(command, LANE_FIELDS, {
    binding: rare('--binding <name>'),
    cudaLibraries: rare('--cuda-libs <folder>'),
    isolation: rare('--isolation <kind>'),
  }).option(rare('--threads <n>'), 'CPU threads of the model; 0: all cores', parseCount, 0);
  addFlags(command, EMBED_FIELDS, { decodeThreads: rare('--decode-threads <n>') });
  addFlags(command.optionsGroup('Pixels:'), EMBED_FIELDS, TRANSFORM_FLAGS);
  command
    .addOption(
      new Option(
        rare('--decode <how>'),
        'fast shrinks large photos while decoding; exact, the default, gives the library’s pixels',
      ).choices(DECODE_MODES),
    )
    .addOption(
      new Option(
        rare('--normalize <where>'),
        'where pixels are normalised; auto: in the graph on a GPU, else on the CPU before it',
      )
        .choices(NORMALIZE)
        .default('auto'),
    )
    .optionsGroup('Where it runs:')
    .option(rare('--no-cache'), 'do not cache the prepared model: each session holds its own weights');
}
