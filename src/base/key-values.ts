/** Options as one text: `512,overlap=64,scales=1,0.5`. */

/** The parts of such a text. */
export interface KeyValues {
  /** What stands before the first name; undefined if a name comes first. */
  readonly lead: string | undefined;
  /** By name, as written. */
  readonly values: ReadonlyMap<string, string>;
}

const PAIR = /^([A-Za-z][\w-]*)=(.*)$/s;

/**
 * Splits a text at its commas. A part without a name continues the value before it, so that lists need no quotes: `mean=0.5,0.5,0.5`.
 *
 * @returns The parts; undefined for a text in which neither the first nor the second part has a name.
 */
export function splitKeyValues(text: string): KeyValues | undefined {
  const [first, ...others] = text.split(',');
  const hasLead = !PAIR.test(first!);
  if (hasLead && !PAIR.test(others[0] ?? '')) return undefined;
  const values = new Map<string, string>();
  let last = '';
  for (const part of hasLead ? others : [first!, ...others]) {
    const [, name, value] = PAIR.exec(part) ?? [];
    if (name !== undefined) values.set((last = name), value!);
    else values.set(last, `${values.get(last)},${part}`);
  }
  return { lead: hasLead ? first : undefined, values };
}
