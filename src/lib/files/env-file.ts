// Reads the .env of an instance.
import { Refusal } from '../refusal.ts'
import { readText } from './atomic-file.ts'

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
