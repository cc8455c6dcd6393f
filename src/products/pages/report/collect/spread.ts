/** At most `count` elements, evenly spread. */
export function spread<Element>(list: readonly Element[], count: number): Element[] {
  const taken = Math.min(count, list.length);
  return Array.from({ length: taken }, (_, i) => list[Math.floor(((i + 0.5) * list.length) / taken)]!);
}
