// Which part of the tests a process runs: `npm test` the quick one, `npm run test:long` the long one, a file that is run
// by hand or named on the command line all of it.

/** Holds the part; unset for all. */
export const PART = 'SVC_TEST_PART'

export type Part = 'quick' | 'long'

/** Names the files that belong to the long part as a whole. */
export const LONG_FILE = /\.long\.test\.ts$/

/** Whether a file of the quick part has more to do in the long one: `runs`, another engine, another user. */
export function hasLongPart(source: string): boolean {
  return /\b(?:runs|onEveryEngine|forEachUser)\(/.test(source)
}

/** How often a loop or a property is tried: in the quick part, and in the long one. */
export function runs(quick: number, long: number): number {
  return process.env[PART] === 'long' ? long : quick
}

/** Whether what belongs to one part is to be run in this process. A file of the long part has all of it. */
export function isIn(part: Part): boolean {
  const asked = process.env[PART]
  return !asked || asked === part || LONG_FILE.test(process.argv[1] ?? '')
}
