// The process's own streams, environment and signals as a command is given them.
import { environment } from '../lib/settings.ts'
import { endWith, processOuts } from '../lib/streams.ts'
import type { Io } from './command.ts'
import { EGRESS_PAGE } from './help-page.ts'
import { main } from './main.ts'

export async function runProcess(): Promise<void> {
  endWith(await main(process.argv.slice(2), processIo()))
}

const ENDING = ['SIGTERM', 'SIGINT'] as const

function processIo(): Io {
  return {
    ...processOuts(EGRESS_PAGE.name),
    environment: environment(),
    stopped: () =>
      new Promise((resolve) => {
        const stop = (signal: string): void => {
          // Who asks a second time, by either, does not want to wait for an orderly end.
          for (const each of ENDING) process.off(each, stop)
          resolve(signal)
        }
        for (const each of ENDING) process.on(each, stop)
      }),
    onHangup: (told) => void process.on('SIGHUP', told),
  }
}
