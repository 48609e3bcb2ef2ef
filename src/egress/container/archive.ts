// Packs a few small files as a tar archive, the only form in which every engine accepts files through a pipe.
import { TAR_END, tarHead, tarPadding } from '../../lib/files/tar.ts'

interface ArchivedFile {
  /** A path with a trailing slash is a folder. */
  readonly path: string
  readonly text: string
}

/** Readable by everyone, owned by root. */
export function archiveOf(files: readonly ArchivedFile[]): Buffer {
  const parts = files.flatMap(({ path, text }) => {
    const bytes = Buffer.from(text)
    return [headOf(path, bytes.length), bytes, tarPadding(bytes.length)]
  })
  return Buffer.concat([...parts, TAR_END])
}

function headOf(path: string, size: number): Buffer {
  if (path.endsWith('/')) return tarHead({ path: path.slice(0, -1), kind: 'directory', size, mode: 0o755, mtime: 0 })
  return tarHead({ path, kind: 'file', size, mode: 0o644, mtime: 0 })
}
