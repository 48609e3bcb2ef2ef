// Folders that live as long as a test.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Holds the folder of a whole run, for what its processes share; it is removed when the run ends. */
export const SHARED_FOLDER = 'SVC_TEST_FOLDER'

/** What has an end to clean up at: a test's context, or `{ after }` of node:test for a whole file. */
export interface CleanupScope {
  after(work: () => void): void
}

/** An empty folder of its own, removed after the test. Others may enter it, as agents of a svc that root started must. */
export function tempDir(t: CleanupScope, under = tmpdir()): string {
  const path = mkdtempSync(join(under, 'svc-test-'))
  chmodSync(path, 0o711)
  t.after(() => rmSync(path, { recursive: true, force: true, maxRetries: 3 }))
  return path
}
