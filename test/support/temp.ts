// Temporary directories of tests.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The environment variable with the directory of a whole run, which its processes share; it is removed when the run ends. */
export const SHARED_FOLDER = 'SVC_TEST_FOLDER'

/** Runs clean-up work at its end: the context of a test, or `{ after }` of node:test for a whole file. */
export interface CleanupScope {
  after(work: () => void): void
}

/** Creates an empty directory that is removed after the test. Other users can enter it, as agents need if root runs svc. */
export function tempDir(t: CleanupScope, under = tmpdir()): string {
  const path = mkdtempSync(join(under, 'svc-test-'))
  chmodSync(path, 0o711)
  t.after(() => rmSync(path, { recursive: true, force: true, maxRetries: 3 }))
  return path
}
