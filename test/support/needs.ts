// What a test needs of the machine beyond `npm ci`. On a desk a missing part skips the test, loudly; on CI it fails.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { postgresMissing } from './postgres.ts'

interface Part {
  /** Why it is not here, or nothing. */
  missing(): string | undefined
  /** How it comes to a Debian machine. */
  remedy: string
}

const PARTS = {
  postgres: { missing: postgresMissing, remedy: 'apt-get install postgresql' },
  root: {
    missing: () => (process.getuid?.() === 0 ? undefined : 'the tests do not run as root'),
    remedy: 'run as root',
  },
  browser: { missing: () => commandMissing('chromium'), remedy: 'apt-get install chromium' },
  compiler: { missing: () => commandMissing('cc'), remedy: 'apt-get install gcc libc6-dev' },
  curl: { missing: () => commandMissing('curl'), remedy: 'apt-get install curl' },
  bubblewrap: { missing: bubblewrapMissing, remedy: 'apt-get install bubblewrap' },
  zsh: { missing: () => commandMissing('zsh'), remedy: 'apt-get install zsh' },
  fish: { missing: () => commandMissing('fish'), remedy: 'apt-get install fish' },
  'old node': {
    missing: () => (oldNode() ? undefined : 'there is no Node older than 24 at /usr/bin/node'),
    remedy: 'apt-get install nodejs',
  },
  engine: { missing: engineMissing, remedy: 'apt-get install docker.io, and start dockerd' },
} satisfies Record<string, Part>

export type PartName = keyof typeof PARTS

/** Every reason of a skip for want of a part starts so; `npm test` counts them. */
export const NEEDS = 'needs '

/** Options of a test or suite: `test('a sentence', needs('postgres'), …)`. Parts that are there give none. */
export function needs(...names: PartName[]): { skip?: string } {
  for (const name of names) {
    const { missing, remedy }: Part = PARTS[name]
    const reason = missing()
    if (!reason) continue
    const sentence = `${NEEDS}${name}: ${reason} (Debian: ${remedy})`
    if (process.env.CI === 'true') throw new Error(`${sentence}; let .ci/run install it`)
    return { skip: sentence }
  }
  return {}
}

function commandMissing(command: string): string | undefined {
  const found = (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, command)))
  return found ? undefined : `there is no ${command}`
}

/** The machine's own Node, where it is older than what svc needs. */
export function oldNode(): string | undefined {
  const { status, stdout } = spawnSync('/usr/bin/node', ['--version'], { encoding: 'utf8' })
  return status === 0 && Number(/^v(\d+)/.exec(stdout)?.[1]) < 24 ? '/usr/bin/node' : undefined
}

function bubblewrapMissing(): string | undefined {
  const reason = commandMissing('bwrap')
  if (reason) return reason
  const { status, stderr } = spawnSync('bwrap', ['--ro-bind', '/', '/', '--unshare-pid', 'true'], { encoding: 'utf8' })
  return status === 0 ? undefined : `bwrap does not work here: ${stderr.trim()}`
}

function engineMissing(): string | undefined {
  const reason = commandMissing('docker')
  if (reason) return reason
  try {
    execFileSync('docker', ['version'], { stdio: 'ignore', timeout: 10_000 })
    return undefined
  } catch {
    return 'docker does not answer'
  }
}
