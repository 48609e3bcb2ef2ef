// A file system of two megabytes. Needs root.
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const KIB = 1024

/** Runs `work` in the root of a small file system. It is not unmounted in a hook, because the removal of the directory is one. */
export async function onSmallDisk(
  folder: string,
  kind: 'tmpfs' | 'ext4',
  work: (root: string) => Promise<void>,
): Promise<void> {
  const root = join(folder, 'disk')
  execFileSync('mkdir', [root])
  if (kind === 'tmpfs') execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'svc-test', root])
  else {
    const image = join(folder, 'image')
    execFileSync('truncate', ['-s', '2M', image])
    execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', '-O', '^has_journal', image])
    execFileSync('mount', ['-o', 'loop', image, root])
  }
  try {
    await work(root)
  } finally {
    execFileSync('umount', [root])
  }
}

/** Fills the disk except for this many bytes. */
export function fillUp(root: string, leaveBytes = 0): string {
  const path = join(root, 'ballast')
  const file = openSync(path, 'w')
  const reserve = join(root, 'reserve')
  if (leaveBytes > 0) execFileSync('fallocate', ['-l', String(leaveBytes), reserve])
  try {
    for (let size = 64 * KIB; size >= 1; ) {
      try {
        if (writeSync(file, Buffer.alloc(size)) < size) size /= 2
      } catch {
        size = Math.floor(size / 2)
      }
    }
  } finally {
    closeSync(file)
    rmSync(reserve, { force: true })
  }
  return path
}
