import { describe, expect, it } from 'vitest';
import { HttpFailure, retryTransient } from '../../../src/base/http/http-failure.js';
import { RequestClock } from '../../../src/base/http/request-clock.js';

/** What a request that failed with a code throws. */
function explained(code: string): unknown {
  const clock = new RequestClock({ ms: 1000, of: 'whole' }, undefined);
  clock.stop();
  return clock.explain(Object.assign(new Error(`${code} of https://user:secret@example.test`), { code }));
}

describe('a certificate that is not trusted', () => {
  it.each([
    'SELF_SIGNED_CERT_IN_CHAIN',
    'DEPTH_ZERO_SELF_SIGNED_CERT',
    'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    'ERR_TLS_CERT_ALTNAME_INVALID',
    'CERT_HAS_EXPIRED',
    'INVALID_CA',
  ])('is no failure of the network, and is not tried again (%s)', async (code) => {
    expect(explained(code)).toMatchObject({
      kind: 'certificate',
      message: `its certificate is not trusted (${code})`,
    });
    let attempts = 0;
    const step = (): Promise<never> => {
      attempts++;
      throw explained(code);
    };
    await expect(retryTransient([0, 0], undefined, step)).rejects.toBeInstanceOf(HttpFailure);
    expect(attempts).toBe(1);
  });

  it.each(['ECONNRESET', 'ENOTFOUND', 'UND_ERR_SOCKET'])('is not meant by %s', (code) => {
    expect(explained(code)).toMatchObject({ kind: 'transient' });
  });
});
