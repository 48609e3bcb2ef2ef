// /dash/doctor: checks of this instance, each with the command that corrects what it found.
import { channelRegistrationsResource } from '../../../resources/channel-registrations.ts'
import { badge, buttonLink, type Tone } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { html } from '../../../web/html.ts'
import type { DoctorFinding } from '../../doctor/findings.ts'
import { checkInstance } from '../../doctor/instance-checks.ts'
import { storeHealthCheck } from '../../process/store-health.ts'
import { definePage } from '../page.ts'

const PATH = '/dash/doctor'

const STATUS: Readonly<Record<DoctorFinding['status'], readonly [order: number, text: string, tone: Tone]>> = {
  wrong: [0, 'wrong', 'fault'],
  note: [1, 'note', 'warn'],
  ok: [2, 'fine', 'ok'],
}

/** Other remedies are sentences. */
const COMMAND = /^(?:svc|chmod|mkdir|rm|sudo|timedatectl) \S/
const SENTENCE = /, | or /

export const doctorPage = definePage({
  path: PATH,
  title: 'Doctor',
  nav: 'system',
  isShown: ({ isOperator }) => isOperator,
  progress: 'Running the checks…',
  show: async (view) => {
    const { host, daemon } = view
    const findings = await checkInstance({
      host,
      sources: daemon.sources,
      current: await daemon.currentSources(),
      health: storeHealthCheck(host),
      hasAgents: daemon.peers.isLocal('runed'),
      processes: daemon.runner?.processes,
      adapters: () => view.call(channelRegistrationsResource.verbs.list, {}),
    })
    const rows = findings.toSorted((a, b) => STATUS[a.status][0] - STATUS[b.status][0])
    const [wrong, notes] = (['wrong', 'note'] as const).map(
      (status) => rows.filter((finding) => finding.status === status).length,
    )
    return {
      title: 'Doctor',
      top: html`<p>${summaryOf(wrong ?? 0, notes ?? 0)}</p><p>${buttonLink(PATH, 'Check again')}</p>`,
      table: defineTable<DoctorFinding>({
        id: 'findings',
        caption: 'Findings',
        rows,
        rowId: ({ check }) => check,
        columns: [
          {
            label: 'Status',
            cell: ({ status }) => badge(STATUS[status][1], STATUS[status][2]),
            value: ({ status }) => status,
          },
          {
            label: 'Check',
            cell: ({ check }) => html`<span class="nowrap">${check}</span>`,
            value: ({ check }) => check,
          },
          { label: 'Finding', cell: ({ detail }) => detail },
          {
            label: 'What to do',
            cell: ({ next = '' }) =>
              COMMAND.test(next) && !SENTENCE.test(next) ? view.command(next) : host.showCommands(next),
            value: ({ next }) => next && host.showCommands(next),
          },
        ],
        empty: { text: 'No check has run.' },
      }),
      bottom: html`<p class="hint">The command also checks files, modes and the deployment, and calls each model: ${view.command(`svc doctor ${host.instance} --online`)}</p>`,
    }
  },
})

function summaryOf(wrong: number, notes: number): string {
  if (wrong === 0 && notes === 0) return 'Everything is fine.'
  const parts = [
    ...(wrong === 0 ? [] : [`${wrong} ${wrong === 1 ? 'thing is' : 'things are'} wrong`]),
    ...(notes === 0 ? [] : [`${notes} ${notes === 1 ? 'note' : 'notes'}`]),
  ]
  return `${parts.join(', ')}.`
}
