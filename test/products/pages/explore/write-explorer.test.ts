/** The written page in the system's browser. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createFeatureExtractor, loadImage, openModel, pruneModel } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { writeExplorer } from 'onnx-tapir/pages';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { formatValue } from '../../../../src/base/html/numbers.js';
import {
  browserNote,
  hasBrowser,
  openPage,
  startBrowser,
  type OpenedPage,
} from '../../../support/browser.js';
import { tinyAttention, tinyTowers, tinyUNet } from '../../../support/explore.js';
import { servePage } from '../../../support/served-page.js';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { chain, modelBytes } from '../../../support/graphs.js';
import { isRelease, someOf } from '../../../support/rounds.js';
import { runNode, runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const photo = projectPath('examples/photos/flower/flower-1.jpg');

function put(name: string, bytes: Uint8Array): string {
  const path = join(scratch, name);
  writeFileSync(path, bytes);
  return path;
}

const tiny = put('net.onnx', tinyResNet());

/** Scrolls the path, and gives the most rows at a time. */
const SCROLL = `(async () => {
  const path = document.getElementById('path');
  let most = 0;
  for (let step = 0; step < 60; step++) {
    path.scrollTop += 900;
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    most = Math.max(most, document.querySelectorAll('.row').length);
  }
  return { most, height: path.scrollHeight };
})()`;

