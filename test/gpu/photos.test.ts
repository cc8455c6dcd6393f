/** Photos on a GPU: normalised inside the graph, embedded in batches, by the command, and served. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, createTransform, embedFolder, openDataset, type Device } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder } from '../support/fixtures.js';
import { expectNearNumbers, gpu, gpuSettings, hasGpu, keepGpuWarm } from '../support/gpu.js';
import { runNode } from '../support/run.js';
import { cleanUpServices, photo, postImage, serve, type EmbedReply } from '../support/service.js';
import { SMALL_SIZE, smallNet } from '../support/small-net.js';

const scratch = scratchFolder();
const transform = createTransform({ resize: SMALL_SIZE, crop: SMALL_SIZE });

cleanUpServices();
keepGpuWarm();

const newFolder = (): string => join(mkdtempSync(join(scratch, 'run-')), 'out');

async function vectorsIn(folder: string): Promise<number[]> {
  const vectors: number[] = [];
  for await (const { data } of (await openDataset(folder)).blocks('v')) vectors.push(...data);
  return vectors;
}

async function embedOn(device: Device): Promise<number[]> {
  const out = newFolder();
  const options = { device, input: 'image-uint8' } as const;
  await using extractor = await createFeatureExtractor(smallNet(), { avgpool: 'v' }, options);
  await embedFolder(extractor, projectPath('examples/photos'), { out, transform, batch: 5 });
  return vectorsIn(out);
}

describe.skipIf(!hasGpu)('photos on a GPU', () => {
  it('give the vectors of the CPU for a folder, the smaller last batch included', async () => {
    expectNearNumbers(await embedOn(gpu), await embedOn('cpu'));
  });

  it('give them by the command', async () => {
    const [out, model, preprocessing] = [
      newFolder(),
      join(scratch, 'small.onnx'),
      join(scratch, 'transform.json'),
    ];
    writeFileSync(model, smallNet());
    writeFileSync(preprocessing, JSON.stringify(transform.options));
    const command = ['embed', projectPath('examples/photos'), '--model', model, '--return', 'avgpool=v'];
    const options = ['--out', out, '--device', gpu, '--transform', preprocessing];
    const { code, stdout, stderr } = await runNode(
      [projectPath('dist/lib/bin.cjs'), ...command, ...options],
      { env: gpuSettings },
    );
    expect(stdout, stderr).toContain(` on ${gpu}`);
    expect(code).toBe(0);
    expectNearNumbers(await vectorsIn(out), await embedOn('cpu'));
  });

  it('give them to the clients of a service', async () => {
    const vectorsOn = async (device: Device): Promise<number[]> => {
      await using extractor = await createFeatureExtractor(smallNet(), { avgpool: 'v' }, { device });
      const { url, service } = await serve(extractor, { transform });
      const names = ['city/city-0.jpg', 'dunes/dunes-1.jpg', 'sea/sea-2.jpg'];
      const replies = await Promise.all(
        names.map(async (name) => (await (await postImage(url, photo(name))).json()) as EmbedReply),
      );
      await service.close();
      return replies.flatMap(({ results }) => results[0]!.features!['v']!);
    };
    expectNearNumbers(await vectorsOn(gpu), await vectorsOn('cpu'));
  });
});
