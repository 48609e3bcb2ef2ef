// The worker thread of the data plane. Once its epoll loop runs, Node's event loop does not: no promise or Node timer is
// processed, and messages are fetched when `wakeFd` becomes readable.
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { Refusal } from '../../lib/refusal.ts'
import { AcceptGuard } from '../transport/accept-guard.ts'
import { EpollTransport } from '../transport/epoll-transport.ts'
import { openKernel } from '../transport/kernel.ts'
import { DataPlane } from './data-plane.ts'
import type { WorkerCommand, WorkerEvent, WorkerInput, WorkerReply } from './data-plane-client.ts'

export async function runWorkerLoop(port: MessagePort, { options, wake, accepting }: WorkerInput): Promise<void> {
  const post = (event: WorkerEvent): void => port.postMessage(event)
  const kernel = openKernel()
  if (!kernel) throw new Error('this Node has no node:ffi')
  const transport = new EpollTransport(kernel, {
    woken: () => fetchCommands(),
    failed: (error) => post({ kind: 'fault', message: describeFault(error) }),
    starved: () => post({ kind: 'warn', sentence: 'no more files can be opened: new connections wait' }),
    discard: (fd) => post({ kind: 'discard', fd }),
    acceptGuard: new AcceptGuard(accepting),
    ...(options.maxFiles === undefined ? {} : { maxFiles: options.maxFiles }),
  })
  const fetchCommands = (): void => {
    for (let got = receiveMessageOnPort(port); got; got = receiveMessageOnPort(port)) {
      const command: WorkerCommand = got.message
      const reply = execute(command)
      if (reply && 'number' in command) post({ kind: 'done', number: command.number, ...reply })
    }
  }
  Atomics.store(wake, 0, transport.wakeFd)
  const dataPlane = new DataPlane(transport, options, {
    lookUp: (name) => post({ kind: 'look-up', name }),
    log: (lines) => post({ kind: 'log', lines }),
    warn: (sentence) => post({ kind: 'warn', sentence }),
    reportDenied: (denied) => post({ kind: 'denied', denied }),
  })
  const execute = (command: WorkerCommand): WorkerReply | undefined => {
    switch (command.kind) {
      case 'apply':
        dataPlane.apply(command.changes)
        return {}
      case 'open-source':
        return faultOf(() => dataPlane.openSource(command.source, command.handover))
      case 'set-source':
        dataPlane.setSource(command.key, command.allowlist)
        return {}
      case 'close-source':
        dataPlane.closeSource(command.key)
        return {}
      case 'snapshot':
        return { value: dataPlane.snapshot() }
      case 'stop':
        dataPlane.stop(() => post({ kind: 'done', number: command.number }))
        return undefined
      case 'resolved':
        dataPlane.completeLookup(command.name, command.resolved)
        return undefined
      case 'close':
        dataPlane.flush()
        transport.stop()
        return undefined
    }
  }
  try {
    post({ kind: 'open', listening: await dataPlane.open() })
  } catch (error) {
    post(failureOf(error))
    transport.stop()
  }
  // Messages sent before the wake descriptor was stored did not wake the loop.
  fetchCommands()
  transport.run()
  transport.close()
  port.close()
}

/** Error objects are not posted as they are: an odd one cannot be cloned. */
function describeFault(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

function faultOf(run: () => void): WorkerReply {
  try {
    run()
    return {}
  } catch (error) {
    return { fault: error instanceof Error ? error.message : `${error}` }
  }
}

/** Error classes and properties are lost when an error is posted to another thread. */
function failureOf(error: unknown): WorkerEvent {
  const message = error instanceof Error ? error.message : `${error}`
  if (error instanceof Refusal) return { kind: 'failed', code: error.code, message, hint: error.hint }
  return { kind: 'failed', code: errnoCode(error) ?? '', message }
}
