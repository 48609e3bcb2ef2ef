// Reads the fragments in services/ for commands that only need what the valid ones say.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { errnoCode, readText, refuseDisk } from '../lib/files/atomic-file.ts'
import { Refusal } from '../lib/refusal.ts'
import { type Fragment, parseFragment } from './fragment.ts'

const FRAGMENT_MAX_BYTES = 262_144

/** Sorted by name, without invalid fragments, which `svc generate` reports. */
export async function listValidFragments(services: string): Promise<Fragment[]> {
  const files = await readdir(services).catch((error) =>
    errnoCode(error) === 'ENOENT' ? [] : refuseDisk(error, 'read', services),
  )
  const fragments: Fragment[] = []
  for (const file of files.filter((name) => name.endsWith('.yml')).sort()) {
    try {
      fragments.push(await parseFragment(await readText(join(services, file), FRAGMENT_MAX_BYTES), file.slice(0, -4)))
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
    }
  }
  return fragments
}
