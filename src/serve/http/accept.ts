/** The form in which a caller wants the reply, from its Accept header (RFC 9110, section 12.5.1). */

/** JSON, or the bytes of a `.npy` file. */
export type ReplyForm = 'json' | 'npy';

const TYPES: Readonly<Record<ReplyForm, readonly string[]>> = {
  json: ['application/json'],
  npy: ['application/x-npy', 'application/octet-stream'],
};

/** The acceptable forms, the preferred one first. Without a header, JSON is preferred. */
export function acceptedForms(accept: string | undefined): ReplyForm[] {
  if (accept === undefined || accept.trim() === '') return ['json', 'npy'];
  const qualities = new Map<string, number>();
  for (const range of accept.split(',')) {
    const [type = '', ...parameters] = range.split(';').map((text) => text.trim().toLowerCase());
    const weight = parameters.find((text) => text.startsWith('q='));
    const quality = weight === undefined ? 1 : Number(weight.slice(2));
    qualities.set(type, Math.max(qualities.get(type) ?? 0, Number.isFinite(quality) ? quality : 0));
  }
  const rated = (['json', 'npy'] as const).map((form) => {
    const named = TYPES[form].flatMap((type) => qualities.get(type) ?? []);
    const isNamed = named.length > 0;
    const any = qualities.get('application/*') ?? qualities.get('*/*') ?? 0;
    return { form, isNamed, quality: isNamed ? Math.max(...named) : any };
  });
  return rated
    .filter(({ quality }) => quality > 0)
    .toSorted((a, b) => b.quality - a.quality || Number(b.isNamed) - Number(a.isNamed))
    .map(({ form }) => form);
}
