// An instance as after two weeks of use, for the screenshots of the guides. Time and randomness are fixed, so that each run shows
// the same.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { TestContext } from 'node:test'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { holdForApproval } from '../../src/core/access/approvals.ts'
import { recordDenials } from '../../src/core/access/network-denials.ts'
import { registerChannel } from '../../src/core/delivery/channel-registrations.ts'
import { bundledProducts, findProduct, setUpFolder } from '../../src/core/groups/products.ts'
import { groupDirs } from '../../src/core/layout.ts'
import { addLinkStats } from '../../src/core/links/link-stats.ts'
import { routeTokens } from '../../src/core/links/route-tokens.ts'
import { accounts } from '../../src/core/people/accounts.ts'
import { onboarding } from '../../src/core/people/onboarding.ts'
import { taskRunLogs } from '../../src/core/schedule/tasks.ts'
import { turnLogFile } from '../../src/core/turns/turn-log-files.ts'
import type { Turn } from '../../src/core/turns/turns.ts'
import { timestamp } from '../../src/lib/clock.ts'
import { audit } from '../../src/registry/audit.ts'
import { groupsResource } from '../../src/resources/groups.ts'
import { invitesResource } from '../../src/resources/invites.ts'
import { networkRulesResource } from '../../src/resources/network-rules.ts'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { routesResource } from '../../src/resources/routes.ts'
import { scheduledTasksResource } from '../../src/resources/scheduled-tasks.ts'
import { secretsResource } from '../../src/resources/secrets.ts'
import { visitor } from '../support/browser.ts'
import { type ConversationHost, openConversationHost, type TestMessageOptions } from '../support/conversation-host.ts'
import { testHost } from '../support/host.ts'
import { type LocalhostInstance, serveAtLocalhost } from '../support/localhost-instance.ts'
import { type SignedInBrowser, signIn } from '../support/sign-in.ts'
import { run } from '../support/sql.ts'

/** A Wednesday afternoon. */
const NOW = Date.UTC(2026, 2, 18, 14, 20)
const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000]
const OPERATOR = 'github:robin'
const FOLDERS = { main: 'Front desk', ops: 'Operations', sales: 'Sales', support: 'Support' } as const
const CHILDREN = { 'support/billing': 'Billing', 'support/returns': 'Returns' } as const
const SITE_CONTEXT = 'Visitors of the shop. Answer in their language, and never promise a refund.'

export interface DemoInstance extends Omit<LocalhostInstance, 'operator'> {
  readonly operator: SignedInBrowser
  /** The ids of a failed message, of one with tool calls, of a running turn and of a task. */
  readonly failed: string
  readonly story: string
  readonly running: string
  readonly task: string
}

interface ToolCall {
  readonly tool: string
  readonly args: object
  readonly denied?: string
}

interface DemoTurn {
  readonly text: string
  readonly place: TestMessageOptions
  readonly answer?: string
  readonly model?: string
  readonly cents?: number
  readonly seconds?: number
  readonly calls?: readonly ToolCall[]
  readonly fault?: string
}

export async function serveDemo(t: TestContext): Promise<DemoInstance> {
  const on = await testHost(t)
  const host = { ...on.host, instance: 'shop' }
  const served = await serveAtLocalhost(t, { on: { ...on, host }, daemons: ['proxyd', 'authd', 'dashd'] })
  const demo = await openConversationHost(t, 'sqlite', served)
  demo.clock.advance(NOW - 16 * DAY - demo.clock.now())
  await addFolders(demo)
  await addLinks(demo)
  await addRules(demo)
  const task = await addTasks(demo)
  await fillDays(demo)
  const { story, failed } = await fillToday(demo)
  await addPeople(demo)
  await addAttention(demo)
  demo.clock.advance(NOW - 20 * SECOND - demo.clock.now())
  const running = await startTurns(demo)
  demo.clock.advance(NOW - demo.clock.now())
  return { ...served, operator: await signIn(served, OPERATOR), failed, story, running, task }
}

