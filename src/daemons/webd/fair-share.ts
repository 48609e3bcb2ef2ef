// Places that clients share. When none is free, a network that has many gives one to a network that has fewer.

/**
 * The oldest place of the network that has the most, if it still has more than `network` afterwards: otherwise two networks would
 * replace each other without end. `places` are oldest first.
 */
export function findReplaceable<P extends { readonly network: string }>(
  places: Iterable<P>,
  network: string,
): P | undefined {
  const counts = new Map<string, number>()
  for (const each of places) counts.set(each.network, (counts.get(each.network) ?? 0) + 1)
  const most = Math.max(...counts.values())
  if (most - 1 <= (counts.get(network) ?? 0)) return undefined
  return [...places].find((each) => counts.get(each.network) === most)
}
