/** Flags that several commands have, as commander declares them. */
import { Option, type Command } from 'commander';
import { EMBED_FIELDS } from '../../datasets/embed/embed-options.js';
import { DECODE_MODES } from '../../images/decode/decode-options.js';
import { ENGINES, PRECISIONS } from '../../runtime/capabilities/capabilities.js';
import { LANE_FIELDS } from '../../runtime/lanes/lane-options.js';
import { YES_FLAG, YES_HELP } from './find-model.js';
import { collect, parseCount } from './flag-values.js';
import { addFlags } from './option-flags.js';
import { NORMALIZE } from './open-extractor.js';

export const MODEL_HELP = 'ONNX file, a name of "tapir models list", or hf:ORG/REPO[@REVISION][#FILE]';

export const RETURN_HELP =
  'what to return: a tensor, node or module path; add "=KEY" to name the output; repeatable';

/** Adds the flags for the model and where it runs. */
export function addExtractorFlags(command: Command): void {
  command
    .requiredOption('--model <file>', MODEL_HELP)
    .option(YES_FLAG, YES_HELP, false)
    .requiredOption('--return <name[=key]>', RETURN_HELP, collect)
    .option('--device <device>', 'cpu, cuda, cuda:1, webgpu or auto (default: cpu)')
    .option('--devices <list>', 'several devices, which take whole batches: cuda:0,cuda:1')
    .option(
      '--pipeline',
      'put one stage of the model on each of --devices, for a model that none of them can hold',
      false,
    )
    .option(
      '--sessions <n>',
      'sessions per device; 0: two on CUDA, one on WebGPU, one per core of a CPU (at most four), one for fewer than 64 images',
      parseCount,
      0,
    )
    .addOption(
      new Option('--engine <name>', `${LANE_FIELDS.engine.about}; auto: the fastest on the first images`)
        .choices([...ENGINES, 'auto'])
        .default(LANE_FIELDS.engine.fallback),
    )
    .addOption(
      new Option(
        '--precision <type>',
        `${LANE_FIELDS.precision.about}; auto: the fastest that --min-cosine allows`,
      )
        .choices([...PRECISIONS, 'auto'])
        .default(LANE_FIELDS.precision.fallback),
    );
  addFlags(command, LANE_FIELDS, {
    binding: '--binding <name>',
    cudaLibraries: '--cuda-libs <folder>',
    isolation: '--isolation <kind>',
  }).option('--threads <n>', 'CPU threads of the model; 0 for all cores', parseCount, 0);
  addFlags(command, EMBED_FIELDS, {
    decodeThreads: '--decode-threads <n>',
    transform: '--transform <name>',
  });
  command
    .addOption(
      new Option(
        '--decode <how>',
        'fast shrinks large photos while decoding; exact, the default, gives the library’s pixels',
      ).choices(DECODE_MODES),
    )
    .addOption(
      new Option(
        '--normalize <where>',
        'where pixels are normalised; auto: in the graph on a GPU, else beside it',
      )
        .choices(NORMALIZE)
        .default('auto'),
    )
    .option('--no-cache', 'do not cache the prepared model: each session holds its own weights');
}

/** Adds the flags for the parts that are added to the graph. */
export function addPartFlags(command: Command): void {
  command
    .option(
      '--pool <[key=]how>',
      'one vector per row: avg or max of a map, cls or mean-tokens of tokens; repeatable with keys',
      collect,
    )
    .option('--l2-normalize', 'divide by the Euclidean norm over channels', false)
    .option('--tokens-to-map', 'turn patch tokens [N, L, C] into a map [N, C, H, W]', false)
    .option(
      '--dynamic-batch',
      'rewrite a graph with a fixed batch to take any batch, if that can be verified',
      false,
    );
}
