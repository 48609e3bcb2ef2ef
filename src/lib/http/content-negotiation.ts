// Conditional requests and content codings (RFC 9110, sections 12.5.3 and 13.1.2).

/** Whether `If-None-Match` contains this tag, so that a 304 suffices. */
export function matchesEtag(ifNoneMatch: string | undefined, tag: string): boolean {
  const known = ifNoneMatch?.split(',').map((text) => text.trim()) ?? []
  return known.some((one) => one === '*' || one.replace(/^W\//, '') === tag)
}

/** The client's preferred coding of these, the first among equals; undefined if it accepts none. */
export function negotiateEncoding<Coding extends string>(
  acceptEncoding: string | undefined,
  codings: readonly Coding[],
): Coding | undefined {
  const weights = new Map(
    (acceptEncoding ?? '').split(',').map((part) => {
      const [name = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase())
      const weight = parameters.find((text) => text.startsWith('q='))?.slice(2)
      return [name, weight === undefined ? 1 : Number(weight)] as const
    }),
  )
  let best: { readonly coding: Coding; readonly weight: number } | undefined
  for (const coding of codings) {
    const weight = weights.get(coding) ?? weights.get('*') ?? 0
    if (weight > (best?.weight ?? 0)) best = { coding, weight }
  }
  return best?.coding
}
