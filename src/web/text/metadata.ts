// The rule for what a site says about its visitor, for the server and for the widget, which would otherwise send what is refused.

const METADATA_BYTES_MAX = 4096
const METADATA_NAME = /^[A-Za-z0-9_.-]{1,64}$/

type Metadata = Readonly<Record<string, unknown>>
type ReadMetadata = { readonly metadata: Metadata } | { readonly fault: string; readonly isTooLarge?: true }

export function readMetadata(value: unknown): ReadMetadata {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { fault: 'metadata must be a JSON object' }
  const metadata: Metadata = { ...value }
  for (const [name, member] of Object.entries(metadata)) {
    if (!METADATA_NAME.test(name))
      return { fault: 'names in metadata must be 1 to 64 letters, digits, "_", "." and "-"' }
    // JSON has no NaN and no infinity.
    if (!['string', 'boolean'].includes(typeof member) && !Number.isFinite(member))
      return { fault: `metadata.${name} must be a text, a number or a boolean` }
  }
  const bytes = new TextEncoder().encode(JSON.stringify(metadata)).byteLength
  if (bytes > METADATA_BYTES_MAX)
    return { fault: `metadata has more than ${METADATA_BYTES_MAX} bytes`, isTooLarge: true }
  return { metadata }
}
