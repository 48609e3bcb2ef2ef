// A fake `docker` that records its calls, keeps a file for every container and network, and fails on request.
// `egress-proxy run` is started with it, as a process.
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after } from 'node:test'
import { type CleanupScope, tempDir } from './temp.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'egress-proxy.js')

/** The compile cache of the program, shared by all runs of this process. */
const CACHE = tempDir({ after })

/**
 * `FAIL` is a shell pattern for all arguments; with `LATE` the call fails after its work. `ROOT` is a directory with
 * the files of the image; without it, every path in the image is a program.
 */
const SCRIPT = `#!/bin/sh
PATH=/usr/bin:/bin
call=$(printf '%s\\037' "$@")
# In one go: two may be called at once.
printf '%s\\n' "$call" >>"$FAKE/calls"
[ ! -e "$FAKE/healed" ] || FAIL=
fail() { echo "Error response from daemon: made to fail" >&2; echo "See 'docker --help'." >&2; exit 1; }
case "$*" in $FAIL) [ -n "$LATE" ] || fail ;; esac
for last; do :; done
tag=$(printf '%s' "$*" | sed -n 's/.*egress-proxy\\.run=\\([^ ]*\\).*/\\1/p')
list() { ls "$FAKE/$1" | grep -F -e "$tag" || true; }
made="$FAKE/containers/$last"
case "$1 $2" in
'--version '*) echo "\${VERSION:-Docker version 28.0.0}" ;;
'version --format') echo "\${SERVER:-28.0.0}" ;;
'network ls')
  case "$*" in *--filter*) list networks ;; *) echo one ;; esac ;;
'ps --all') list containers ;;
'image inspect') case " $IMAGES " in *" $last "*) ;; *) fail ;; esac ;;
'network inspect')
  case "$*" in
  *Internal*) echo "\${INTERNAL:-true}" ;;
  *) echo "[{ \\"IPAM\\": { \\"Config\\": [{ \\"Subnet\\": \\"\${TAKEN:-172.17.0.0/16}\\" }] } }]" ;;
  esac ;;
'network create')
  case "$*" in $OVERLAP) echo 'Error response from daemon: Pool overlaps with other one on this address space' >&2; exit 1 ;; esac
  : >"$FAKE/networks/$last" ;;
'network rm') rm "$FAKE/networks/$last" ;;
'create --name') : >"$FAKE/containers/$3" ;;
'rm --force') rm "$made" ;;
'cp -') case "$last" in *-proxy:/) cat >"$FAKE/seed" ;; *) cat >"$FAKE/hosts" ;; esac ;;
'cp '*)
  at="\${2#*:}"
  if [ -z "$ROOT" ]; then : >"$FAKE/program"; tar --create --directory "$FAKE" --mode 755 program
  elif [ -e "$ROOT$at" ] || [ -L "$ROOT$at" ]; then tar --create --no-recursion --directory "$ROOT\${at%/*}/" "\${at##*/}"
  else echo "Error: No such container:path: $2" >&2; exit 1; fi ;;
'kill --signal') echo "$3" >>"$FAKE/signals"; [ "$3" = "$DEAF" ] || : >"$made.killed" ;;
'container inspect')
  case "$*" in
  *Networks*) echo "\${NETWORKS:-\${last%-*}-net }" ;;
  *Config*) echo "\${CONFIG:-"" null}" ;;
  *) echo "\${STATUS:-exited \${CODE:-0}}" ;;
  esac ;;
'start --attach')
  case "$last" in
  *-holder)
    [ -z "$ROUTED" ] || { echo 'the default route of the private network cannot be removed' >&2; exit 1; }
    echo ready
    while [ -e "$made" ]; do sleep 0.02; done ;;
  *-proxy)
    [ -z "$DUMB" ] || { echo '{"level":50,"msg":"the port is taken"}' >&2; exit 1; }
    echo 'forward 10.88.0.2:3128'; echo ready
    while [ -e "$made" ]; do sleep 0.02; done ;;
  *)
    echo 'of the workload'; echo 'its complaint' >&2; cat
    while [ -n "$LONG" ] && [ -e "$made" ] && [ ! -e "$made.killed" ]; do sleep 0.02; done ;;
  esac ;;
esac
case "$*" in $FAIL) fail ;; esac
`

export interface FakeRun {
  readonly child: ChildProcess
  readonly ended: Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>
}

export interface FakeDocker {
  /** The arguments of all calls so far. */
  calls(): string[][]
  /** The existing containers and networks. */
  left(): string[]
  /** Creates a container or network, as an earlier run would. */
  plant(kind: 'containers' | 'networks', name: string): void
  /** Stops all failures. */
  heal(): void
  /** Reads a file that a call has written. */
  read(file: 'seed' | 'hosts' | 'signals'): Buffer
  /** Runs `egress-proxy run …`; `settings` are environment variables, also for the fake engine. */
  run(args: readonly string[], settings?: Readonly<Record<string, string>>, input?: string): FakeRun
}

export function fakeDocker(t: CleanupScope, names: readonly string[] = ['docker']): FakeDocker {
  const folder = tempDir(t)
  const path = join(folder, 'bin')
  for (const name of ['bin', 'containers', 'networks']) mkdirSync(join(folder, name))
  for (const name of names) writeFileSync(join(path, name), SCRIPT, { mode: 0o755 })
  const list = (kind: string): string[] => readdirSync(join(folder, kind))
  return {
    calls: () => readCalls(join(folder, 'calls')),
    left: () => [...list('containers').filter((name) => !name.endsWith('.killed')), ...list('networks')],
    plant: (kind, name) => writeFileSync(join(folder, kind, name), ''),
    heal: () => writeFileSync(join(folder, 'healed'), ''),
    read: (file) => readFileSync(join(folder, file)),
    run: (args, settings = {}, input = '') => {
      const child = spawn(process.execPath, [BIN, 'run', ...args], {
        env: { PATH: path, XDG_CACHE_HOME: CACHE, FAKE: folder, IMAGES: 'egress-proxy:latest', ...settings },
        stdio: ['pipe', 'pipe', 'pipe'],
      })
      t.after(() => void child.kill('SIGKILL'))
      child.stdin.on('error', () => undefined).end(input)
      const code = new Promise<number | null>((resolve) => child.on('exit', resolve))
      const ended = Promise.all([code, text(child.stdout), text(child.stderr)])
      return { child, ended: ended.then(([code, stdout, stderr]) => ({ code, stdout, stderr })) }
    },
  }
}

function readCalls(path: string): string[][] {
  if (!existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1)
  return lines.map((line) => line.split('\x1f').slice(0, -1))
}
