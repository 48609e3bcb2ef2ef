// A tar archive of a few small files: the one form in which every engine takes files through a pipe.

export interface ArchivedFile {
  /** Up to a hundred ASCII characters. One that ends in a slash is a folder. */
  readonly path: string
  readonly text: string
}

const BLOCK = 512

/** Readable for everybody, owned by root. */
export function archiveOf(files: readonly ArchivedFile[]): Buffer {
  const parts = files.flatMap(({ path, text }) => {
    const bytes = Buffer.from(text)
    return [headOf(path, bytes.length), bytes, Buffer.alloc(-bytes.length & (BLOCK - 1))]
  })
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)])
}

function headOf(path: string, size: number): Buffer {
  const isFolder = path.endsWith('/')
  const head = Buffer.alloc(BLOCK)
  head.write(path, 0, 100, 'latin1')
  head.write(octal(isFolder ? 0o755 : 0o644, 7), 100, 'latin1')
  head.write(octal(0, 7), 108, 'latin1')
  head.write(octal(0, 7), 116, 'latin1')
  head.write(octal(size, 11), 124, 'latin1')
  head.write(octal(0, 11), 136, 'latin1')
  head.write(isFolder ? '5' : '0', 156, 'latin1')
  head.write('ustar\0' + '00', 257, 'latin1')
  // The sum counts its own eight bytes as blanks.
  head.fill(' ', 148, 156)
  const sum = head.reduce((total, byte) => total + byte, 0)
  head.write(`${octal(sum, 6)}\0 `, 148, 'latin1')
  return head
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0')
}