describe('writeExplorer', () => {
  it('writes one file, which replaces its like and nothing else', async () => {
    const out = join(scratch, 'page.html');
    const options = { out, photos: [photo], returnNodes: ['layer3', 'layer4'], layer: 'layer4' };
    const first = await writeExplorer(tiny, options);
    expect(first).toMatchObject({ path: out, problems: [] });
    expect(readFileSync(out)).toHaveLength(first.bytes);
    expect(await writeExplorer(tiny, options)).toEqual(first);
    const other = put('other.html', Buffer.from('mine'));
    await expect(writeExplorer(tiny, { out: other })).rejects.toMatchObject({ code: 'OUTPUT_EXISTS' });
    await expect(writeExplorer(tiny, { out, returnNodes: ['layer7'] })).rejects.toMatchObject({
      code: 'NAME_NOT_FOUND',
    });
    await expect(writeExplorer(tiny, { out, photos: [join(scratch, 'none.jpg')] })).rejects.toMatchObject({
      code: 'IMAGE_NOT_FOUND',
    });
    // @ts-expect-error -- a wrong type
    await expect(writeExplorer(tiny, { photos: 'a.jpg' })).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });

  it('shows the features of the module that it opens, if no names are given', async () => {
    const out = join(scratch, 'opened.html');
    await writeExplorer(tiny, { out, photos: [photo] });
    const asked = Array.from(
      readFileSync(out, 'utf8').matchAll(/features\?node=([\w.]+)/g),
      ([, node]) => node,
    );
    expect(asked).toEqual(['layer2']);
  });

  it('says what it cannot show', async () => {
    const vector = put('vector.onnx', modelBytes(chain(3)));
    const { problems } = await writeExplorer(vector, { out: join(scratch, 'vector.html') });
    expect(problems).toEqual([]);
    const weight = { dims: [2], values: [1, 2] };
    const constant = { outputs: [{ name: 'w', dims: [2] }], initializers: { w: weight } };
    const still = put('still.onnx', modelBytes({ ...chain(3), ...constant }));
    const unmeasured = [expect.stringMatching(/^measure: ONNX Runtime refuses the model/)];
    expect(await writeExplorer(still, { out: join(scratch, 'still.html') })).toMatchObject({
      problems: unmeasured,
    });
    await expect(
      writeExplorer(vector, { out: join(scratch, 'vector.html'), photos: [photo] }),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});

describe.runIf(hasBrowser)(`the page of a model${browserNote}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));
  afterAll(() => browser.close());

  /** Opens a page, and waits until it has measured. */
  async function open(url: string): Promise<OpenedPage> {
    const opened = await openPage(browser, url, { permissions: ['clipboard-read', 'clipboard-write'] });
    await opened.page.waitForSelector('[data-ready]');
    await opened.page.waitForSelector('[data-measured]');
    return opened;
  }

  const fileUrl = async (
    model: string,
    options: Parameters<typeof writeExplorer>[1] = {},
  ): Promise<string> => {
    const out = join(scratch, `${Math.random().toString(36).slice(2)}.html`);
    return pathToFileURL((await writeExplorer(model, { ...options, out })).path).href;
  };
  const rowNames = (page: Page): Promise<string[]> =>
    page.$$eval('.row .last', (all) => all.map((one) => one.textContent));

  it('spells out marks that turn text around', async () => {
    const evil = '\u202e\u2066\u200f\u009b';
    const spec = {
      inputs: [`x${evil}`],
      outputs: [`y${evil}`],
      nodes: [
        { op: 'Relu', inputs: [`x${evil}`], outputs: [`m${evil}`], name: `/block${evil}/a${evil}/Relu` },
        { op: 'Neg', inputs: [`m${evil}`], outputs: [`y${evil}`], name: `/block${evil}/b/Neg` },
      ],
    };
    const { page } = await open(await fileUrl(put('turned.onnx', modelBytes(spec))));
    await page.click('.row');
    await page.keyboard.press('Space');
    const raw = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
    const texts = await page.$$eval('body *', (all) =>
      all.flatMap((one) => [
        one.textContent,
        ...one.getAttributeNames().map((name: string) => one.getAttribute(name)!),
      ]),
    );
    expect(texts.filter((text) => raw.test(text.replaceAll(/\s/g, ' ')))).toEqual([]);
    expect(texts.join()).toContain(String.raw`\u202e`);
  });

  it('is worked by keyboard alone: find, move, open, close, pick', async () => {
    const url = await fileUrl(tiny, { photos: [photo], returnNodes: ['layer4'] });
    const { page, problems } = await open(url);
    await page.keyboard.press('/');
    await page.keyboard.type('layer2.0.con');
    await page.waitForSelector('#found [role=option]');
    expect(await page.getAttribute('#find', 'aria-expanded')).toBe('true');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    expect(await page.textContent('#node h2')).toBe('layer2.0.conv1');
    expect(await page.evaluate('document.activeElement.id')).toBe('path');
    const active = (): Promise<string> =>
      page.evaluate(
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).innerText",
      );
    expect(await active()).toMatch(/layer2\.0\.\s*conv1\s+Conv/);
    await page.keyboard.press('ArrowLeft');
    expect(await page.textContent('#node h2')).toBe('layer2.0');
    await page.keyboard.press('ArrowLeft');
    expect(await rowNames(page)).not.toContain('conv2');
    await page.keyboard.press('ArrowRight');
    expect(await rowNames(page)).toContain('conv2');
    await page.keyboard.press('Space');
    expect(await page.$$eval('#cut .picked-chip bdi', (all) => all.map((one) => one.textContent))).toEqual([
      'layer4',
      'layer2.0',
    ]);
    await page.keyboard.press('End');
    expect(await page.textContent('#node h2')).toBe('fc');
    await page.keyboard.press('Home');
    expect(await page.textContent('#node h2')).toBe('input');
    await page.keyboard.press('Enter');
    expect(await page.evaluate("document.activeElement.closest('#see') !== null")).toBe(true);
    expect(problems).toEqual([]);
  });

  it('shows where the tiles of a picture lie, and what each of them gives', async () => {
    const url = await fileUrl(tiny, { photos: [photo], tiles: { size: 128 }, returnNodes: ['layer3'] });
    const { page, problems } = await open(url);
    const places = await page.$$eval('#see .place', (all) =>
      all.map((one) => [one.getAttribute('aria-label'), one.getAttribute('aria-pressed')] as const),
    );
    expect(places).toHaveLength(12);
    expect(places[0]).toEqual([expect.stringContaining(' [128×128 at 0,0]'), 'true']);
    const [whole, last] = await page.$$eval('#see .whole img, #see .place', (all) =>
      [all[0]!, all.at(-1)!].map((one) => one.getBoundingClientRect()),
    );
    expect(Math.abs(last!.right - whole!.right)).toBeLessThan(2);
    expect(Math.abs(last!.bottom - whole!.bottom)).toBeLessThan(2);
    // Its other part lies under tiles that share it.
    await page.click('#see .place >> nth=7', { position: { x: 4, y: 4 } });
    expect(await page.getAttribute('#see .place >> nth=7', 'aria-pressed')).toBe('true');
    await page.waitForSelector('#see .views canvas');
    expect(problems).toEqual([]);
  });

  it('says how many photos a page does not hold', async () => {
    const out = join(scratch, 'many.html');
    const many = await writeExplorer(tiny, { out, photos: [photo, photo, photo], tiles: { size: 128 } });
    expect(many.problems).toEqual(['photos: a page holds 24, so the first 12 are left out']);
  });

  it('shows what the file holds of a photo, in each way', async () => {
    const url = await fileUrl(tiny, {
      photos: [photo],
      returnNodes: ['layer3', 'module:layer4'],
      layer: 'module:layer4',
    });
    const { page, problems } = await open(url);
    await page.waitForSelector('.map-figure canvas');
    expect(await page.textContent('.view-title')).toBe('layer4 · flower-1.jpg');
    expect(await page.$$eval('.classes li', (all) => all.length)).toBe(5);
    await page.click('[data-mode=colours]');
    await page.waitForSelector('.pair canvas');
    await page.click('text=Pin to compare');
    await page.click('[data-mode=heat]');
    await page.waitForSelector('.views.two canvas >> nth=1');
    expect(await page.textContent('.views')).toContain('Grad-CAM of layer4: where the score of');
    await page.click('text=Unpin');
    await page.click('[data-mode=maps]');
    await page.fill('#find', 'layer1');
    await page.press('#find', 'Enter');
    expect(await page.textContent('.missing-node')).toContain('layer3');
    await page.click('.missing-node .chip >> nth=0');
    await page.waitForSelector('.map-figure canvas');
    expect(problems).toEqual([]);
  });

  it('shows the rest where the answer about classes is damaged', async () => {
    const out = join(scratch, 'damaged.html');
    await writeExplorer(tiny, { out, photos: [photo] });
    const html = readFileSync(out, 'utf8');
    const damaged = html.replace(/("classes\?photo=0":)\[.*?\]/, '$1null');
    expect(damaged).not.toBe(html);
    const { page, problems } = await open(pathToFileURL(put('damaged.html', Buffer.from(damaged))).href);
    await page.waitForSelector('.strip');
    await page.waitForSelector('.classes', { state: 'detached' });
    expect(problems).toEqual([]);
  });

  it('says what to ask for instead of a name that was folded away', async () => {
    const { page, problems } = await open(await fileUrl(put('folded.onnx', tinyUNet())));
    expect(await page.textContent('#fact-list')).toContain('3 convolutions hold the BatchNorm');
    await page.keyboard.press('/');
    await page.keyboard.type('down.0.0');
    expect(await page.textContent('#found .refused bdi')).toBe('down.0.0');
    await page.keyboard.press('Enter');
    expect(await page.textContent('#node')).toContain('folded');
    await page.click('#node .chip');
    expect(await page.textContent('#node h2')).toBe('down.0.1');
    expect(await page.textContent('#node')).toContain('holds the value of the BatchNorm');
    await page.focus('#node .pick-button');
    await page.keyboard.press('Escape');
    expect(await page.evaluate('document.activeElement.id')).toBe('path');
    expect(problems).toEqual([]);
  });

  it('draws attention, and colours by each cost that it knows', async () => {
    const model = put('attention.onnx', tinyAttention());
    const { page, problems } = await open(await fileUrl(model, { photos: [photo] }));
    await page.click('[data-mode=attention]');
    await page.waitForSelector('.map-figure canvas');
    expect(await page.textContent('.views')).toContain('Where a token, on average, looks');
    const costs: string[] = [];
    for (const cost of ['macs', 'parameters', 'bytes']) {
      await page.click(`[data-cost=${cost}]`);
      costs.push((await page.textContent('.row:has([title="patches"]) .amount'))!);
    }
    expect(costs).toEqual(['768', '48', '256 bytes']);
    expect(await page.isDisabled('[data-cost=milliseconds]')).toBe(true);
    expect(problems).toEqual([]);
  });

  it.each(someOf([360, 2000], 2))('fits a window of %i pixels, in light and dark', async (width) => {
    const url = await fileUrl(tiny, { photos: [photo], returnNodes: ['layer4'] });
    const { page } = await open(url);
    await page.setViewportSize({ width, height: 800 });
    await page.click('text=Open all');
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
    const colour = 'getComputedStyle(document.body).backgroundColor';
    const before = await page.evaluate(colour);
    await page.click('#theme');
    expect(await page.evaluate(colour)).not.toBe(before);
    expect(await page.isVisible('.row:has([title="layer4"]) .dims')).toBe(true);
  });

  it('names of the file cannot become markup', async () => {
    const bad = '<img src=x onerror=alert(1)>';
    const model = put(
      '<b>bad.onnx'.replace(/[<>]/g, '_'),
      modelBytes({
        inputs: [bad],
        outputs: ['</script><script>alert(2)</script>'],
        nodes: [
          { op: 'Relu', inputs: [bad], outputs: ['"><svg onload=alert(3)>'], name: bad },
          {
            op: 'Relu',
            inputs: ['"><svg onload=alert(3)>'],
            outputs: ['</script><script>alert(2)</script>'],
            name: "';alert(4)//",
          },
        ],
      }),
    );
    const { page, problems } = await open(await fileUrl(model));
    await page.keyboard.press('/');
    await page.keyboard.type('alert');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Space');
    for (const language of ['python', 'shell', 'typescript']) await page.click(`[data-language=${language}]`);
    expect(await page.$$('img, svg:not(.lines), .desk script, [onerror], [onload]')).toEqual([]);
    expect(await page.textContent('#node h2')).toContain('alert');
    expect(problems).toEqual([]);
  });

  it('draws the skips of a U-Net and the sum of a residual block', async () => {
    const unet = await open(await fileUrl(put('unet.onnx', tinyUNet())));
    expect(await unet.page.$$eval('.flow.bus', (all) => all.length)).toBe(1);
    const { page } = await open(await fileUrl(tiny));
    expect(await page.$$eval('.flow.bus', (all) => all.length)).toBe(0);
    await page.click('text=Open all');
    // Those in sight.
    expect(await page.$$eval('.flow.bus', (all) => all.length)).toBeGreaterThanOrEqual(3);
  });

  it('opens on the most costly module, and shows what the file holds for a node', async () => {
    const { page, problems } = await open(await fileUrl(tiny));
    const chosen = (await page.textContent('#node h2'))!;
    expect(await page.getAttribute(`.row:has([title="${chosen}"])`, 'aria-expanded')).toBe('true');
    const amounts = await page.$$eval('[aria-level="1"].box .amount', (all) =>
      all.map((one) => one.textContent),
    );
    const [most] = amounts.map((text) => Number.parseFloat(text)).toSorted((x, y) => y - x);
    const own = await page.textContent(`.row:has([title="${chosen}"]) .amount`);
    expect([Number.parseFloat(own!), amounts.every((text) => text.endsWith('k'))]).toEqual([most, true]);
    await page.fill('#find', 'conv1');
    await page.press('#find', 'Enter');
    await page.waitForSelector('#node .weight');
    expect(await page.textContent('#node .detail .table')).toContain('strides[2, 2]');
    const parameter = (await openModel(tiny)).parameters().find(({ name }) => name === 'conv1.weight')!;
    const { data, dims } = await parameter.read();
    const values = [...(data as Float32Array)];
    const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
    const deviation = Math.sqrt(values.reduce((sum, one) => sum + (one - mean) ** 2, 0) / values.length);
    const text = (await page.textContent('#node .weight'))!;
    expect(text).toContain(`[${dims.join(', ')}] float32`);
    expect(text).toContain(`mean ${formatValue(mean)} · deviation ${formatValue(deviation)}`);
    expect(text).toContain(formatValue(Math.min(...values)) + formatValue(Math.max(...values)));
    expect(problems).toEqual([]);
  });

  it('feeds photos to the image input of several, and says what else a node needs', async () => {
    const two = put('two.onnx', tinyTowers());
    const out = join(scratch, 'two.html');
    const returnNodes = ['split:1', 'image', 'both'];
    const { problems } = await writeExplorer(two, { out, photos: [photo], returnNodes });
    expect(problems.find((problem) => problem.startsWith('features of both, flower-1.jpg'))).toContain(
      'needs “ids”',
    );
    const { page, problems: errors } = await open(pathToFileURL(out).href);
    for (const [name, kind] of [
      ['split:1', 'output 1 of Split'],
      ['image', 'input'],
    ] as const) {
      await page.fill('#find', name);
      await page.press('#find', 'Enter');
      await page.waitForSelector(
        `.view-title:has-text("${name}") + * .map-figure canvas, .map-figure canvas`,
      );
      expect(await page.textContent('#node .eyebrow')).toBe(kind);
      expect(await page.textContent('.view-title bdi')).toBe(name);
    }
    expect(await page.textContent('.row:has([title=image]) .dims')).toBe('3 × 8 × 8');
    await page.click('.row:has([title=both]) .op');
    expect(await page.textContent('.views .note')).toBe('It needs “ids”, and a photo feeds “image” only.');
    expect(await page.textContent('#cut .table')).toContain('inputsids, image');
    // Without the sum, the ids are not needed: their tower fades.
    await page.click('[aria-label="Return both no more"]');
    expect(await page.textContent('#cut .table')).toContain('inputsimage');
    expect(await page.locator('.row.faded bdi').allTextContents()).toEqual(
      expect.arrayContaining(['ids', 'topk:0', 'topk:1', 'both']),
    );
    // The code feeds both inputs, and runs.
    await page.click('[aria-label="Return image no more"]');
    await page.click('.row:has([title=both]) .pick');
    const code = (await page.textContent('pre.code'))!
      .replace("'photo.jpg'", JSON.stringify(photo))
      .replace("'two.onnx'", JSON.stringify(two));
    const printing = `${code}process.stdout.write(JSON.stringify(Object.values(features).map(({ dims }) => dims)));`;
    const ran = await runNode(['--input-type=module'], { input: printing });
    expect(ran).toMatchObject({ code: 0, stdout: '[[1,2,8,8],[1,2,8,8]]' });
    expect(errors).toEqual([]);
  });

  it('says why a fused attention has no maps', async () => {
    const weight = { dims: [3, 9], values: Array.from({ length: 27 }, (_, i) => i / 30) };
    const fused = put(
      'fused.onnx',
      modelBytes({
        inputs: [{ name: 'image', dims: [1, 3, 8, 8] }],
        outputs: [{ name: 'y', dims: [1, 64, 3] }],
        nodes: [
          { op: 'Reshape', inputs: ['image', 'shape'], outputs: ['flat'] },
          { op: 'Transpose', inputs: ['flat'], outputs: ['tokens'], ints: { perm: [0, 2, 1] } },
          {
            op: 'Attention',
            domain: 'com.microsoft',
            inputs: ['tokens', 'weight', 'bias'],
            outputs: ['y'],
            ints: { num_heads: 1 },
          },
        ],
        initializers: {
          weight,
          bias: Array.from({ length: 9 }, () => 0),
          shape: { dims: [3], values: [1, 3, 64], elemType: 'int64' },
        },
      }),
    );
    const { page } = await open(await fileUrl(fused, { photos: [photo] }));
    await page.click('[data-mode=attention]');
    expect(await page.textContent('.views')).toContain('in one operator, com.microsoft.Attention');
  });

  it.runIf(isRelease)('holds few rows of 5,000 nodes in the page, wherever it is scrolled', async () => {
    const { page, problems } = await open(await fileUrl(put('chain.onnx', modelBytes(chain(5000)))));
    await page.click('text=Open all');
    const frames = await page.evaluate<{ most: number; height: number }>(SCROLL);
    expect(frames.height).toBeGreaterThan(5000 * 36);
    expect(frames.most).toBeLessThan(300);
    expect(problems).toEqual([]);
  });

  // Ten seconds: one visit as a reader makes it, whose code and commands run as they were copied.
  it('served: takes a photo, computes, saves a cut, and copies code that runs', async () => {
    const served = await servePage('explore', [tiny], scratch);
    const { page, problems } = await open(served.url);
    await page.setInputFiles('#photo', photo);
    await page.waitForSelector('.thumb');
    await page.fill('#find', 'layer3');
    await page.press('#find', 'Enter');
    await page.waitForSelector('.map-figure canvas');
    // The value under the pointer is the extractor's, to the 256th part of the map's range.
    const size = { height: 64, width: 64 };
    await using extractor = await createFeatureExtractor(tiny, ['layer3']);
    const image = await loadImage(photo, { resize: size, crop: size });
    const { layer3 } = await extractor.run(image.toTensor());
    const [, , height, width] = layer3!.dims as [number, number, number, number];
    const canvas = page.locator('.map-figure canvas').first();
    const { width: side } = (await canvas.boundingBox())!;
    await canvas.hover({ position: { x: (1.5 * side) / width, y: (2.5 * side) / height } });
    const [, channel, row, column, text] = /^channel (\d+), row (\d+), column (\d+): (.*)$/.exec(
      (await page.textContent('.value'))!,
    )!;
    expect([row, column]).toEqual(['2', '1']);
    const map = (layer3!.data as Float32Array)
      .subarray(Number(channel) * height * width)
      .subarray(0, height * width);
    const range = Math.max(...map) - Math.min(...map);
    expect(Math.abs(Number(text!.replace('−', '-')) - map[2 * width + 1]!)).toBeLessThan(range / 250);

    await page.click('[data-cost=milliseconds]');
    await page.waitForSelector('[data-measured=times]');
    expect(await page.textContent('.row:has([title="layer4"]) .amount')).toMatch(/ (ms|µs)$/);

    await page.click('#node .pick-button');
    await page.waitForSelector('#cut .table :text-matches("kB$|MB$")');
    await page.fill('.save input', 'saved.onnx');
    await page.click('text=Save the cut');
    await page.waitForSelector('.saved:has-text("Saved: ")');
    expect((await runTapir(['nodes', join(scratch, 'saved.onnx'), '--json'])).code).toBe(0);
    // The code, too, for a photo of the size that this model takes.
    const code = (await page.textContent('pre.code'))!.replace("'photo.jpg'", JSON.stringify(photo));
    expect(code).toContain('{ resize: {"height":64,"width":64}, crop: {"height":64,"width":64} }');
    const printing = `${code}process.stdout.write(JSON.stringify(dims));`;
    const ran = await runNode(['--input-type=module'], { input: printing });
    expect(ran).toMatchObject({ code: 0, stdout: JSON.stringify(layer3!.dims) });
    await page.click('[data-language=shell]');
    await page.click('#copy');
    const copied = await page.evaluate<string>('navigator.clipboard.readText()');
    const [program, ...words] = copied.trim().split(' ');
    expect(program).toBe('tapir');
    const ended = await runTapir(words, { cwd: scratch });
    expect(ended).toMatchObject({ code: 0 });
    expect(readFileSync(join(scratch, 'saved.onnx'))).toEqual(readFileSync(join(scratch, words.at(-1)!)));
    expect(problems).toEqual([]);
    expect((await served.stop()).code).toBe(0);
  });

  it('takes photos of a model that takes bytes; its code runs', async () => {
    const model = join(scratch, 'bytes.onnx');
    const size = { height: 64, width: 64 };
    await (await pruneModel(tiny, ['layer2', 'layer4'], { input: 'image-uint8' })).save(model);
    const options = { photos: [photo], returnNodes: ['layer2'], time: true };
    const { page, problems } = await open(
      await fileUrl(model, { ...options, transform: { resize: size, crop: size } }),
    );
    await page.click('[data-cost=milliseconds]');
    await page.waitForSelector('[data-measured=times]');
    await page.fill('#find', 'layer2');
    await page.press('#find', 'Enter');
    await page.waitForSelector('.map-figure canvas');
    await page.waitForSelector('pre.code');
    // A page for others names the file, not where it lay.
    const written = (await page.textContent('pre.code'))!;
    expect(written).toContain("createFeatureExtractor('bytes.onnx'");
    const code = written
      .replace("'photo.jpg'", JSON.stringify(photo))
      .replace("'bytes.onnx'", JSON.stringify(model));
    const printing = code.replace('\n}\n', '\n  process.stdout.write(JSON.stringify([dims, data[0]]));\n}\n');
    const ran = await runNode(['--input-type=module'], { input: printing });
    expect(ran).toMatchObject({ code: 0 });
    const [dims, first] = JSON.parse(ran.stdout) as [number[], number];
    await using extractor = await createFeatureExtractor(tiny, ['layer2']);
    const { layer2 } = await extractor.run((await loadImage(photo, { resize: size, crop: size })).toTensor());
    expect(dims).toEqual(layer2!.dims.slice(1));
    expect(first).toBeCloseTo((layer2!.data as Float32Array)[0]!, 5);
    expect(problems).toEqual([]);
  });

  it.runIf(isRelease)(
    'draws a ResNet-50 with a photo and four nodes in less than 3 MB, and is there in 2 s',
    async () => {
      const model = join(scratch, 'resnet50.onnx');
      await (await createModel('resnet50')).save(model);
      const out = join(scratch, 'resnet50.html');
      const returnNodes = ['layer1', 'layer2', 'layer3', 'layer4'];
      const { bytes } = await writeExplorer(model, { out, photos: [photo], returnNodes });
      expect(bytes).toBeLessThan(3e6);
      const served = await servePage('explore', [model], scratch);
      const page = await browser.newPage({ viewport: { width: 1880, height: 1040 } });
      const started = performance.now();
      await page.goto(served.url);
      await page.waitForSelector('[data-ready]');
      const seconds = (served.startMs + performance.now() - started) / 1000;
      // Two seconds on a quiet machine; the tests share theirs.
      expect(seconds).toBeLessThan(15);
      await page.waitForSelector('[data-measured]');
      expect(await page.textContent('.row:has([title="layer4"])')).toContain('2048 × 7 × 7');
      await page.setInputFiles('#photo', photo);
      await page.fill('#find', 'layer2.0');
      await page.press('#find', 'Enter');
      await page.keyboard.press('ArrowRight');
      await page.keyboard.press('Space');
      await page.waitForSelector('.map-figure canvas');
      // TAPIR_SCREENSHOT makes the picture of the README, which is stored as lossless WebP.
      await page.screenshot({ path: process.env['TAPIR_SCREENSHOT'] ?? join(scratch, 'page.png') });
      await served.stop();
    },
  );
});

it.skipIf(hasBrowser)('needs a browser', () => {
  expect(browserNote).not.toBe('');
});