/** Pages as the operator sees them, in UTC. */
export async function openDemoBrowser(t: TestContext, demo: DemoInstance, look: BrowserContextOptions): Promise<Page> {
  const { context } = await visitor(t, { locale: 'en-GB', timezoneId: 'UTC', reducedMotion: 'reduce', ...look })
  const [name = '', value = ''] = demo.operator.cookie.split(';')[0]?.split('=') ?? []
  await context.addCookies([{ name, value, url: demo.base }])
  return context.newPage()
}

async function addFolders({ cli, host, groups }: ConversationHost): Promise<void> {
  await groups(...Object.keys(FOLDERS), ...Object.keys(CHILDREN))
  assert.ok(host.layout)
  for (const [folder, name] of Object.entries({ ...FOLDERS, ...CHILDREN })) {
    await cli.call(groupsResource.verbs.set, { folder, key: 'name', to: name })
    const product = folder.startsWith('support') ? 'support' : 'assistant'
    await setUpFolder(host.layout, folder, await findProduct(bundledProducts, product))
  }
}

async function addLinks({ cli, clock }: ConversationHost): Promise<void> {
  const { issue_chat, issue_hook, issue_operator_hook } = routeTokensResource.verbs
  await cli.call(issue_chat, { target_folder: 'support', jid_suffix: 'site', context: SITE_CONTEXT })
  clock.advance(HOUR)
  await cli.call(issue_operator_hook, {
    ...{ target_folder: 'support/returns', source_label: 'parcels', context: 'Parcels that came back.' },
    ...{ verify: 'standard', verify_secret: 'whsec_c2VjcmV0IG9mIHRoZSBzY3JlZW5zaG90cw==' },
  })
  await cli.call(issue_operator_hook, {
    ...{
      target_folder: 'support',
      source_label: 'github',
      context: 'Issues of the shop. Label them, and answer questions.',
    },
    ...{ verify: 'github', verify_secret: 'secret of the screenshots' },
  })
  await cli.call(issue_hook, { target_folder: 'sales', source_label: 'orders', context: 'New orders, as JSON.' })
  clock.advance(DAY)
  await cli.call(issue_chat, { target_folder: 'support', jid_suffix: 'app' })
}

async function addRules({ cli, host, write }: ConversationHost): Promise<void> {
  await cli.call(routesResource.verbs.create, { seq: 1, match: 'platform=telegram room=-100200', target: 'ops' })
  await cli.call(routesResource.verbs.create, { seq: 2, match: 'platform=telegram', target: 'support' })
  for (const target of ['api.example.com', 'status.example.org'])
    await cli.call(networkRulesResource.verbs.allow, { folder: 'support', target })
  for (const [owner, key] of [
    ['support', 'HELPDESK_TOKEN'],
    ['sales', 'CRM_TOKEN'],
  ])
    await cli.call(secretsResource.verbs.create, { scope_kind: 'folder', owner, key, value: 'a secret value' })
  await write((tx) =>
    registerChannel(tx, host, {
      ...{ name: 'telegram', url: 'http://127.0.0.1:9', jid_prefixes: ['telegram:'], secret_name: undefined },
      capabilities: { send: true, edit: true, delete: true, like: true },
    }),
  )
}

