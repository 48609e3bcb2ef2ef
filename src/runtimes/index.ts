// The list of runtimes. Each is loaded only when it is to run.
import type { Runtime } from './runtime.ts'

export const runtimes: Readonly<Record<'demo', () => Promise<Runtime>>> = {
  demo: async () => (await import('./demo/runtime.ts')).demo,
}
