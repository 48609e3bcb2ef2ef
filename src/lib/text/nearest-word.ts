// "Did you mean …": finds the candidate that a mistyped word most likely meant.

/** The candidate at an edit distance of at most 2 (1 for words of up to three letters), else the one that `word` is a prefix of. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const typed = word.toLowerCase()
  const reach = typed.length > 3 ? 2 : 1
  let best: string | undefined
  let bestDistance = reach + 1
  let begun: string | undefined
  for (const candidate of candidates) {
    const known = candidate.toLowerCase()
    if (begun === undefined && typed.length > 1 && known.startsWith(typed)) begun = candidate
    // The distance is at least the difference in length, so a huge word costs nothing.
    if (Math.abs(known.length - typed.length) >= bestDistance) continue
    const distance = editDistance(typed, known)
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  // `gen` is one edit from `get` but also the start of `generate`: the closer one wins.
  return best ?? begun
}

/** Levenshtein distance. */
function editDistance(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const line = [row]
    for (let column = 1; column <= b.length; column++) {
      const replaced = (above[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1)
      line.push(Math.min(replaced, (above[column] ?? 0) + 1, (line[column - 1] ?? 0) + 1))
    }
    above = line
  }
  return above[b.length] ?? 0
}
