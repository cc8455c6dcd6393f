/**
 * Makes a function that computes its result once for each object, and keeps it while the object lives.
 *
 * @param compute - Its other arguments are those of the first call for an object.
 */
export function oncePer<Key extends object, Others extends readonly unknown[], Result>(
  compute: (key: Key, ...others: Others) => Result,
): (key: Key, ...others: Others) => Result {
  const results = new WeakMap<Key, { readonly result: Result }>();
  return (key, ...others) => {
    let known = results.get(key);
    if (!known) results.set(key, (known = { result: compute(key, ...others) }));
    return known.result;
  };
}
