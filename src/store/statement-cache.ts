// A trie of SQL texts by the parts of their shape. A lookup needs no string concatenation for a key.

interface ShapeNode {
  sql?: string
  readonly children: Map<string, ShapeNode>
}

export class StatementCache {
  readonly #root: ShapeNode = { children: new Map() }

  getOrCreate(shape: readonly string[], write: () => string): string {
    let node = this.#root
    for (const part of shape) {
      let child = node.children.get(part)
      if (!child) {
        child = { children: new Map() }
        node.children.set(part, child)
      }
      node = child
    }
    node.sql ??= write()
    return node.sql
  }
}
