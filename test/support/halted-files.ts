// Stops code at its nth change of a file, as a kill does: the call never returns, so nothing after it runs. Works in the
// process of the test, because modules import the functions of node:fs/promises by live bindings.
import { constants } from 'node:fs'
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

const { O_CREAT, O_RDWR, O_WRONLY } = constants

export interface HaltedRun {
  /** Whether it was stopped before its end. */
  readonly isHalted: boolean
  /** Changes that it made. */
  readonly changes: number
}

export interface FileHalter {
  /** Runs the work and stops it before change number `at`, counted from 1. */
  run(at: number, work: () => Promise<unknown>): Promise<HaltedRun>
  /** Removes the wrappers and closes the files of stopped work. */
  close(): Promise<void>
}

export function openFileHalter(): FileHalter {
  const { mkdir, open, rename, rm, rmdir, unlink } = fs
  const state: { step: (() => Promise<void>) | undefined } = { step: undefined }
  // Kept, because Node reports a handle that is collected while it is open.
  const handles: fs.FileHandle[] = []
  const openAndKeep: typeof open = async (...args) => {
    const handle = await open(...args)
    if (state.step) handles.push(handle)
    return handle
  }
  const counted =
    <A extends unknown[], R>(change: (...args: A) => Promise<R>, isChange: (...args: A) => boolean = () => true) =>
    async (...args: A): Promise<R> => {
      if (isChange(...args)) await state.step?.()
      return change(...args)
    }
  const isWrite = (_path: unknown, flags?: string | number): boolean =>
    typeof flags === 'number' ? (flags & (O_WRONLY | O_RDWR | O_CREAT)) !== 0 : flags !== undefined && flags !== 'r'
  Object.assign(fs, {
    mkdir: counted(mkdir),
    open: counted(openAndKeep, isWrite),
    rename: counted(rename),
    rm: counted(rm),
    rmdir: counted(rmdir),
    unlink: counted(unlink),
  })
  syncBuiltinESMExports()
  return {
    run: async (at, work) => {
      let changes = 0
      const { promise: halted, resolve: halt } = Promise.withResolvers<void>()
      state.step = () => {
        if (changes + 1 === at) {
          halt()
          return new Promise(() => {})
        }
        changes++
        return Promise.resolve()
      }
      const done = work().then(() => false)
      const isHalted = await Promise.race([done, halted.then(() => true)])
      state.step = undefined
      return { isHalted, changes }
    },
    close: async () => {
      Object.assign(fs, { mkdir, open, rename, rm, rmdir, unlink })
      syncBuiltinESMExports()
      for (const handle of handles) if (handle.fd >= 0) await handle.close()
    },
  }
}
