// Reads and edits the .env of an instance.
import { realpath, stat } from 'node:fs/promises'
import { Refusal } from '../refusal.ts'
import { editDotenv } from '../text/dotenv.ts'
import { readText, writeAtomic } from './atomic-file.ts'

export const ENV_MAX_BYTES = 1_048_576

/** Undefined if the file does not exist. */
export async function readEnvText(path: string): Promise<string | undefined> {
  try {
    return await readText(path, ENV_MAX_BYTES)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_found') return undefined
    throw error
  }
}

/** Sets variables, or removes those whose value is undefined. Keeps the mode of the file and all other lines. */
export async function editEnvFile(path: string, changes: ReadonlyMap<string, string | undefined>): Promise<void> {
  const edited = editDotenv((await readEnvText(path)) ?? '', changes)
  const target = await realpath(path).catch(() => path)
  const mode = await stat(target).then(
    (stats) => stats.mode & 0o777,
    () => 0o600,
  )
  await writeAtomic(target, edited, mode)
}
