// The boundary around callbacks that no request waits for: events of sockets and processes, timers, signals, promises.
// An exception there is a bug. It ends the turn, stream, connection or job that it belongs to; without the boundary it would
// end the process. `test/house.test.ts` finds callbacks outside of it. See docs/architecture.md#fault-boundaries.
import { defineCounter, type MetricRegistry } from './log/metric-registry.ts'
import { Refusal } from './refusal.ts'

export const FAULT_PLACES = [
  'connection',
  'delivery',
  'job',
  'network',
  'process',
  'search',
  'signal',
  'stream',
  'tool',
  'turn',
] as const

export type FaultPlace = (typeof FAULT_PLACES)[number]

export const FAULTS = defineCounter('svc_faults_total', 'Internal errors outside of requests', { place: FAULT_PLACES })

/** Exit code of a serving process after an exception that no boundary caught: its state is unknown, so it must not go on. */
export const FAULT_EXIT_CODE = 70

/** Must not throw. */
export type FaultHandler = (error: unknown) => void

/** A callback whose exceptions and rejections go to `onFault`. */
export function guard<A extends readonly unknown[]>(
  onFault: FaultHandler,
  callback: (...args: A) => unknown,
): (...args: A) => void {
  return (...args) => {
    try {
      const result = callback(...args)
      if (result instanceof Promise) result.catch(onFault)
    } catch (error) {
      onFault(error)
    }
  }
}

/** Ends the process with the stack, as without a boundary: for short commands, which serve nobody else. */
export const throwUncaught: FaultHandler = (error) => {
  queueMicrotask(() => {
    throw error
  })
}

/** Counts faults and logs each in one line. */
export class FaultBoundary {
  readonly #metrics: MetricRegistry
  readonly #log: (error: unknown, place: FaultPlace) => void

  constructor(metrics: MetricRegistry, log: (error: unknown, place: FaultPlace) => void = () => undefined) {
    this.#metrics = metrics
    this.#log = log
  }

  /** For callers that log the fault with more details. */
  count(place: FaultPlace): void {
    this.#metrics.add(FAULTS, { place })
  }

  /** Never throws. A refusal, such as that of an unavailable store, is logged but is no fault. */
  report(place: FaultPlace, error: unknown): void {
    if (!(error instanceof Refusal)) this.count(place)
    try {
      this.#log(error, place)
    } catch {
      // The members of an odd error may throw when they are read.
      this.#log(new Error('an error that cannot be logged'), place)
    }
  }

  /** `end` closes what the fault belongs to. */
  handler(place: FaultPlace, end?: FaultHandler): FaultHandler {
    return (error) => {
      this.report(place, error)
      try {
        end?.(error)
      } catch (next) {
        this.report(place, next)
      }
    }
  }

  guard<A extends readonly unknown[]>(
    place: FaultPlace,
    callback: (...args: A) => unknown,
    end?: FaultHandler,
  ): (...args: A) => void {
    return guard(this.handler(place, end), callback)
  }
}
