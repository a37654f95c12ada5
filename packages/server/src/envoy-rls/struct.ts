/** Converts plain data to a `google.protobuf.Struct`. */

type Value =
  | { readonly nullValue: 0 }
  | { readonly numberValue: number }
  | { readonly stringValue: string }
  | { readonly boolValue: boolean }
  | { readonly listValue: { readonly values: readonly Value[] } }
  | { readonly structValue: Struct };

export interface Struct {
  readonly fields: Readonly<Record<string, Value>>;
}

export function structOf(data: Readonly<Record<string, unknown>>): Struct {
  const fields = Object.entries(data).map(([name, value]) => [name, protoValue(value)] as const);
  return { fields: Object.fromEntries(fields) };
}

function protoValue(value: unknown): Value {
  if (typeof value === 'number') return { numberValue: value };
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (Array.isArray(value)) return { listValue: { values: value.map(protoValue) } };
  if (typeof value !== 'object' || value === null) return { nullValue: 0 };
  return { structValue: structOf(value as Record<string, unknown>) };
}
