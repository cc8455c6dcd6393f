import { describe, expect, it } from 'vitest';
import { acceptedForms } from '../../../../src/products/serve/routes/embed-route.js';

describe('acceptedForms', () => {
  it.each([
    [undefined, ['json', 'npy']],
    ['', ['json', 'npy']],
    ['*/*', ['json', 'npy']],
    ['application/json', ['json']],
    ['application/x-npy', ['npy']],
    ['application/octet-stream', ['npy']],
    ['application/x-npy, */*', ['npy', 'json']],
    ['application/x-npy;q=0.5, application/json', ['json', 'npy']],
    ['application/json;q=0, */*', ['npy']],
    ['APPLICATION/JSON', ['json']],
    ['application/*;q=0.1, application/x-npy', ['npy', 'json']],
    ['text/html', []],
    ['application/json;q=x', []],
  ])('of %j are %j', (accept, forms) => expect(acceptedForms(accept)).toEqual(forms));
});
