// The part of the tests that a process runs: `npm test` runs the quick part, `npm run test:long` the long one, `npm run test:soak`
// the one that repeats for minutes, and a test file that is run directly or named on the command line all of it.

/** The environment variable with the part; unset for all. */
export const PART = 'SVC_TEST_PART'

export type Part = 'quick' | 'long' | 'soak'

/** Suffix of files that belong completely to the long part. */
export const LONG_FILE = /\.long\.test\.ts$/

/** Suffix of files that belong completely to the soak part. */
export const SOAK_FILE = /\.soak\.test\.ts$/

/** Whether a file of the quick part has more tests in the long one: `runs`, another engine, another user. */
export function hasLongPart(source: string): boolean {
  return /\b(?:runs|onEveryEngine|forEachUser)\(/.test(source)
}

/** Number of repetitions in the quick part and in the long one. */
export function runs(quick: number, long: number): number {
  return ['long', 'soak'].includes(process.env[PART] ?? '') ? long : quick
}

/** Whether to run tests of this part in this process. A file of the long or the soak part runs all of its tests. */
export function isIn(part: Part): boolean {
  const asked = process.env[PART]
  const file = process.argv[1] ?? ''
  return !asked || asked === part || LONG_FILE.test(file) || SOAK_FILE.test(file)
}
