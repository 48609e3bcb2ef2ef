// The thread of the data side. Its event loop is the kernel's: no promise and no timer of Node's is ever served here once
// it runs, and messages are fetched when a descriptor says that there are some.
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { diskCode } from '../lib/atomic-file.ts'
import { Refusal } from '../lib/refusal.ts'
import { Core } from './core.ts'
import type { FromCore, ThreadInput, ToCore } from './core-port.ts'
import { AcceptGuard } from './wires/accept-guard.ts'
import { EpollWires } from './wires/epoll.ts'
import { openKernel } from './wires/kernel.ts'

export async function runLoop(port: MessagePort, { options, wake, accepting }: ThreadInput): Promise<void> {
  const say = (message: FromCore): void => port.postMessage(message)
  const kernel = openKernel()
  if (!kernel) throw new Error('this Node cannot call the kernel')
  const wires = new EpollWires(kernel, {
    woken: () => fetchAll(),
    failed: (error) => say({ kind: 'warn', sentence: `a connection failed by a fault of the proxy: ${error}` }),
    starved: () => say({ kind: 'warn', sentence: 'no more files can be opened: new connections wait' }),
    discard: (fd) => say({ kind: 'discard', fd }),
    acceptGuard: new AcceptGuard(accepting),
    ...(options.maxFiles === undefined ? {} : { maxFiles: options.maxFiles }),
  })
  const fetchAll = (): void => {
    for (let got = receiveMessageOnPort(port); got; got = receiveMessageOnPort(port)) hear(got.message)
  }
  Atomics.store(wake, 0, wires.wakeFd)
  const core = new Core(wires, options, {
    ask: (name) => say({ kind: 'ask', name }),
    log: (lines) => say({ kind: 'log', lines }),
    warn: (sentence) => say({ kind: 'warn', sentence }),
    denied: (denied) => say({ kind: 'denied', denied }),
  })
  const hear = (message: ToCore): void => {
    switch (message.kind) {
      case 'apply':
        core.apply(message.changes)
        say({ kind: 'done', number: message.number })
        return
      case 'open-source':
        say({
          kind: 'done',
          number: message.number,
          ...faultOf(() => core.openSource(message.source, message.handover)),
        })
        return
      case 'set-source':
        core.setSource(message.key, message.allowlist)
        say({ kind: 'done', number: message.number })
        return
      case 'close-source':
        core.closeSource(message.key)
        say({ kind: 'done', number: message.number })
        return
      case 'resolved':
        core.resolved(message.name, message.resolved)
        return
      case 'snapshot':
        say({ kind: 'done', number: message.number, value: core.snapshot() })
        return
      case 'stop':
        core.stop(() => say({ kind: 'done', number: message.number }))
        return
      case 'close':
        core.flush()
        wires.stop()
        return
    }
  }
  try {
    say({ kind: 'open', listening: await core.open() })
  } catch (error) {
    say(failureOf(error))
    wires.stop()
  }
  // Whoever saw no descriptor left a message and woke nobody.
  fetchAll()
  wires.run()
  wires.close()
  port.close()
}

function faultOf(run: () => void): { fault?: string } {
  try {
    run()
    return {}
  } catch (error) {
    return { fault: error instanceof Error ? error.message : `${error}` }
  }
}

/** Errors lose what they are on their way to another thread. */
function failureOf(error: unknown): FromCore {
  const message = error instanceof Error ? error.message : `${error}`
  if (error instanceof Refusal) return { kind: 'failed', code: error.code, message, hint: error.hint }
  return { kind: 'failed', code: diskCode(error) ?? '', message }
}
