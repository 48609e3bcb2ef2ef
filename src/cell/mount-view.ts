// A view of the machine for bubblewrap, where root started svc and keeps it, or its data, below a directory that the agents'
// user cannot enter, such as /root. A mount namespace of its own shows these directories at another place; bubblewrap is
// started in it as the agents' user. Nothing of it is seen outside, and it ends with svc.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { AgentUser } from '../core/agent-user.ts'
import { makeProcessDirectory } from '../lib/process-directory.ts'
import { refuse } from '../lib/refusal.ts'

/**
 * As a slave of the machine's mounts it sees what the operator mounts later, and passes nothing back. Its arguments: the place, then pairs of a source and its name there. `cat` waits for the end of svc, whose pipe is its
 * input; while it lives, the namespace can be entered.
 */
const SCRIPT = `
place=$1
shift
mount -t tmpfs -o mode=0755,size=1m tmpfs "$place" && cd "$place" || exit 1
while [ $# -gt 0 ]; do
  if [ -d "$1" ]; then mkdir "$2"; else : > "$2"; fi
  mount --rbind "$1" "$2" || exit 1
  shift 2
done
echo standing
exec cat > /dev/null
`

export class MountView {
  readonly #holder: ChildProcess
  readonly #place: string
  readonly #sources: readonly string[]

  private constructor(holder: ChildProcess, place: string, sources: readonly string[]) {
    this.#holder = holder
    this.#place = place
    this.#sources = sources
  }

  /** Refuses where this process may not make mount namespaces. */
  static async open(sources: readonly string[]): Promise<MountView> {
    const place = makeProcessDirectory('svc-view-', 0o755)
    const pairs = sources.flatMap((source, at) => [source, String(at)])
    const holder = spawn('unshare', ['--mount', '--propagation', 'slave', 'sh', '-c', SCRIPT, 'sh', place, ...pairs], {
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    holder.stdin.on('error', () => undefined)
    let said = ''
    holder.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-500)
    })
    const view = new MountView(holder, place, sources)
    const standing = await Promise.race([
      once(holder.stdout, 'data').then(() => true),
      new Promise<false>((resolve) => holder.once('close', () => resolve(false)).once('error', () => resolve(false))),
    ])
    for (const handle of [holder, holder.stdin, holder.stdout, holder.stderr])
      Reflect.get(handle, 'unref')?.call(handle)
    if (standing) return view
    view.close()
    return refuse('unavailable', said.trim().split('\n').at(-1) || 'mount namespaces cannot be made')
  }

  /** Where the view shows a path; the path itself where the view has no part in it. */
  at(path: string): string {
    const index = this.#sources.findIndex((source) => path === source || path.startsWith(`${source}/`))
    return index < 0 ? path : join(this.#place, String(index), relative(this.#sources[index] ?? '', path))
  }

  /** The same for this process, which stands outside. */
  outside(path: string): string {
    return `/proc/${this.#holder.pid}/root${this.at(path)}`
  }

  /** The command line that starts `argv` in the view, as the agents' user. */
  enter({ uid, gid }: AgentUser, argv: readonly string[]): readonly string[] {
    const namespace = `--mount=/proc/${this.#holder.pid}/ns/mnt`
    return ['nsenter', namespace, '--setgid', String(gid), '--setuid', String(uid), '--', ...argv]
  }

  close(): void {
    this.#holder.kill('SIGKILL')
    rmSync(this.#place, { recursive: true, force: true })
  }
}
