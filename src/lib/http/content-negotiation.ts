// Conditional requests, content codings and languages (RFC 9110, sections 12.5 and 13.1.2).

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
  const weights = readWeights(acceptEncoding)
  let best: { readonly coding: Coding; readonly weight: number } | undefined
  for (const coding of codings) {
    const weight = weights.get(coding) ?? weights.get('*') ?? 0
    if (weight > (best?.weight ?? 0)) best = { coding, weight }
  }
  return best?.coding
}

/** The languages that the client accepts, the preferred one first. */
export function preferredLanguages(acceptLanguage: string | undefined): string[] {
  const accepted = [...readWeights(acceptLanguage)].filter(([, weight]) => weight > 0)
  return accepted.sort(([, a], [, b]) => b - a).map(([name]) => name)
}

/** The weight of each name of a list such as `de, en;q=0.5`. */
function readWeights(list = ''): Map<string, number> {
  return new Map(
    list.split(',').map((part) => {
      const [name = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase())
      const weight = parameters.find((text) => text.startsWith('q='))?.slice(2)
      return [name, weight === undefined ? 1 : Number(weight)] as const
    }),
  )
}
