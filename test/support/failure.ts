/** The error that a promise must end in. */

/** Returns the error; throws it if it is of another class, and throws if there is none. */
export async function failureOf<Failure extends Error>(
  promise: Promise<unknown>,
  Class: abstract new (...args: never[]) => Failure,
): Promise<Failure> {
  const error: unknown = await promise.then(
    () => new Error('it worked'),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof Class)) throw error;
  return error;
}
