// Folders that live as long as a test.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What has an end to clean up at: a test's context, or `{ after }` of node:test for a whole file. */
export interface Ending {
  after(work: () => void): void
}

/** An empty folder of its own, removed after the test. Others may enter it, as agents of a svc that root started must. */
export function tempDir(t: Ending, under = tmpdir()): string {
  const path = mkdtempSync(join(under, 'svc-test-'))
  chmodSync(path, 0o711)
  t.after(() => rmSync(path, { recursive: true, force: true, maxRetries: 3 }))
  return path
}
