// Where the thread of the data side begins. What is compiled for it is kept beside what is compiled for the program around,
// and so it is loaded only after that is said.
import module from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'
import type { ThreadInput } from './core-port.ts'

const input: ThreadInput = workerData
if (input.compiled !== undefined) module.enableCompileCache(input.compiled)
const { runLoop } = await import('./core-loop.ts')
if (parentPort) await runLoop(parentPort, input)
