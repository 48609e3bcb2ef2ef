// Wraps a value that is created on first use.
export function lazy<T>(load: () => T): () => T {
  let loaded: { readonly value: T } | undefined
  return () => {
    loaded ??= { value: load() }
    return loaded.value
  }
}