async function addTasks({ cli, clock, write }: ConversationHost): Promise<string> {
  const { schedule, pause } = scheduledTasksResource.verbs
  const add = async (targetJid: string, prompt: string, cron: string): Promise<string> =>
    (await cli.call(schedule, { targetJid, prompt, cron })).taskId
  const report = await add('sales', "Summarize yesterday's orders in five lines.", '0 9 * * 1-5')
  const open = await add('support', 'List questions without an answer for more than a day.', '0 8 * * *')
  const sweep = await add('ops', 'Check the certificates of our hosts.', '0 6 * * 1')
  await cli.call(pause, { id: sweep })
  await write(async (tx) => {
    for (let day = 13; day >= 0; day--)
      for (const [task_id, hour] of [
        [report, 9],
        [open, 8],
      ] as const) {
        const at = NOW - day * DAY - (NOW % DAY) + hour * HOUR
        const isFailed = task_id === report && day === 0
        await taskRunLogs.insert(tx, {
          ...{ id: `${task_id}-${day}`, task_id, run_at: timestamp(at), duration_ms: 9000 + day * 731 },
          ...(isFailed
            ? { status: 'error', error: 'the model did not answer within 60 s' }
            : { status: 'success', result: 'Sent a summary.' }),
        })
      }
    // timed is not running here.
    await run(tx, `delete from scheduled_tasks where id like '%-mem-%'`)
    await run(tx, `update scheduled_tasks set next_run = $1 where id = $2`, [
      timestamp(NOW + 18 * HOUR + 40 * MINUTE),
      report,
    ])
    await run(tx, `update scheduled_tasks set next_run = $1 where id = $2`, [
      timestamp(NOW + 17 * HOUR + 40 * MINUTE),
      open,
    ])
  })
  clock.advance(HOUR)
  return open
}

/** One conversation turn from question to end. */
async function converse(demo: ConversationHost, turn: DemoTurn): Promise<Turn> {
  const { text, answer, model = 'small-2', cents = 2, seconds = 6, calls = [], fault, place } = turn
  await demo.ask(text, { reach: 'chat', ...place })
  demo.clock.advance(300)
  const { turn: claimed } = await demo.mustClaim()
  for (const call of calls) await recordCall(demo, claimed, call)
  demo.clock.advance(seconds * SECOND)
  if (answer !== undefined) await demo.say(claimed, answer)
  const tokens = { input_tokens: 900 + cents * 411, output_tokens: 80 + cents * 23 }
  await demo.submit(claimed.folder, { turn_id: claimed.id, models: [{ model, ...tokens, cost_cents: cents }] })
  await demo.end(claimed, fault === undefined ? {} : { outcome: 'failed', reason: fault })
  return claimed
}

async function recordCall({ write, clock }: ConversationHost, turn: Turn, call: ToolCall): Promise<void> {
  clock.advance(1400)
  const { folder, id: turn_id } = turn
  await write((tx) =>
    audit.append(tx, {
      ...{ created_at: timestamp(clock.now()), category: call.denied === undefined ? 'mutation' : 'authz' },
      ...{ action: `tools.${call.tool}`, actor: `folder:${folder}`, resource: 'tools', key: '', surface: 'tool' },
      ...{ params_summary: JSON.stringify(call.args), outcome: call.denied === undefined ? 'ok' : 'denied' },
      ...{ error_msg: call.denied, duration_ms: 40 + call.tool.length * 9, folder, instance: 'shop', turn_id },
    }),
  )
}

const VISITORS = ['anon:4f81', 'anon:90c2', 'anon:b7d3', 'anon:1e6a']
const QUESTIONS = [
  ['Where is my parcel?', 'It left our warehouse on Monday and should arrive tomorrow.'],
  ['Do you ship to Norway?', 'Yes, within five working days.'],
  ['Can I change the address of my order?', 'As long as it has not left us, yes. What is the number of the order?'],
  ['The coupon does not work.', 'It is valid for orders above 30. Yours is at 27.'],
  ['How do I return a jacket?', 'Print the label from your account, and put it on the parcel.'],
  ['Is the blue one still available?', 'Two are left in medium.'],
] as const

/** Turns at fixed times of two weeks, fewer on weekends. */
async function fillDays(demo: ConversationHost): Promise<void> {
  for (let day = 13; day >= 1; day--) {
    const start = NOW - (NOW % DAY) - day * DAY + 8 * HOUR
    const isWeekend = [0, 6].includes(new Date(start).getUTCDay())
    const count = isWeekend ? 2 : 4 + ((day * 5) % 4)
    for (let at = 0; at < count; at++) {
      demo.clock.advance(Math.max(0, start + at * 2 * HOUR + day * MINUTE - demo.clock.now()))
      await converse(demo, visitorTurn(day * 7 + at, 9 + ((day * 13 + at * 7) % 31)))
      await converse(demo, orderTurn(1100 + day * 9 + at, 14 + ((day * 11 + at * 5) % 23)))
    }
    await converse(demo, roomTurn(day))
  }
}

