// Mounts directories that the agents' user cannot enter, such as a checkout below /root, elsewhere in a private mount
// namespace, and starts bubblewrap in it as the agents' user. The namespace is invisible outside and ends with svc.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { AgentUser } from '../../core/agent-user.ts'
import { makeProcessDirectory } from '../../lib/files/process-directory.ts'
import { refuse } from '../../lib/refusal.ts'

/**
 * Arguments: the mount point, then pairs of a source and its name below it. `cat` keeps the namespace alive until svc, which
 * holds the other end of its input, exits. Slave propagation shows later mounts of the operator and passes none back.
 */
const SCRIPT = `
root=$1
shift
mount -t tmpfs -o mode=0755,size=1m tmpfs "$root" && cd "$root" || exit 1
while [ $# -gt 0 ]; do
  if [ -d "$1" ]; then mkdir "$2"; else : > "$2"; fi
  mount --rbind "$1" "$2" || exit 1
  shift 2
done
echo ready
exec cat > /dev/null
`

export class MountView {
  readonly #holder: ChildProcess
  readonly #root: string
  readonly #sources: readonly string[]

  private constructor(holder: ChildProcess, root: string, sources: readonly string[]) {
    this.#holder = holder
    this.#root = root
    this.#sources = sources
  }

  /** Refuses if this process cannot create mount namespaces. */
  static async open(sources: readonly string[]): Promise<MountView> {
    const root = makeProcessDirectory('svc-view-', 0o755)
    const pairs = sources.flatMap((source, at) => [source, String(at)])
    const holder = spawn('unshare', ['--mount', '--propagation', 'slave', 'sh', '-c', SCRIPT, 'sh', root, ...pairs], {
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    holder.stdin.on('error', () => undefined)
    let stderr = ''
    holder.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-500)
    })
    const view = new MountView(holder, root, sources)
    const isReady = await Promise.race([
      once(holder.stdout, 'data').then(() => true),
      new Promise<false>((resolve) => holder.once('close', () => resolve(false)).once('error', () => resolve(false))),
    ])
    for (const handle of [holder, holder.stdin, holder.stdout, holder.stderr])
      Reflect.get(handle, 'unref')?.call(handle)
    if (isReady) return view
    view.close()
    return refuse('unavailable', stderr.trim().split('\n').at(-1) || 'mount namespaces cannot be created')
  }

  /** Path inside the view; a path outside its sources is returned unchanged. */
  pathInView(path: string): string {
    const index = this.#sources.findIndex((source) => path === source || path.startsWith(`${source}/`))
    return index < 0 ? path : join(this.#root, String(index), relative(this.#sources[index] ?? '', path))
  }

  /** The same path as this process, outside the namespace, can open it. */
  pathFromHost(path: string): string {
    return `/proc/${this.#holder.pid}/root${this.pathInView(path)}`
  }

  /** The command line that starts `argv` in the view, as the agents' user. */
  commandInView({ uid, gid }: AgentUser, argv: readonly string[]): readonly string[] {
    const namespace = `--mount=/proc/${this.#holder.pid}/ns/mnt`
    return ['nsenter', namespace, '--setgid', String(gid), '--setuid', String(uid), '--', ...argv]
  }

  close(): void {
    this.#holder.kill('SIGKILL')
    rmSync(this.#root, { recursive: true, force: true })
  }
}
