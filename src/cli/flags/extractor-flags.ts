/** Flags that several commands have, as commander declares them. */
import { addPhotoFlags } from './photo-flags.js';
import type { Command } from 'commander';
import { boolean, integer, oneOf, optional, type Fields } from '../../base/options.js';
import { EMBED_FIELDS } from '../../datasets/embed/embed-options.js';
import { DECODE_MODES } from '../../photos/images/decode/decode-options.js';
import { LANE_FIELDS } from '../../run/runtime/lanes/lane-options.js';
import { MODEL_HELP, YES_FLAG, YES_HELP } from './find-model.js';
import { collect } from './flag-values.js';
import { addFormFlags } from './form-flags.js';
import { NORMALIZE, type ExtractorFlags } from './open-extractor.js';
import { addPartFlags } from './part-flags.js';
import { RETURN_HELP } from './return-flags.js';
import { rare } from './rare.js';
import { addSettings } from './settings.js';

/** Settings that are made for commands. */
const OWN_FIELDS: Fields<Pick<ExtractorFlags, 'pipeline' | 'sessions' | 'threads' | 'decode' | 'normalize'>> =
  {
    pipeline: boolean(
      false,
      'put one stage of the model on each of --devices, for a model that none of them can hold',
    ),
    sessions: integer(
      0,
      4,
      0,
      'sessions per device; 0: two on CUDA, one on WebGPU, one per core of a CPU (at most four), one for fewer than 64 images',
    ),
    threads: integer(0, 1024, 0, 'CPU threads of the model; 0: all cores'),
    decode: optional(
      oneOf(
        DECODE_MODES,
        'exact',
        'fast shrinks large photos while decoding; exact, the default, gives the library’s pixels',
      ),
    ),
    normalize: oneOf(
      NORMALIZE,
      'auto',
      'where pixels are normalised; auto: in the graph on a GPU, else on the CPU before it',
    ),
  };

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
    );
  addFormFlags(command);
  addSettings(command, LANE_FIELDS, ['binding', 'cudaLibraries', 'isolation', 'cache']);
  addSettings(command, EMBED_FIELDS, ['decodeThreads']);
  addSettings(command, OWN_FIELDS, ['pipeline', 'sessions', 'threads', 'decode', 'normalize']);
  addPhotoFlags(command.optionsGroup('Pixels:'), ['transform']);
}
