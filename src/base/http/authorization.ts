/** User and password in an address. */
import { HttpFailure } from './http-failure.js';

/** Returns the `Authorization` header for the user and password in an address. Throws {@link HttpFailure} if they cannot be decoded. */
export function authorizationOf({ username, password }: URL): { readonly authorization?: string } {
  if (username === '' && password === '') return {};
  try {
    const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
  } catch {
    throw new HttpFailure('refused', 'the user name or password in the address cannot be read');
  }
}
