/** The service on the engine OpenVINO. */
import { createFeatureExtractor } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { tinyResNet } from '../../support/fixtures.js';
import { hasOpenVino } from '../../support/openvino.js';
import {
  cleanUpServices,
  photo,
  postImage,
  serve,
  startService,
  type EmbedReply,
} from '../../support/service.js';

cleanUpServices();
const PHOTOS = ['city/city-0.jpg', 'dunes/dunes-1.jpg', 'sea/sea-2.jpg', 'flower/flower-0.jpg'];

async function embed(url: string): Promise<number[][]> {
  const replies = await Promise.all(PHOTOS.map(async (name) => (await postImage(url, photo(name))).json()));
  return (replies as EmbedReply[]).map(({ results }) => results[0]!.features!['v']!);
}

describe.skipIf(!hasOpenVino)('the service on OpenVINO', () => {
  it('answers callers at once with the vectors of onnxruntime, and names the engine', async () => {
    const theirs = await startService();
    await using extractor = await createFeatureExtractor(
      tinyResNet(),
      { avgpool: 'v' },
      { engine: 'openvino', devices: ['cpu:0'], parallel: { sessionsPerDevice: 2 } },
    );
    const ours = await serve(extractor);
    const [expected, actual] = [await embed(theirs.url), await embed(ours.url)];
    const range = Math.max(...expected.flat().map(Math.abs));
    actual.forEach((vector, row) =>
      vector.forEach((value, i) => expect(Math.abs(value - expected[row]![i]!)).toBeLessThan(1e-4 * range)),
    );
    expect(await (await fetch(theirs.url)).text()).toContain('(onnxruntime, float32)');
    expect(await (await fetch(ours.url)).text()).toContain('(openvino, float32)');
    await ours.service.close();
  });
});
