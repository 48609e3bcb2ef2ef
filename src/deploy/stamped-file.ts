// A generated text that begins with the hash of the rest, so that a change by hand is noticed and not overwritten.
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { errnoCode, refuseDisk } from '../lib/files/atomic-file.ts'
import { refuse } from '../lib/refusal.ts'

const STAMP = /^# Written by svc generate\. sha256 ([0-9a-f]{64})\n/

export function stampText(body: string): string {
  return `# Written by svc generate. sha256 ${hash('sha256', body, 'hex')}\n${body}`
}

/** Whether `svc generate` wrote this text and it was not changed since. */
export function isUnedited(text: string): boolean {
  const [line, digest] = STAMP.exec(text) ?? []
  return line !== undefined && hash('sha256', text.slice(line.length), 'hex') === digest
}

/** Undefined if there is no such file. */
export async function readGenerated(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    return errnoCode(error) === 'ENOENT' ? undefined : refuseDisk(error, 'read', path)
  }
}

/** Like `readGenerated`. Refuses a file that was changed since it was written. */
export async function readUnedited(path: string, hint: string): Promise<string | undefined> {
  const text = await readGenerated(path)
  if (text !== undefined && !isUnedited(text))
    refuse('conflict', `${path} was edited by hand; nothing was changed`, hint)
  return text
}