function visitorTurn(number: number, cents: number): DemoTurn {
  const [text, answer] = QUESTIONS[number % QUESTIONS.length] ?? QUESTIONS[0]
  const sender = VISITORS[number % VISITORS.length] ?? 'anon:4f81'
  const place = { folder: 'support', jid: 'web:support/site', sender, link_context: SITE_CONTEXT }
  return { place, text, answer, cents, seconds: 3 + (number % 9) }
}

function orderTurn(order: number, cents: number): DemoTurn {
  return {
    place: { folder: 'sales', jid: 'hook:sales/orders', sender: 'orders', hasRound: false, reach: 'work' },
    text: JSON.stringify({ order, items: (order % 4) + 1, total: 20 + (order % 70), currency: 'EUR' }),
    ...{ model: 'large-4', cents, seconds: 8 + (order % 11) },
  }
}

function roomTurn(day: number): DemoTurn {
  const jid = 'telegram:-100200'
  const envelope = { verb: 'mention', depth: 0, source: 'telegram', sender_name: 'Sam', platform_id: `message-${day}` }
  return {
    place: { folder: 'ops', jid, sender: 'telegram:51', hasRound: false, target_folder: undefined, envelope },
    ...{ text: day % 2 === 0 ? 'How full is the disk?' : 'Please restart the queue.', cents: 5 + (day % 6) },
  }
}

async function fillToday(demo: ConversationHost): Promise<{ story: string; failed: string }> {
  const today = NOW - (NOW % DAY)
  for (let hour = 16; hour < 38; hour++) {
    const at = today - DAY + hour * HOUR
    const busy = hour % 24 < 7 ? 0 : 1 + ((hour * 7) % 4)
    for (let count = 0; count < busy; count++) {
      demo.clock.advance(Math.max(0, at + count * 9 * MINUTE - demo.clock.now()))
      await converse(demo, visitorTurn(hour * 3 + count, 2 + ((hour + count * 3) % 9)))
      if (count % 2 === 0) await converse(demo, orderTurn(1300 + hour + count, 6 + ((hour * 5) % 17)))
    }
  }
  demo.clock.advance(Math.max(0, NOW - 31 * MINUTE - demo.clock.now()))
  const story = await tellStory(demo)
  demo.clock.advance(8 * MINUTE)
  const failed = await converse(demo, {
    ...orderTurn(1362, 4),
    fault: 'the provider answered 529 three times: overloaded',
  })
  return { story, failed: failed.id }
}

async function tellStory(demo: ConversationHost): Promise<string> {
  const turn = await converse(demo, {
    ...visitorTurn(2, 12),
    text: 'I sent the jacket back nine days ago (order 1187) and have no refund yet. When do I get my money?',
    answer:
      'Your parcel arrived on 12 March, and the refund was started today. It takes two to three working days until you see it.',
    model: 'large-4',
    seconds: 9,
    calls: [
      { tool: 'delegate_group', args: { group: 'support/returns', prompt: '(98 characters)' } },
      {
        tool: 'send',
        args: { chatJid: 'telegram:-100200', text: '(61 characters)' },
        denied: 'send: held for approval (3fa2c1d0)',
      },
      {
        tool: 'schedule_task',
        args: { targetJid: 'web:support/site', cron: '2026-03-20T09:00:00Z', prompt: '(57 characters)' },
      },
    ],
  })
  const { host } = demo
  assert.ok(host.layout)
  const file = turnLogFile(groupDirs(host.layout, 'support'), turn.id, demo.clock.now())
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, TURN_LOG)
  return turn.id
}

