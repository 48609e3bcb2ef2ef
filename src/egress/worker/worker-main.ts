// Entry point of the data plane's worker thread. It enables the compile cache of the process before it imports the rest.
import module from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'
import type { WorkerInput } from './data-plane-client.ts'

const input: WorkerInput = workerData
if (input.compileCache !== undefined) module.enableCompileCache(input.compileCache)
const { runWorkerLoop } = await import('./worker-loop.ts')
if (parentPort) await runWorkerLoop(parentPort, input)
