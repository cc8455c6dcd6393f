/** Opening several things at once, all of them or none. */

/**
 * Waits until all are open. If one fails, the others are closed, and the first failure in order is thrown.
 *
 * @param close - Closes one that is open.
 */
export async function openAll<One>(
  opening: Iterable<Promise<One>>,
  close: (one: One) => Promise<unknown>,
): Promise<One[]> {
  const results = await Promise.allSettled(opening);
  const opened = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const failed = results.find((result) => result.status === 'rejected');
  if (!failed) return opened;
  await Promise.all(opened.map(close));
  throw failed.reason;
}