const TURN_LOG = `model large-4: 5832 tokens in, 356 out
tool delegate_group: support/returns
tool send: held for approval
tool schedule_task: once, 2026-03-20T09:00:00Z
answered in 13.5 s
`

async function addPeople({ cli, grant, operator, host, clock }: ConversationHost): Promise<void> {
  const now = timestamp(clock.now() - 2 * HOUR)
  await operator(OPERATOR)
  await host.engine.transaction(async (tx) => {
    for (const [sub, name, signed_in_at] of [
      [OPERATOR, 'Robin', undefined],
      ['github:kim', 'Kim', now],
      ['google:sam', 'Sam', timestamp(clock.now() - 3 * DAY)],
    ] as const) {
      const [issuer = '', subject = ''] = sub.split(':')
      const email = `${subject}@example.com`
      const created_at = timestamp(NOW - 14 * DAY)
      await accounts.insert(tx, { sub, issuer, subject, name, email, email_verified: true, created_at, signed_in_at })
    }
  })
  for (const scope of ['support', 'support/**']) await grant('github:kim', 'admin', scope)
  await grant('google:sam', 'interact', 'ops')
  await cli.call(invitesResource.verbs.create, {
    ...{ target_glob: 'sales', max_uses: 1, expires_at: timestamp(NOW + 5 * DAY) },
  })
}

/** What waits for a person on the start page. */
async function addAttention({ cli, host, write, clock }: ConversationHost): Promise<void> {
  await cli.call(groupsResource.verbs.set_budget, { folder: 'support', daily: 500 })
  await cli.call(groupsResource.verbs.set_budget, { folder: 'sales', daily: 400 })
  const ago = (ms: number): string => timestamp(NOW - ms)
  await write(async (tx) => {
    await recordDenials(tx, [
      ...[denial('support', 'tracking.example.net', 4, ago(12 * MINUTE))],
      ...[denial('ops', 'metrics.example.org', 1, ago(3 * HOUR))],
      { ...denial('sales', '203.0.113.7', 2, ago(5 * HOUR)), reason: 'ip-literal' },
    ])
    const args = { chatJid: 'telegram:-100200', text: 'Refund of 89 EUR for order 1187, please confirm.' }
    await holdForApproval(tx, host, {
      ...{ folder: 'support', tool: 'send', args_hash: 'a', summary: JSON.stringify(args), jid: 'web:support/site' },
    })
    await onboarding.insert(tx, {
      ...{
        jid: 'telegram:7310',
        status: 'queued',
        created: ago(DAY),
        queued_at: ago(4 * HOUR),
        attempts: 0,
        position: 1,
      },
      ...{ user_sub: 'telegram:7310', folder: 'guests/atelier' },
    })
    await run(tx, `update outbox set state = 'sent' where state = 'pending'`)
    for (const [at, link] of (await routeTokens.list(tx)).entries()) {
      const { token_hash } = link
      const refused = at === 1 ? { rate_limited: 3 } : {}
      const counted = { token_hash, last_used_at: ago((at * 17 + 4) * MINUTE), accepted: 0, refused }
      await addLinkStats(tx, host.engine.dialect, [
        { ...counted, accepted: link.jid.endsWith('app') ? 12 : 61 + at * 40 },
      ])
    }
  })
  clock.advance(SECOND)
}

function denial(folder: string, name: string, count: number, at: string) {
  return { folder, host: name, port: 443, reason: 'blocked-by-allowlist', count, at }
}

/** Two turns that run now. */
async function startTurns(demo: ConversationHost): Promise<string> {
  const step = async (message: DemoTurn, status: string): Promise<Turn> => {
    await demo.ask(message.text, { reach: 'chat', ...message.place })
    demo.clock.advance(SECOND)
    const { turn } = await demo.mustClaim()
    demo.clock.advance(3 * SECOND)
    await demo.say(turn, status, { kind: 'status' })
    return turn
  }
  const { id } = await step(visitorTurn(4, 0), 'Looking up the order')
  await step(orderTurn(1371, 0), 'Writing the offer')
  return id
}
