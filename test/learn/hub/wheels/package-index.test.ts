import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { TapirError } from '../../../../src/base/errors.js';
import { defaultsOf } from '../../../../src/base/options.js';
import { DOWNLOAD_FIELDS } from '../../../../src/learn/hub/download-file.js';
import { findOnIndex } from '../../../../src/learn/hub/wheels/package-index.js';
import { failureOf } from '../../../support/failure.js';
import { startServer } from '../../../support/file-server.js';
import { startIndex, wheelNamed } from '../../../support/wheels.js';

const options = { ...defaultsOf(DOWNLOAD_FIELDS), retryDelayMs: 1, attempts: 2 };
const bytes = Buffer.from('a wheel');
const files = { 'openvino-2026.4.1.tar.gz': bytes, [wheelNamed()]: bytes };
const find = (indexUrl: string | undefined, project = 'openvino') =>
  findOnIndex(project, wheelNamed(), indexUrl, options);

beforeEach(() => vi.stubEnv('PIP_INDEX_URL', undefined));
afterEach(() => {
  vi.unstubAllEnvs();
});

/** Answers any request with a page. */
async function page(text: string): Promise<string> {
  const { url } = await startServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/vnd.pypi.simple.v1+json' }).end(text);
  });
  return `${url}/simple/`;
}

const pageOf = (...listed: readonly unknown[]): Promise<string> => page(JSON.stringify({ files: listed }));

describe('findOnIndex', () => {
  it('reads an index with relative addresses', async () => {
    const { url, requests } = await startIndex({ files });
    expect(await find(`${url}/simple`)).toEqual({
      url: `${url}/files/${wheelNamed()}`,
      index: `${url}/simple/`,
      authorization: undefined,
      sizeBytes: bytes.length,
    });
    expect(requests[0]!.url).toBe('/simple/openvino/');
    expect(requests[0]!.headers.accept).toBe('application/vnd.pypi.simple.v1+json');
  });

  it('asks the index of PIP_INDEX_URL if none is given', async () => {
    const { url } = await startIndex({ files });
    vi.stubEnv('PIP_INDEX_URL', ` ${url}/simple `);
    expect(await find(undefined)).toMatchObject({ index: `${url}/simple/` });
  });

  it('reads addresses relative to where it was redirected', async () => {
    const { url } = await startIndex({ files });
    expect((await find(`${url}/moved/`)).url).toBe(`${url}/files/${wheelNamed()}`);
  });

  it('sends user and password to the index and its own files only', async () => {
    const login = 'me:hunter2';
    const { url } = await startIndex({ files, login });
    const withLogin = (address: string): string => address.replace('//', `//${login}@`);
    const authorization = `Basic ${Buffer.from(login).toString('base64')}`;
    expect(await find(withLogin(`${url}/simple/`))).toMatchObject({ authorization, index: `${url}/simple/` });
    const elsewhere = await pageOf({ filename: wheelNamed(), url: 'https://cdn.example/x.whl' });
    expect((await find(withLogin(elsewhere))).authorization).toBeUndefined();
  });

  it.each([
    ['', 'put user and password into its address'],
    ['me:wrong@', 'check the user and password of the index'],
  ])('says what to do about a refusal (%s)', async (login, advice) => {
    const { url } = await startIndex({ files, login: 'me:hunter2' });
    const error = await failureOf(find(`${url.replace('//', `//${login}`)}/simple/`), TapirError);
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(error.message).toContain('401');
    expect(error.message).toContain(advice);
  });

  it('tries again after a busy server', async () => {
    const { url } = await startServer((_request, response, nth) => {
      if (nth === 1) response.writeHead(503).end();
      else response.writeHead(200).end(JSON.stringify({ files: [{ filename: wheelNamed(), url: 'a' }] }));
    });
    expect((await find(`${url}/simple/`)).url).toBe(`${url}/simple/openvino/a`);
  });

  it.each(['<a href="openvino.whl">', 'not JSON', '[]', '{"files": 3}', 'null'])(
    'refuses JSON of another form: %s',
    async (text) => {
      const error = await failureOf(find(await page(text)), TapirError);
      expect(error.message).toMatch(/PEP 691\); download the wheel yourself/);
    },
  );

  it.each([
    [null],
    [{}],
    [{ filename: 3, url: null }],
    [{ filename: wheelNamed() }],
    [{ filename: wheelNamed(), url: 'http://[' }],
    [{ filename: `x${wheelNamed()}`, url: 'a' }],
  ])('does not take %j for the file', async (odd) => {
    const error = await failureOf(find(await pageOf(odd)), TapirError);
    expect(error.message).toContain(`does not have ${wheelNamed()}; download the wheel yourself`);
  });

  it('takes no size but a whole number', async () => {
    for (const size of [-1, '7', 1.5, null, undefined])
      expect(await find(await pageOf({ filename: wheelNamed(), url: 'a', size }))).toMatchObject({
        sizeBytes: null,
      });
  });
});
