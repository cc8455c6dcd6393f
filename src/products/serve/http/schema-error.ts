/** What the schema of a body refuses, in words. */

/** What the validator says of it, as far as it is used; `parentSchema` is the object that holds the rule. */
interface SchemaError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly message?: string | undefined;
  readonly params: Readonly<Record<string, unknown>>;
  readonly parentSchema?: { readonly properties?: Readonly<Record<string, unknown>> };
}

/** Names the place, and the fields or values that it may have. */
export function describeSchemaError(error: SchemaError, scope: string): string {
  const { keyword, params, message = 'is invalid', parentSchema } = error;
  const place = `${scope}${error.instancePath}`;
  const fields = Object.keys(parentSchema?.properties ?? {});
  const one = fields.map((field) => `"${field}"`).join(' or ');
  if (keyword === 'additionalProperties' && fields.length > 0)
    return `${place} has no field ${JSON.stringify(params['additionalProperty'])}; send ${one}`;
  if (keyword === 'minProperties') return `${place} is empty; send ${one}`;
  if (keyword === 'maxProperties') return `${place} has several fields; send one of them: ${one}`;
  const { allowedValues } = params;
  return `${place} ${message}${Array.isArray(allowedValues) ? `: ${allowedValues.join(', ')}` : ''}`;
}
