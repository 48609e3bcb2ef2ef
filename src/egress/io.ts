// Streams, environment and signals of the process as passed to commands.

import { exitWith, processOutput } from '../lib/command-line/process-output.ts'
import { environment } from '../lib/environment.ts'
import type { EgressIo } from './cli/command.ts'
import { EGRESS_PAGE } from './cli/help-page.ts'
import { egressMain } from './main.ts'

export async function runProcess(): Promise<void> {
  exitWith(await egressMain(process.argv.slice(2), processIo()))
}

const STOP_SIGNALS = ['SIGTERM', 'SIGINT'] as const

function processIo(): EgressIo {
  return {
    ...processOutput(EGRESS_PAGE.name),
    environment: environment(),
    stopped: () =>
      new Promise((resolve) => {
        const stop = (signal: string): void => {
          // A second signal of either kind ends the process at once.
          for (const name of STOP_SIGNALS) process.off(name, stop)
          resolve(signal)
        }
        for (const name of STOP_SIGNALS) process.on(name, stop)
      }),
    onHangup: (callback) => void process.on('SIGHUP', callback),
  }
}
