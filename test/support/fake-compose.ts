// A fake docker and docker-compose on the PATH, which record their calls and fail on request, for commands that run containers.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type CleanupScope, tempDir } from './temp.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')

const RECORD = `#!/bin/sh
PATH=/usr/bin:/bin
call=$(printf '%s\\037' "\${0##*/}" "$@")
printf '%s\\n' "$call" >>"$FAKE/calls"
`

/** `DOCKER_FAIL` is a shell pattern for the arguments of calls that fail with the line `REASON`. */
const DOCKER = `${RECORD}
case "$*" in $DOCKER_FAIL) echo "$REASON" >&2; exit 1 ;; esac
case "$1" in
compose) [ -n "$V2" ] || { echo "docker: 'compose' is not a docker command." >&2; exit 1; }
  shift; exec "\${0%/*}/docker-compose" "$@" ;;
version) echo 20.10.24 ;;
ps) [ ! -e "$FAKE/inspected" ] || echo 0123456789ab ;;
inspect) cat "$FAKE/inspected" ;;
esac
`

/** With `LONG`, \`up\` runs until a signal, which it records. \`run\` copies its input to its output. */
const COMPOSE = `${RECORD}
case " $* " in
*' up '*)
  echo 'log of a container'
  trap 'echo INT >>"$FAKE/signals"; exit 130' INT
  trap 'echo TERM >>"$FAKE/signals"; exit 143' TERM
  : >"$FAKE/up"
  while [ -n "$LONG" ]; do sleep 0.05; done
  exit "\${CODE:-0}" ;;
*' run '*)
  for file; do case "$file" in */pair.yml) cp "$file" "$FAKE/pair.yml" ;; esac; done
  cat
  exit "\${CODE:-0}" ;;
esac
`

export interface FakeRunOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly input?: string
}

export interface RunningSvc {
  readonly child: ChildProcess
  readonly ended: Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>
}

export interface FakeCompose {
  /** The arguments of all calls, with the name of the program. */
  calls(): string[][]
  /** A file that the fakes have written or read: \`signals\`, \`up\`, \`pair.yml\`. */
  read(name: string): string
  write(name: string, text: string): void
  has(name: string): boolean
  /** Starts svc with the fakes on the PATH. */
  start(args: readonly string[], options?: FakeRunOptions): RunningSvc
  run(args: readonly string[], options?: FakeRunOptions): RunningSvc['ended']
}

/** For the PATH of programs that get the directory of the records as `FAKE`. */
export function writeFakeCompose(path: string): void {
  mkdirSync(path)
  writeFileSync(join(path, 'docker'), DOCKER, { mode: 0o755 })
  writeFileSync(join(path, 'docker-compose'), COMPOSE, { mode: 0o755 })
}

/** `dataDir` is the directory of the instances. */
export function fakeCompose(t: CleanupScope, dataDir: string): FakeCompose {
  const folder = tempDir(t)
  const path = join(folder, 'bin')
  writeFakeCompose(path)
  const start: FakeCompose['start'] = (args, { env = {}, input = '' } = {}) => {
    const child = spawn(process.execPath, [BIN, ...args], {
      env: { PATH: path, HOME: folder, FAKE: folder, SVC_DATA_DIR: dataDir, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    t.after(() => void child.kill('SIGKILL'))
    child.stdin.on('error', () => undefined).end(input)
    const exit = once(child, 'exit').then(([code]) => (typeof code === 'number' ? code : null))
    const ended = Promise.all([exit, text(child.stdout), text(child.stderr)])
    return { child, ended: ended.then(([code, stdout, stderr]) => ({ code, stdout, stderr })) }
  }
  return {
    calls: () => {
      if (!existsSync(join(folder, 'calls'))) return []
      const lines = readFileSync(join(folder, 'calls'), 'utf8').split('\n').slice(0, -1)
      return lines.map((line) => line.split('\x1f').slice(0, -1))
    },
    read: (name) => readFileSync(join(folder, name), 'utf8'),
    write: (name, content) => writeFileSync(join(folder, name), content),
    has: (name) => existsSync(join(folder, name)),
    start,
    run: (args, options) => start(args, options).ended,
  }
}
