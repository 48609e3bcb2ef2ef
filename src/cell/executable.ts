import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { readEnvironment } from '../lib/environment.ts'

/** The path of a program, as this process would start it, among those that `isUsable`. */
export function findOnPath(name: string, isUsable: (path: string) => boolean = () => true): string | undefined {
  return (readEnvironment('PATH') ?? '/usr/bin:/bin')
    .split(':')
    .filter(Boolean)
    .map((folder) => join(folder, name))
    .find((path) => isUsable(path) && isExecutable(path))
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
