// The C library of this process, for the few things that Node has no call for.

type Ffi = typeof import('node:ffi')

/** Node's way to call it; nothing where this Node has none. */
export function loadFfi(): Ffi | undefined {
  // That the module is young is said at its first use, in between the lines of the log.
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return process.getBuiltinModule('node:ffi')
  } catch {
    return undefined
  } finally {
    process.emitWarning = emitWarning
  }
}
