/** A run's figures, as Prometheus and people see them. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { countSteps } from '../../../src/base/progress.js';
import { createProgressView } from '../../../src/cli/terminal/progress-view.js';
import { openMetricsServer } from '../../../src/cli/terminal/metrics-server.js';
import type { Terminal } from '../../../src/cli/terminal/terminal.js';
import type { EmbedProgress } from '../../../src/datasets/embed/progress.js';

const PROGRESS: EmbedProgress = {
  unit: 'images',
  done: 120,
  failed: 3,
  skipped: 80,
  total: 1000,
  seconds: 4,
  imagesPerSecond: 30,
  etaSeconds: 800 / 30,
  devices: [
    { device: 'cuda:0', busy: 0.97 },
    { device: 'cuda:1', busy: 0.5 },
  ],
  limit: 'device',
};

describe('openMetricsServer', () => {
  it('serves the latest figures to this machine, and nothing else', async () => {
    const server = await openMetricsServer(0);
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
    const read = async (): Promise<string> => (await fetch(server.url)).text();
    expect(await read()).not.toMatch(/^tapir_embed_images_total /m);
    server.update(PROGRESS);
    const text = await read();
    for (const line of [
      'tapir_embed_images_done 120',
      'tapir_embed_images_failed 3',
      'tapir_embed_images_skipped 80',
      'tapir_embed_images_total 1000',
      'tapir_embed_images_per_second 30',
      'tapir_embed_device_busy_ratio{device="cuda:1"} 0.5',
      'tapir_embed_limited_by{what="device"} 1',
      'tapir_embed_limited_by{what="decode"} 0',
    ])
      expect(text.split('\n')).toContain(line);
    expect((await fetch(server.url.replace('metrics', 'other'))).status).toBe(404);
    expect((await fetch(server.url, { method: 'POST' })).status).toBe(404);
    await server.close();
    await expect(fetch(server.url)).rejects.toThrow();
  });

  it('refuses a port that is taken, and a number that is no port', async () => {
    await expect(openMetricsServer(70_000)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('from 0 to 65535, got 70000'),
    });
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    await expect(openMetricsServer(port)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/--set metricsPort.*a free port/),
    });
    other.close();
  });
});

/** What a view writes for progress at these seconds, and then its end. */
function show(
  seconds: readonly number[],
  isTerminal: boolean,
  isJson: boolean,
): { out: string[]; err: string[] } {
  const out: string[] = [];
  const err: string[] = [];
  const terminal = {
    isTerminal,
    out: (text: string) => out.push(text),
    err: (text: string) => err.push(text),
    rewrite: (text: string) => err.push(`\r${text}`),
  } as unknown as Terminal;
  const view = createProgressView(terminal, isJson);
  for (const at of seconds) view.show({ ...PROGRESS, done: 30 * at, seconds: at });
  view.end();
  return { out, err };
}

describe('createProgressView', () => {
  it('rewrites one line on a terminal', () => {
    const { err } = show([0.01, 0.02, 1, 1.01], true, false);
    expect(err[0]?.startsWith('\r')).toBe(true);
    expect(err.at(-2)).toContain(
      '30.3 of 920 images, 30.0/s, 27 s left, 3 failed, 80 already there, waiting for the model; cuda:0 97 %, cuda:1 50 %',
    );
    expect(err.at(-1)).toBe('\n');
    expect(err).toHaveLength(4);
  });

  it('shows the share of a long step, and names the step as it begins', () => {
    const lines: string[] = [];
    const terminal = {
      isTerminal: true,
      err: () => true,
      rewrite: (text: string) => lines.push(text),
    } as unknown as Terminal;
    const view = createProgressView(terminal, false);
    const begin = countSteps(view.show);
    begin('reading the metadata');
    const tell = begin('placing all vectors', 'rows', 200);
    tell(50);
    tell(199);
    view.end();
    // The terminal is redrawn ten times a second.
    expect(lines).toEqual(['reading the metadata', 'placing all vectors', 'placing all vectors: 99 %']);
  });

  it('writes a line now and then into a log, and none for a short run', () => {
    expect(show([1, 5, 9], false, false).err).toEqual([]);
    expect(show([1, 11, 12, 20, 25], false, false).err).toHaveLength(2);
  });

  it('writes lines of JSON for programs: one a second, and the last', () => {
    const { out, err } = show([0, 0.2, 0.9, 1.1, 1.5], true, true);
    expect(err).toEqual([]);
    const events = out.map((line) => JSON.parse(line) as EmbedProgress & { event: string });
    expect(events.map(({ seconds }) => seconds)).toEqual([0, 1.1, 1.5]);
    expect(events[0]).toMatchObject({ event: 'progress', limit: 'device', total: 1000 });
  });
});
