// Admits those who wait as soon as their gate has room: after a request, when the day changes, or when a gate is added, enabled
// or raised. Any number of processes may run it: the gate counts in the transaction of the admission.
import { type OnboardingRow, onboarding } from '../../core/people/onboarding.ts'
import { discardPreparedFolder } from '../../core/people/onboarding-admission.ts'
import {
  admissionDay,
  chooseGate,
  gateAdmissions,
  type OnboardingGateRow,
  onboardingGates,
} from '../../core/people/onboarding-gates.ts'
import { listQueued, readQueueState } from '../../core/people/onboarding-requests.ts'
import type { Log } from '../../lib/log/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import { callVerb } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { onboardingResource } from '../../resources/onboarding.ts'
import type { Tx } from '../../store/engine.ts'
import { StoreWatcher } from '../process/store-watcher.ts'

/** Rows per pass. */
const BATCH = 5000
/** A pass over an unchanged queue is repeated only after this time, for admissions that failed. */
const REPEAT_MS = 10_000

export interface AdmissionWorkerOptions {
  readonly host: InstanceHost
  readonly log: Log
}

interface QueueState {
  readonly waiting: number
  /** Position of the last one in the queue. */
  readonly last: number
  readonly gates: readonly (OnboardingGateRow & { readonly admitted: number })[]
  readonly day: string
}

export class AdmissionWorker {
  readonly #options: AdmissionWorkerOptions
  readonly #watcher: StoreWatcher
  #isTick = true
  #last: { readonly state: string; readonly atMs: number } | undefined

  constructor(options: AdmissionWorkerOptions) {
    this.#options = options
    this.#watcher = new StoreWatcher({
      host: options.host,
      // The reply to a request is in the outbox.
      work: 'outbox',
      check: (isSignalled) => this.#check(isSignalled),
      onTick: () => {
        this.#isTick = true
      },
    })
  }

  close(): Promise<void> {
    return this.#watcher.close()
  }

  async #check(isSignalled: boolean): Promise<void> {
    // Notifications of other processes are mostly about messages: the next tick is soon enough.
    if (!isSignalled && !this.#isTick) return
    this.#isTick = false
    const { host } = this.#options
    const state = await host.engine.read((tx) => readState(tx, host))
    if (!state) return
    const [text, atMs] = [JSON.stringify(state), host.clock.now()]
    if (text === this.#last?.state && Math.abs(atMs - this.#last.atMs) < REPEAT_MS) return
    this.#last = { state: text, atMs }
    await admitWaiting(this.#options, () => this.#watcher.isClosed)
  }
}

/** Undefined if the queue is empty. */
async function readState(tx: Tx, { clock }: InstanceHost): Promise<QueueState | undefined> {
  const { waiting, last } = await readQueueState(tx)
  if (waiting === 0) return undefined
  const day = admissionDay(clock.now())
  const gates: (OnboardingGateRow & { admitted: number })[] = []
  for (const gate of await onboardingGates.list(tx)) {
    const admitted = (await gateAdmissions.find(tx, { spec: gate.spec, day }))?.admitted ?? 0
    gates.push({ ...gate, admitted })
  }
  return { waiting, last, gates, day }
}

/** One pass over the queue, in its order. */
export async function admitWaiting(
  { host, log }: AdmissionWorkerOptions,
  isStopped: () => boolean = () => false,
): Promise<void> {
  const { state, rows } = await host.engine.read(async (tx) => ({
    state: await readState(tx, host),
    rows: await listQueued(tx, BATCH),
  }))
  const { gates = [] } = state ?? {}
  const chosen = rows.map((row) => ({
    row,
    gate: row.folder === undefined ? undefined : chooseGate(gates, row.folder),
  }))
  await updateGates(host, chosen)
  const left = new Map(gates.map(({ spec, daily_limit, admitted }) => [spec, daily_limit - admitted]))
  for (const { row, gate } of chosen) {
    const room = gate ? (left.get(gate.spec) ?? 0) : 0
    if (!gate || room <= 0 || isStopped()) continue
    const outcome = await tryAdmission({ host, log }, row)
    if (outcome === 'admitted') left.set(gate.spec, room - 1)
    // Another process was faster.
    if (outcome === 'full') left.set(gate.spec, 0)
  }
}

/** The row shows the gate that decides, and its place in the queue depends on it. */
async function updateGates(
  { engine }: InstanceHost,
  chosen: readonly { readonly row: OnboardingRow; readonly gate: OnboardingGateRow | undefined }[],
): Promise<void> {
  const changed = chosen.filter(({ row, gate }) => row.gate !== gate?.spec)
  if (changed.length === 0) return
  await engine.transaction(async (tx) => {
    for (const { row, gate } of changed)
      await onboarding.update(tx, { jid: row.jid, status: 'queued' }, { gate: gate?.spec })
  })
}

/** Another process may prepare the same files at the same time. */
const TRIES_MAX = 3

/** A row that cannot be admitted does not block those behind it. */
async function tryAdmission({ host, log }: AdmissionWorkerOptions, { jid }: OnboardingRow) {
  const request = { host, caller: { kind: 'service', sub: 'service:onbod' }, face: 'rest' } as const
  for (let attempt = 1; ; attempt++) {
    try {
      const { outcome } = await callVerb(request, onboardingResource.verbs.admit, { jid })
      if (outcome === 'unavailable' || outcome === 'routed') await discardFiles(host, jid)
      return outcome
    } catch (error) {
      if (attempt < TRIES_MAX) continue
      if (!(error instanceof Refusal)) host.faults.report('job', error)
      log.warn({ jid, reason: error instanceof Error ? error.message : String(error) }, 'admission failed')
      return 'skipped'
    }
  }
}

async function discardFiles({ engine, layout }: InstanceHost, jid: string): Promise<void> {
  const row = await engine.read((tx) => onboarding.find(tx, { jid }))
  if (row && layout) await discardPreparedFolder({ engine, layout }, row)
}
