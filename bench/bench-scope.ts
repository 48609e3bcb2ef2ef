// Resources of one benchmark: a temporary folder and processes, all released at its end.
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median } from './result.ts'
import type { Server } from './server.ts'

export class BenchScope extends AsyncDisposableStack {
  readonly root = mkdtempSync(join(tmpdir(), 'svc-bench-'))

  constructor() {
    super()
    this.defer(() => rmSync(this.root, { recursive: true, force: true }))
  }

  async start(opening: Promise<Server>): Promise<Server> {
    const server = await opening
    this.defer(() => server.stop())
    return server
  }
}

/** How long the disk takes to write and flush 4 KiB, which every durable write waits for. */
export function flushMs(folder: string): number {
  const [file, block] = [openSync(join(folder, 'flushed'), 'w'), Buffer.alloc(4096)]
  const times = Array.from({ length: 200 }, () => {
    const started = performance.now()
    writeSync(file, block)
    fdatasyncSync(file)
    return performance.now() - started
  })
  closeSync(file)
  return median(times)
}
