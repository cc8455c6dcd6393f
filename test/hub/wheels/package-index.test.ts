import { describe, expect, it } from 'vitest';
import { TapirError } from '../../../src/base/errors.js';
import { defaultsOf } from '../../../src/base/options.js';
import { DOWNLOAD_FIELDS } from '../../../src/hub/download-file.js';
import type { PackageIndex } from '../../../src/hub/wheels/index-settings.js';
import { listWheels } from '../../../src/hub/wheels/package-index.js';
import { failureOf } from '../../support/failure.js';
import { startServer } from '../../support/file-server.js';
import { sha256Of, startIndex, wheelNamed } from '../../support/wheels.js';

const options = { ...defaultsOf(DOWNLOAD_FIELDS), retryDelayMs: 1, attempts: 2 };
const at = (url: string, authorization?: string): PackageIndex => ({
  url,
  authorization,
  from: 'PIP_INDEX_URL',
});
const bytes = Buffer.from('a wheel');
const files = { [wheelNamed()]: bytes, 'openvino-2026.4.1.tar.gz': bytes };

/** Answers any request with a page. */
async function page(type: string, text: string): Promise<string> {
  const { url } = await startServer((_request, response) => {
    response.writeHead(200, { 'content-type': type }).end(text);
  });
  return `${url}/simple/`;
}

describe('listWheels', () => {
  it('reads an index with relative addresses', async () => {
    const { url, requests } = await startIndex({ files });
    const wheels = await listWheels(at(`${url}/simple/`), 'OpenVINO', options);
    expect(wheels).toEqual([
      {
        filename: wheelNamed(),
        name: expect.objectContaining({ project: 'openvino', version: '2026.4.1' }) as unknown,
        url: `${url}/files/${wheelNamed()}`,
        authorization: undefined,
        sha256: sha256Of(bytes),
        sizeBytes: bytes.length,
        yanked: null,
      },
    ]);
    expect(requests[0]!.url).toBe('/simple/openvino/');
    expect(requests[0]!.headers.accept).toBe('application/vnd.pypi.simple.v1+json');
  });

  it('reads addresses relative to where it was redirected', async () => {
    const { url } = await startIndex({ files });
    const wheels = await listWheels(at(`${url}/moved/`), 'openvino', options);
    expect(wheels?.[0]?.url).toBe(`${url}/files/${wheelNamed()}`);
  });

  it('sends user and password to the index and its own files only', async () => {
    const login = 'me:hunter2';
    const { url } = await startIndex({ files, login });
    const authorization = `Basic ${Buffer.from(login).toString('base64')}`;
    const [wheel] = (await listWheels(at(`${url}/simple/`, authorization), 'openvino', options))!;
    expect(wheel!.authorization).toBe(authorization);
    const elsewhere = await page(
      'application/vnd.pypi.simple.v1+json',
      JSON.stringify({ files: [{ filename: wheelNamed(), url: 'https://cdn.example/x.whl', hashes: {} }] }),
    );
    const [other] = (await listWheels(at(elsewhere, authorization), 'openvino', options))!;
    expect(other!.authorization).toBeUndefined();
  });

  it.each([
    [undefined, 'put user and password into PIP_INDEX_URL'],
    ['Basic wrong', 'check the user and password in PIP_INDEX_URL'],
  ])('says what to do about a refusal (%s)', async (authorization, advice) => {
    const { url } = await startIndex({ files, login: 'me:hunter2' });
    const error = await failureOf(
      listWheels(at(`${url}/simple/`, authorization), 'openvino', options),
      TapirError,
    );
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(error.message).toContain('401');
    expect(error.message).toContain(advice);
  });

  it('is undefined for a project that the index does not have', async () => {
    const { url } = await startIndex({ files });
    expect(await listWheels(at(`${url}/simple/`), 'torch', options)).toBeUndefined();
  });

  it('tries again after a busy server', async () => {
    const { url } = await startServer((_request, response, nth) => {
      if (nth === 1) response.writeHead(503).end();
      else response.writeHead(200).end('{"files": []}');
    });
    expect(await listWheels(at(`${url}/simple/`), 'openvino', options)).toEqual([]);
  });

  it.each(['<a href="openvino.whl">', 'not JSON', '[]', '{"files": 3}', '{"files": [null]}'])(
    'refuses JSON of another form: %s',
    async (text) => {
      const url = await page('application/vnd.pypi.simple.v1+json', text);
      const error = await failureOf(listWheels(at(url), 'openvino', options), TapirError);
      expect(error.message).toMatch(/PEP 691\); download the wheel yourself/);
    },
  );

  it.each([
    [true, ''],
    ['it crashes', 'it crashes'],
    [false, null],
    ['', null],
    [undefined, null],
  ])('reads whether a wheel is withdrawn: %j', async (yanked, expected) => {
    const file = { filename: wheelNamed(), url: 'a', hashes: {}, yanked };
    const url = await page('application/vnd.pypi.simple.v1+json', JSON.stringify({ files: [file] }));
    expect((await listWheels(at(url), 'openvino', options))![0]!.yanked).toBe(expected);
  });

  it('leaves out files whose fields are wrong', async () => {
    const odd = [
      {},
      { filename: 3, url: null },
      { filename: wheelNamed(), url: 'http://[' },
      { filename: wheelNamed(), url: 'a', hashes: { sha256: 'short' }, size: -1 },
    ];
    const url = await page('application/vnd.pypi.simple.v1+json', JSON.stringify({ files: odd }));
    expect(await listWheels(at(url), 'openvino', options)).toMatchObject([{ sha256: null, sizeBytes: null }]);
  });
});
