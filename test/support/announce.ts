/** Prepares what all tests share, and says before them what will not run, and why: a skipped suite would otherwise be silent. */
import { reasonOf } from '../../src/base/errors.js';
import { findOpenVino } from '../../src/run/runtime/capabilities/openvino-libraries.js';
import { findPlugin } from '../../src/run/runtime/capabilities/plugins.js';
import { addsInt8Exactly } from './cpu.js';
import { findGpu } from './find-gpu.js';
import { hasShared, sharedUnpacker, unpackShared } from './shared.js';

export default function announce(): void {
  try {
    // Tests have another cache folder, so they are given the place.
    process.env['OPENVINO_LIBS'] = findOpenVino().folder;
  } catch (error) {
    delete process.env['OPENVINO_LIBS'];
    console.warn(`engine "openvino" is not tested: ${reasonOf(error)}`);
  }
  if (!addsInt8Exactly)
    console.warn('exact sums of 8-bit products are not tested: this CPU has no VNNI, and its sums overflow');
  delete process.env['TEST_GPU'];
  try {
    process.env['TEST_GPU'] = findGpu();
  } catch (error) {
    console.warn(`test/gpu is not tested: ${reasonOf(error)}`);
  }
  const plugin = findPlugin('webgpu');
  delete process.env['TEST_PLUGIN'];
  if ('path' in plugin) process.env['TEST_PLUGIN'] = plugin.path;
  else console.warn(`the plugin of WebGPU is not tested: ${plugin.reason}`);
  delete process.env['SHARED_FIXTURES'];
  if (hasShared) {
    process.env['SHARED_FIXTURES'] = unpackShared();
    return;
  }
  console.warn(
    `${sharedUnpacker} is not here: the larger corpus, torchvision's numbers and the photo folder are not tested`,
  );
}
