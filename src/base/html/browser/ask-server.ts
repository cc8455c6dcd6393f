/** What a served page asks the command that serves it. */

/** The header that requests of the page carry. Pages of other sites cannot set it without a permission that nobody gives. */
export const KEY_HEADER = 'x-tapir-key';

/** A value, or the reason why the server has no value. */
export type Outcome<Value> = { readonly value: Value } | { readonly problem: string };

/** Reads an answer: `{ problem }`, or the value itself. */
export function outcomeOf<Value>(answer: unknown): Outcome<Value> {
  if (typeof answer === 'object' && answer !== null && 'problem' in answer)
    return answer as { problem: string };
  return { value: answer as Value };
}

/** Asks the server for a path below `/api/`; sends the body as it is, if it is given. */
export async function askServer<Value>(
  key: string,
  path: string,
  body?: Blob | string,
): Promise<Outcome<Value>> {
  const type = { 'content-type': 'application/octet-stream' };
  try {
    const response = await fetch(`/api/${path}`, {
      headers: { [KEY_HEADER]: key, ...(body === undefined ? {} : type) },
      ...(body === undefined ? {} : { method: 'POST', body }),
    });
    return outcomeOf(await response.json());
  } catch {
    return { problem: 'The page’s command does not answer: it has ended.' };
  }
}
