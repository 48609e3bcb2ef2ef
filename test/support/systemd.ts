// A systemd for one test: the one of this machine as the first process of its own namespaces, with journald and no other unit of
// the machine, whose files are read-only there; /etc, /var and /srv are overlays.
import { execFile, spawn } from 'node:child_process'
import { promisify } from 'node:util'
import { until } from './until.ts'

const run = promisify(execFile)

/** The only units: none may set up disks, remove temporary files or start services of the machine. */
const EMPTY_TARGETS = ['sysinit', 'basic', 'shutdown', 'multi-user', 'network-online', 'umount', 'slices', 'paths']
const JOURNAL = ['systemd-journald.service', 'systemd-journald.socket']

const BOOT = `set -e
place=$1
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs none "$place"
mkdir "$place"/dev
for folder in etc var srv; do
  mkdir "$place"/$folder "$place"/$folder.work
  mount -t overlay overlay -o lowerdir=/$folder,upperdir="$place"/$folder,workdir="$place"/$folder.work /$folder
done
for device in null zero full random urandom tty; do
  touch "$place"/dev/$device
  mount --bind /dev/$device "$place"/dev/$device
done
mkdir "$place"/dev/pts "$place"/dev/shm "$place"/dev/mqueue "$place"/dev/hugepages
mount -t devpts -o newinstance,ptmxmode=0666 none "$place"/dev/pts
ln -s pts/ptmx "$place"/dev/ptmx
ln -s /proc/self/fd "$place"/dev/fd
mount --rbind "$place"/dev /dev
mount -t tmpfs -o mode=755 none /run
mount -t tmpfs -o mode=755 none /etc/systemd/system
# The checkout may be in /tmp.
case $2 in /tmp/*) mount --bind /tmp /tmp ;; *) mount -t tmpfs -o mode=1777 none /tmp ;; esac
mount -o remount,bind,ro /
rm -rf /var/log/journal
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /run/lock /run/units
for unit in ${JOURNAL.join(' ')}; do
  sed '/^\\(Sockets\\|Wants\\|Requires\\)=.*dev-log\\|^Sockets=/d' /lib/systemd/system/$unit > /run/units/$unit
done
for target in ${EMPTY_TARGETS.join(' ')}; do
  printf '[Unit]\\nDefaultDependencies=no\\n' > /run/units/$target.target
done
printf '[Unit]\\nDefaultDependencies=no\\nRequires=systemd-journald.service\\nAfter=systemd-journald.service\\n' > /run/units/tests.target
ip link set lo up
exec env -i container=tests PATH="$PATH" SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/units \\
  /lib/systemd/systemd --system --unit=tests.target --log-target=journal
`

export interface Systemd {
  /** Runs a program beside systemd, and returns stdout. Rejects with stderr if it fails. */
  run(command: string, ...args: string[]): Promise<string>
  /** Like `run`, with stderr. */
  runBoth(command: string, ...args: string[]): Promise<{ stdout: string; stderr: string }>
  /** Ends everything that runs there. */
  close(): Promise<void>
}

/** A group of its own for the processes, since controllers cannot be enabled in one that has others. */
const START = `
for root in /sys/fs/cgroup/unified /sys/fs/cgroup; do
  [ -e $root/cgroup.procs ] || continue
  mkdir -p $root/svc-tests-$$ && echo $$ > $root/svc-tests-$$/cgroup.procs
  break
done
# It ends with the test process, even if that is killed.
exec setpriv --pdeathsig KILL unshare --pid --mount --net --uts --ipc --cgroup --fork --kill-child sh -c "$BOOT" sh "$@"
`

/** Fails while processes are left in the group. */
const REMOVE_GROUP = `for root in /sys/fs/cgroup/unified /sys/fs/cgroup; do
  [ ! -e $root/$1 ] || find $root/$1 -depth -type d -exec rmdir {} + || exit 1
done`

/** `place` is an empty directory. */
export async function openSystemd(place: string): Promise<Systemd> {
  const child = spawn('sh', ['-c', START, 'sh', place, import.meta.dirname], {
    env: { ...process.env, BOOT },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const first = async (): Promise<string> => {
    if (child.exitCode !== null) throw new Error(`systemd did not start: ${said}`)
    return (await run('pgrep', ['--parent', String(child.pid)]).catch(() => ({ stdout: '' }))).stdout.trim()
  }
  const inside: Systemd['runBoth'] = async (command, ...args) => {
    const spaces = ['--target', await first(), '--mount', '--pid', '--net', '--uts', '--ipc', '--cgroup']
    return run('nsenter', [...spaces, command, ...args], { maxBuffer: 1 << 26 })
  }
  await until(async () => (await first()) !== '')
  await until(() =>
    inside('systemctl', 'is-active', 'tests.target').then(
      () => true,
      () => false,
    ),
  )
  return {
    run: async (...words) => (await inside(...words)).stdout,
    runBoth: inside,
    close: async () => {
      // SIGTERM would be ignored; the end of unshare kills everything in the namespaces.
      child.kill('SIGKILL')
      await until(() =>
        run('sh', ['-c', REMOVE_GROUP, 'sh', `svc-tests-${child.pid}`]).then(
          () => true,
          () => false,
        ),
      )
    },
  }
}
