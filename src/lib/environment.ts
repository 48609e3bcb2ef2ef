// The environment of this process. This is the only file that reads it.
import type { SettingSource } from './settings.ts'

export function environment(): SettingSource {
  return { name: 'the environment', get: readEnvironment, keys: () => Object.keys(process.env) }
}

/** Reads a variable that is not a setting of an instance, such as SVC_DATA_DIR or NO_COLOR. */
export function readEnvironment(key: string): string | undefined {
  return Object.hasOwn(process.env, key) ? process.env[key] : undefined
}

/** The environment of a child process: this one with changes; undefined removes a variable. */
export function childEnvironment(changes: Readonly<Record<string, string | undefined>>): NodeJS.ProcessEnv {
  return { ...process.env, ...changes }
}
