// Access to the C library of this process. Node warns once that node:ffi is experimental; the launcher silences that.

type Ffi = typeof import('node:ffi')

/** Undefined if this Node has no node:ffi. */
export function loadFfi(): Ffi | undefined {
  try {
    return process.getBuiltinModule('node:ffi')
  } catch {
    return undefined
  }
}
