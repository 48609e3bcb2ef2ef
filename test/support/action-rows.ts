// A form for each action of the dashboard, with what it acts on. The test of all actions sends them as different people.
import assert from 'node:assert/strict'
import { holdForApproval } from '../../src/core/access/approvals.ts'
import type { Caller } from '../../src/core/access/caller.ts'
import { recordDenials } from '../../src/core/access/network-denials.ts'
import { recordOutbound } from '../../src/core/delivery/outbox.ts'
import { recordInbound } from '../../src/core/messages/inbound.ts'
import { inbox } from '../../src/core/messages/inbox.ts'
import { onboarding } from '../../src/core/people/onboarding.ts'
import { openPairing } from '../../src/core/people/pairing-codes.ts'
import { passkeys } from '../../src/core/people/passkeys.ts'
import { conversations } from '../../src/core/turns/conversations.ts'
import { writeContextOf } from '../../src/core/turns/rounds.ts'
import { turns } from '../../src/core/turns/turns.ts'
import { folderPath } from '../../src/daemons/dashd/page.ts'
import { timestamp } from '../../src/lib/clock.ts'
import { aclMembershipResource } from '../../src/resources/acl-membership.ts'
import { bearersResource } from '../../src/resources/bearers.ts'
import { channelAccountsResource } from '../../src/resources/channel-accounts.ts'
import { channelSecretsResource } from '../../src/resources/channel-secrets.ts'
import { groupsResource } from '../../src/resources/groups.ts'
import { identitiesResource } from '../../src/resources/identities.ts'
import { invitesResource } from '../../src/resources/invites.ts'
import { networkRulesResource } from '../../src/resources/network-rules.ts'
import { onboardingGatesResource } from '../../src/resources/onboarding-gates.ts'
import { proxydRoutesResource } from '../../src/resources/proxyd-routes.ts'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { routesResource } from '../../src/resources/routes.ts'
import { scheduledTasksResource } from '../../src/resources/scheduled-tasks.ts'
import { secretsResource } from '../../src/resources/secrets.ts'
import { webHostsResource } from '../../src/resources/web-hosts.ts'
import { webRoutesResource } from '../../src/resources/web-routes.ts'
import type { Tx } from '../../src/store/engine.ts'
import { type Dashboard, OPERATOR } from './dashboard.ts'
import { postForm } from './dashboard-forms.ts'
import { signIn } from './sign-in.ts'
import { run } from './sql.ts'

/** A page with its form, and what is typed there. */
export interface ActionPlace {
  readonly path: string
  readonly fields: Readonly<Record<string, string>>
}

interface RowContext {
  /** The person who will send the form. */
  readonly as: string
  /** `team` or `other`. */
  readonly folder: string
  /** A text that no other call gets. */
  readonly mark: string
}

export interface ActionRow {
  /** Makes what the action acts on. */
  make(dash: Dashboard, context: RowContext): Promise<ActionPlace>
  /** Response to an operator; default: 303. */
  readonly status?: number
  /** Response to the administrator of `team` in that folder; default: the same. */
  readonly admin?: number
  /** Whether the page has the form in this state; default: true. */
  readonly isOffered?: boolean
  /** Everyone may do it, for themselves. */
  readonly isOwn?: boolean
  /** The folder of the page decides on what it acts, not the form. */
  readonly actsOnPage?: boolean
}

const write = <T>({ host }: Dashboard, work: (tx: Tx) => Promise<T>): Promise<T> => host.engine.transaction(work)
const inBrowser = (sub: string): Caller => ({ kind: 'person', sub, session: 'a-session' })
const nowOf = ({ host }: Dashboard): string => timestamp(host.clock.now())

/** A form of a folder view. */
function onView(view: string, folder: string, fields: Record<string, string>, query = ''): ActionPlace {
  return { path: `${folderPath(folder, view)}${query}`, fields }
}

async function receiveFailed(dash: Dashboard, folder: string): Promise<string> {
  const [jid, sender] = ['telegram:1', 'telegram:7']
  return write(dash, async (tx) => {
    const { id, seq } = await recordInbound(tx, writeContextOf(dash.host), {
      jid,
      sender,
      content: 'why?',
      reach: 'all',
    })
    const place = { jid, topic: '', chat_topic: '', sender, verb: 'message' }
    await inbox.insert(tx, { message_seq: seq, id, folder, ...place, state: 'failed', updated_at: nowOf(dash) })
    for (const table of ['filing', 'routing']) await run(tx, `update ${table} set last_seq = $1 where id = 1`, [seq])
    return id
  })
}

/** A sent message of which it is not known whether it arrived. */
function sendUnclear(dash: Dashboard, folder: string): Promise<string> {
  return sendInVain(dash, folder, 'unknown')
}

async function sendInVain(dash: Dashboard, folder: string, state: 'unknown' | 'failed'): Promise<string> {
  const { host } = dash
  return write(dash, async (tx) => {
    const message = { jid: 'telegram:1', topic: '', folder, content: 'an answer' }
    const { id } = await recordOutbound(tx, writeContextOf(host), host.rules, message)
    await run(tx, `update outbox set state = $2 where id = $1`, [id, state])
    return id
  })
}

async function startTurn(dash: Dashboard, folder: string, mark: string): Promise<string> {
  const id = `turn-${mark}`
  await write(dash, (tx) =>
    turns.insert(tx, {
      ...{ id, folder, topic: '', jid: `web:${folder}`, chat_topic: '', sender: 'anon:1', first_seq: 1, last_seq: 1 },
      ...{ message_count: 1, state: 'running', attempts: 1, fence: 1, leased_until: 9e15, run_after: 0, replies: 0 },
      ...{
        depth: 0,
        is_isolated: false,
        is_timed: false,
        is_guest: false,
        is_stopping: false,
        started_at: nowOf(dash),
      },
    }),
  )
  return id
}

async function holdCall(dash: Dashboard, folder: string, mark: string): Promise<string> {
  const call = { folder, tool: 'send', args_hash: mark, summary: '{}' }
  return (await write(dash, (tx) => holdForApproval(tx, dash.host, call))).id
}

async function addTask({ cli }: Dashboard, folder: string): Promise<string> {
  const task = { targetJid: folder, prompt: 'Look around.', cron: '0 9 * * *' }
  return (await cli.call(scheduledTasksResource.verbs.schedule, task)).taskId
}

async function addLink({ cli }: Dashboard, folder: string, mark: string): Promise<string> {
  return (await cli.call(routeTokensResource.verbs.issue_chat, { target_folder: folder, jid_suffix: mark })).jid
}

async function addRoute({ cli }: Dashboard, folder: string, mark: string): Promise<string> {
  const { id } = await cli.call(routesResource.verbs.create, { seq: 0, match: `room=${mark}`, target: folder })
  return String(id)
}

async function addTopic(dash: Dashboard, folder: string, topic: string): Promise<void> {
  const row = { folder, topic, waiting: 0, observed_seq: 0, updated_at: nowOf(dash), session_id: `session of ${topic}` }
  await write(dash, (tx) => conversations.insertIfMissing(tx, row))
}

async function queueAdmission(dash: Dashboard, mark: string): Promise<string> {
  const jid = `telegram:${mark}`
  const at = nowOf(dash)
  const row = { jid, status: 'queued', created: at, queued_at: at, attempts: 0, user_sub: 'telegram:u' } as const
  await write(dash, (tx) => onboarding.insert(tx, { ...row, position: 1, folder: `guests/${mark}` }))
  return jid
}

/** A chat on a platform of its own, so that its code is not one of too many. */
async function openPairingCode(dash: Dashboard, mark: string): Promise<string> {
  const { random, clock } = dash.host
  const jid = `p${mark}:1`
  const code = await write(dash, (tx) => openPairing(tx, random, { jid, sender: jid, now: clock.now() }))
  assert.ok(code)
  return code
}

/** An account with a session. */
async function addPerson(dash: Dashboard, mark: string): Promise<{ sub: string; path: string; session: string }> {
  const sub = `local:${mark}`
  const { session } = await signIn(dash, sub)
  return { sub, path: `/dash/person?sub=${encodeURIComponent(sub)}`, session }
}

async function addBearer(dash: Dashboard, sub: string): Promise<string> {
  return (await dash.as(inBrowser(sub), 'dash').call(bearersResource.verbs.create, { ttl_ms: 60_000 })).id
}

/** Messages and turns of the list and of the page of one. */
function retryRows(path: (id: string) => string): [retry: ActionRow, redeliver: ActionRow] {
  const row = (add: (dash: Dashboard, folder: string) => Promise<string>): ActionRow => ({
    make: async (dash, { folder }) => {
      const id = await add(dash, folder)
      return { path: path(id), fields: { id } }
    },
  })
  return [row(receiveFailed), row(sendUnclear)]
}

/** A message on the page of its turn. */
function ofTurnRow(table: 'inbox' | 'outbox', add: (dash: Dashboard, folder: string) => Promise<string>): ActionRow {
  return {
    make: async (dash, { folder, mark }) => {
      const [turn, id] = [await startTurn(dash, folder, mark), await add(dash, folder)]
      await write(dash, async (tx) => {
        await run(tx, `update ${table} set turn_id = $1 where id = $2`, [turn, id])
        await run(tx, `update turns set state = 'done', outcome = 'failed', ended_at = started_at where id = $1`, [
          turn,
        ])
      })
      return { path: `/dash/turns/${turn}`, fields: { id } }
    },
  }
}

function stopRow(path: (id: string) => string): ActionRow {
  return {
    make: async (dash, { folder, mark }) => {
      const id = await startTurn(dash, folder, mark)
      return { path: path(id), fields: { id } }
    },
  }
}

/** Only operators decide. */
function decisionRow(path: string, decision: 'approve' | 'reject'): ActionRow {
  return {
    make: async (dash, { folder, mark }) => ({ path, fields: { id: await holdCall(dash, folder, mark), decision } }),
    admin: 403,
  }
}

/** The actions of tasks, on the page of all and in the view of a folder. */
function taskRows(base: string, pathOf: (folder: string, query?: string) => string): Record<string, ActionRow> {
  const row = (query: boolean, more: Record<string, string> = {}): ActionRow => ({
    make: async (dash, { folder }) => {
      const id = await addTask(dash, folder)
      return { path: pathOf(folder, query ? `task=${encodeURIComponent(id)}` : undefined), fields: { id, ...more } }
    },
  })
  const rows: Record<string, ActionRow> = {
    run: row(false),
    pause: row(false),
    resume: {
      make: async (dash, { folder }) => {
        const id = await addTask(dash, folder)
        await dash.cli.call(scheduledTasksResource.verbs.pause, { id })
        return { path: pathOf(folder), fields: { id } }
      },
    },
    remove: row(true),
    create: {
      make: async (_, { folder }) => ({ path: pathOf(folder), fields: { targetJid: folder, prompt: 'Hello.' } }),
    },
    change: row(true, { prompt: 'Look elsewhere.' }),
  }
  return Object.fromEntries(Object.entries(rows).map(([name, each]) => [`${base} ${name}`, each]))
}

/** A page for operators: it does not exist for others. */
function operatorRow(make: ActionRow['make'], status = 303): ActionRow {
  return { make, status, admin: 404 }
}

const PERSON = '/dash/person'
const GATES = '/dash/admissions?view=gates'
const [retryInList, redeliverInList] = retryRows(() => '/dash/messages?direction=all')
const [retryOne, redeliverOne] = retryRows((id) => `/dash/messages/${id}`)
const gate = onboardingGatesResource.verbs

/** By page and action, or folder view and action. */
export const ACTION_ROWS: Readonly<Record<string, ActionRow>> = {
  '/dash/ approve': decisionRow('/dash/', 'approve'),
  '/dash/ reject': decisionRow('/dash/', 'reject'),
  '/dash/ retry': retryRows(() => '/dash/')[0],
  '/dash/ stop': stopRow(() => '/dash/'),
  '/dash/ allow': {
    make: async (dash, { folder, mark }) => {
      const host = `${mark}.example.com`
      const denial = { folder, host, port: 443, reason: 'blocked-by-allowlist', count: 1, at: nowOf(dash) }
      await write(dash, (tx) => recordDenials(tx, [denial]))
      return { path: '/dash/', fields: { folder, target: host } }
    },
  },
  '/dash/folders create': {
    make: async (_, { folder, mark }) => ({ path: '/dash/folders', fields: { folder: `${folder}/f${mark}` } }),
  },
  '/dash/messages retry': retryInList,
  '/dash/messages redeliver': redeliverInList,
  '/dash/messages retry_all': {
    make: async (dash, { folder }) => {
      const ids = [await receiveFailed(dash, folder), await receiveFailed(dash, folder)]
      return { path: '/dash/messages', fields: { ids: ids.join(' ') } }
    },
  },
  '/dash/messages retry_matching': {
    make: async (dash, { folder }) => {
      for (let n = 0; n < 2; n++) await receiveFailed(dash, folder)
      return { path: `/dash/messages?state=failed&limit=1&folder=${folder}`, fields: {} }
    },
    actsOnPage: true,
  },
  '/dash/messages/:id retry': retryOne,
  '/dash/messages/:id redeliver': redeliverOne,
  '/dash/turns stop': stopRow(() => '/dash/turns'),
  '/dash/turns stop_all': {
    make: async (dash, { folder, mark }) => {
      const ids = [await startTurn(dash, folder, mark), await startTurn(dash, folder, `${mark}-b`)]
      return { path: '/dash/turns', fields: { ids: ids.join(' ') } }
    },
  },
  '/dash/turns/:id retry': ofTurnRow('inbox', receiveFailed),
  '/dash/turns/:id redeliver': ofTurnRow('outbox', sendUnclear),
  '/dash/turns/:id stop': stopRow((id) => `/dash/turns/${id}`),
  '/dash/approvals approve': decisionRow('/dash/approvals', 'approve'),
  '/dash/approvals reject': decisionRow('/dash/approvals', 'reject'),
  ...taskRows('/dash/tasks', (_, query) => (query === undefined ? '/dash/tasks' : `/dash/tasks?${query}`)),
  '/dash/invites create': {
    make: async (_, { folder }) => ({
      path: '/dash/invites',
      fields: { target_glob: folder, max_uses: '1', days: '7' },
    }),
    status: 200,
  },
  '/dash/invites revoke': {
    make: async (dash, { as, folder }) => {
      const issuer = as === OPERATOR ? dash.cli : dash.as(inBrowser(as), 'dash')
      const { token } = await issuer.call(invitesResource.verbs.create, { target_glob: folder, max_uses: 1 })
      return { path: '/dash/invites', fields: { token_id: token.slice(0, 12) } }
    },
  },
  '/dash/admissions approve': operatorRow(async (dash, { mark }) => ({
    path: '/dash/admissions',
    fields: { jid: await queueAdmission(dash, mark) },
  })),
  '/dash/admissions refuse': operatorRow(async (dash, { mark }) => ({
    path: '/dash/admissions',
    fields: { jid: await queueAdmission(dash, mark) },
  })),
  '/dash/admissions reprompt': operatorRow(async (dash, { mark }) => ({
    path: '/dash/admissions',
    fields: { jid: await queueAdmission(dash, mark) },
  })),
  '/dash/admissions find_pairing': operatorRow(async (dash, { mark }) => ({
    path: '/dash/admissions',
    fields: { code: await openPairingCode(dash, mark) },
  })),
  '/dash/admissions put_gate': operatorRow(async (_, { mark }) => ({
    path: GATES,
    fields: { spec: `${mark}/*`, daily_limit: '3' },
  })),
  '/dash/admissions change_gate': operatorRow(async ({ cli }, { mark }) => {
    await cli.call(gate.put, { spec: `${mark}/*`, daily_limit: 3 })
    return { path: GATES, fields: { spec: `${mark}/*`, enabled: 'false' } }
  }),
  '/dash/admissions remove_gate': operatorRow(async ({ cli }, { mark }) => {
    await cli.call(gate.put, { spec: `${mark}/*`, daily_limit: 3 })
    return { path: GATES, fields: { spec: `${mark}/*` } }
  }),
  '/dash/me set_secret': {
    make: async (_, { mark }) => ({ path: '/dash/me', fields: { key: `KEY_${mark}`.toUpperCase(), value: 'v' } }),
    isOwn: true,
  },
  '/dash/me delete_secret': {
    make: async ({ cli }, { as, mark }) => {
      const key = `KEY_${mark}`.toUpperCase()
      await cli.call(secretsResource.verbs.create, { scope_kind: 'user', owner: as, key, value: 'v' })
      return { path: '/dash/me', fields: { key } }
    },
    isOwn: true,
  },
  '/dash/me end_session': {
    make: async (dash, { as }) => ({ path: '/dash/me', fields: { family_id: (await signIn(dash, as)).session } }),
    isOwn: true,
  },
  '/dash/me end_others': {
    make: async (dash, { as }) => {
      await signIn(dash, as)
      return { path: '/dash/me', fields: {} }
    },
    isOwn: true,
  },
  '/dash/me create_bearer': {
    make: async () => ({ path: '/dash/me', fields: { days: '1' } }),
    status: 200,
    isOwn: true,
  },
  '/dash/me revoke_bearer': {
    make: async (dash, { as }) => ({ path: '/dash/me', fields: { id: await addBearer(dash, as) } }),
    isOwn: true,
  },
  '/dash/channels add': operatorRow(
    async (_, { mark }) => ({ path: '/dash/channels', fields: { name: `a${mark}`, platforms: `p${mark}` } }),
    200,
  ),
  // Accepted tokens need a platform: see the tests of the page.
  '/dash/channels connect': operatorRow(
    async () => ({ path: '/dash/channels?connect=telegram', fields: { platform: 'telegram', token: 'x' } }),
    400,
  ),
  '/dash/channels set_account': operatorRow(async (dash, { mark }) => {
    const account = await connectAccount(dash, mark)
    return { path: `/dash/channels?account=${account}`, fields: { account, name: 'dm', value: 'off' } }
  }),
  '/dash/channels remove_account': operatorRow(async (dash, { mark }) => ({
    path: '/dash/channels',
    fields: { account: await connectAccount(dash, mark) },
  })),
  '/dash/channels retry': operatorRow(async (dash, { folder }) => ({
    path: '/dash/channels',
    fields: { id: await sendInVain(dash, folder, 'failed') },
  })),
  '/dash/channels redeliver': operatorRow(async (dash, { folder }) => ({
    path: '/dash/channels',
    fields: { id: await sendUnclear(dash, folder) },
  })),
  '/dash/channels rotate': operatorRow(async (dash, { mark }) => channelSecret(dash, mark), 200),
  '/dash/channels remove': operatorRow(async (dash, { mark }) => channelSecret(dash, mark)),
  // The built-in demo has nothing to test, so its page has no button.
  '/dash/model test_model': {
    ...operatorRow(async () => ({ path: '/dash/model', fields: {} })),
    isOffered: false,
  },
  '/dash/model set_model': operatorRow(async () => ({ path: '/dash/model?kind=demo', fields: { kind: 'demo' } })),
  '/dash/manifest plan': operatorRow(
    async (dash) => ({ path: '/dash/manifest', fields: { manifest: await exportManifest(dash) } }),
    200,
  ),
  '/dash/manifest apply': {
    ...operatorRow(async (dash) => {
      const manifest = await exportManifest(dash)
      const plan = await postForm(dash.operator, '/dash/manifest', { action: 'plan', manifest })
      const [, planned = ''] = /name="planned" value="([^"]+)"/.exec(await plan.text()) ?? []
      return { path: '/dash/manifest', fields: { manifest, planned } }
    }),
    // The page of the plan has it.
    isOffered: false,
  },
  '/dash/settings save': operatorRow(async (dash, { mark }) => {
    const page = await (await dash.operator.get('/dash/settings')).text()
    const [, shown = ''] = /name="mark" value="([^"]+)"/.exec(page) ?? []
    return { path: '/dash/settings', fields: { ASSISTANT_NAME: mark, mark: shown } }
  }),
  '/dash/proxy-routes add': operatorRow(async (_, { mark }) => ({
    path: '/dash/proxy-routes',
    fields: { path: `/${mark}/`, redirect_to: '/elsewhere', auth: 'operator' },
  })),
  '/dash/proxy-routes change': operatorRow(async (dash, { mark }) => {
    const fields = await proxyRoute(dash, mark)
    return { path: `/dash/proxy-routes?path=${encodeURIComponent(fields.path)}`, fields }
  }),
  '/dash/proxy-routes remove': operatorRow(async (dash, { mark }) => ({
    path: '/dash/proxy-routes',
    fields: { path: (await proxyRoute(dash, mark)).path },
  })),
  [`${PERSON} grant`]: operatorRow(async (dash, { folder, mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    return { path, fields: { principal: sub, right: 'interact', scope: folder } }
  }),
  [`${PERSON} revoke`]: operatorRow(async (dash, { folder, mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    await dash.grant(sub, 'interact', folder)
    return { path, fields: { principal: sub, right: 'interact', scope: folder, effect: 'allow', sure: 'yes' } }
  }),
  [`${PERSON} join`]: operatorRow(async (dash, { mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    return { path, fields: { subject: sub, role: 'role:member' } }
  }),
  [`${PERSON} leave`]: operatorRow(async (dash, { mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    await dash.cli.call(aclMembershipResource.verbs.add, { subject: sub, role: 'role:member' })
    return { path, fields: { subject: sub, role: 'role:member', sure: 'yes' } }
  }),
  [`${PERSON} end_session`]: operatorRow(async (dash, { mark }) => {
    const { path, session } = await addPerson(dash, mark)
    return { path, fields: { family_id: session } }
  }),
  [`${PERSON} end_sessions`]: operatorRow(async (dash, { mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    return { path, fields: { sub } }
  }),
  [`${PERSON} revoke_bearer`]: operatorRow(async (dash, { mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    return { path, fields: { id: await addBearer(dash, sub) } }
  }),
  [`${PERSON} revoke_bearers`]: operatorRow(async (dash, { mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    await addBearer(dash, sub)
    return { path, fields: { sub } }
  }),
  [`${PERSON} remove_passkey`]: operatorRow(async (dash, { mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    await write(dash, (tx) =>
      passkeys.insert(tx, {
        ...{
          id: mark,
          sub,
          user_handle: mark,
          public_key: Buffer.from('k'),
          counter: 0,
          transports: [],
          name: 'A key',
        },
        ...{ is_backup_eligible: false, is_backed_up: false, created_at: nowOf(dash) },
      }),
    )
    return { path, fields: { id: mark } }
  }),
  [`${PERSON} budget`]: operatorRow(async (dash, { mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    return { path, fields: { sub, daily: '100' } }
  }),
  [`${PERSON} link`]: operatorRow(async (dash, { mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    return { path, fields: { sub: `github:${mark}`, to: sub } }
  }),
  [`${PERSON} unlink`]: operatorRow(async (dash, { mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    const { link } = identitiesResource.verbs
    const { id } = await dash.cli.call(link, { sub })
    await dash.cli.call(link, { sub: `github:${mark}`, id })
    return { path, fields: { sub: `github:${mark}` } }
  }),
  [`${PERSON} sign_in_link`]: operatorRow(async (dash, { mark }) => {
    const { path, sub } = await addPerson(dash, mark)
    return { path, fields: { sub } }
  }, 200),
  '/dash/keys rotate': operatorRow(async () => ({ path: '/dash/keys', fields: {} })),

  [`${folderPath(':folder', 'overview')} set`]: {
    make: async (_, { folder, mark }) => onView('overview', folder, { key: 'name', to: `Name ${mark}` }),
    actsOnPage: true,
  },
  // A form without a file.
  [`${folderPath(':folder', 'overview')} upload_picture`]: {
    make: async (_, { folder }) => onView('overview', folder, {}),
    status: 400,
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'agent')} test_model`]: {
    make: async (_, { folder }) => onView('agent', folder, {}),
    isOffered: false,
    actsOnPage: true,
  },
  // The program that runs on the server is for operators.
  [`${folderPath(':folder', 'agent')} set_model`]: {
    make: async (_, { folder }) =>
      onView('agent', folder, { kind: 'command', command: 'true', untested: 'true' }, '&kind=command'),
    admin: 403,
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'agent')} save_file`]: {
    make: async (dash, { folder, mark }) => {
      const path = `${folderPath(folder, 'agent')}&file=PERSONA.md`
      const page = await (await dash.operator.get(path)).text()
      const [, version = ''] = /name="version" value="([^"]+)"/.exec(page) ?? []
      return { path, fields: { name: 'PERSONA.md', version, content: `Be ${mark}.` } }
    },
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'agent')} create_skill`]: {
    make: async (_, { folder, mark }) => onView('agent', folder, { skill: mark, description: 'Writes the report.' }),
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'agent')} remove_skill`]: {
    make: async (dash, { folder, mark: skill }) => {
      const change = { folder, name: `.claude/skills/${skill}/SKILL.md`, version: 'none', content: 'Reports.' }
      await dash.cli.call(groupsResource.verbs.write_file, change)
      return onView('agent', folder, { folder, skill })
    },
  },
  [`${folderPath(':folder', 'chat')} chat`]: {
    make: async (_, { folder }) => onView('chat', folder, {}),
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'links')} chat`]: {
    make: async (_, { folder, mark }) =>
      onView('links', folder, { target_folder: folder, jid_suffix: mark, tools: 'chat' }),
    status: 200,
  },
  [`${folderPath(':folder', 'links')} webhook`]: {
    make: async (_, { folder, mark }) =>
      onView('links', folder, { target_folder: folder, jid_suffix: mark, source_label: 'ci', tools: 'work' }),
    status: 200,
  },
  [`${folderPath(':folder', 'links')} revoke`]: {
    make: async (dash, { folder, mark }) => onView('links', folder, { jid: await addLink(dash, folder, mark) }),
  },
  [`${folderPath(':folder', 'links')} test`]: {
    make: async (dash, { folder, mark }) => onView('links', folder, { jid: await addLink(dash, folder, mark) }),
  },
  [`${folderPath(':folder', 'links')} replay`]: {
    make: async (dash, { folder, mark }) => {
      const jid = await addLink(dash, folder, mark)
      const { message_id: id } = await dash.cli.call(routeTokensResource.verbs.deliver_test, { jid })
      return onView('links', folder, { id }, `&jid=${encodeURIComponent(jid)}`)
    },
  },
  ...taskRows(folderPath(':folder', 'tasks'), (folder, query) =>
    query === undefined ? folderPath(folder, 'tasks') : `${folderPath(folder, 'tasks')}&${query}`,
  ),
  [`${folderPath(':folder', 'routes')} move`]: {
    make: async (dash, { folder, mark }) => {
      await addRoute(dash, folder, `before-${mark}`)
      return onView('routes', folder, { id: await addRoute(dash, folder, mark), to: 'up' })
    },
  },
  [`${folderPath(':folder', 'routes')} add`]: {
    make: async (_, { folder, mark }) => onView('routes', folder, { match: `room=${mark}`, target: folder, seq: '0' }),
  },
  [`${folderPath(':folder', 'routes')} change`]: {
    make: async (dash, { folder, mark }) => {
      const id = await addRoute(dash, folder, mark)
      return onView('routes', folder, { id, match: `room=changed-${mark}`, target: folder, seq: '1' }, `&route=${id}`)
    },
  },
  [`${folderPath(':folder', 'routes')} remove`]: {
    make: async (dash, { folder, mark }) => onView('routes', folder, { id: await addRoute(dash, folder, mark) }),
  },
  [`${folderPath(':folder', 'web')} publish`]: {
    make: async (_, { folder, mark }) => onView('web', folder, { text: 'Hello.', name: `${mark}.html`, slot: 'pub' }),
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'web')} unpublish`]: {
    make: async ({ cli }, { folder, mark }) => {
      const page = { folder, slot: 'pub', name: `${mark}.html` }
      await cli.call(webRoutesResource.verbs.publish, { ...page, content: '' })
      return onView('web', folder, page)
    },
  },
  [`${folderPath(':folder', 'web')} bind`]: {
    make: async (_, { folder, mark }) => onView('web', folder, { folder, hostname: `${mark}.example.com` }),
    admin: 403,
  },
  [`${folderPath(':folder', 'web')} unbind`]: {
    make: async ({ cli }, { folder, mark }) => {
      const hostname = `${mark}.example.com`
      await cli.call(webHostsResource.verbs.bind, { folder, hostname })
      return onView('web', folder, { hostname })
    },
    admin: 403,
  },
  [`${folderPath(':folder', 'web')} add`]: {
    make: async (_, { folder, mark }) =>
      onView('web', folder, { folder, path_prefix: `/pub/${folder}/${mark}/`, access: 'public' }),
  },
  [`${folderPath(':folder', 'web')} change`]: {
    make: async (dash, { folder, mark }) => {
      const path_prefix = await webRoute(dash, folder, mark)
      return onView('web', folder, { path_prefix, access: 'auth' }, `&path=${encodeURIComponent(path_prefix)}`)
    },
  },
  [`${folderPath(':folder', 'web')} remove`]: {
    make: async (dash, { folder, mark }) => onView('web', folder, { path_prefix: await webRoute(dash, folder, mark) }),
  },
  [`${folderPath(':folder', 'grants')} grant`]: {
    make: async (_, { folder, mark }) =>
      onView('grants', folder, { principal: `github:${mark}`, right: 'interact', scope: folder }),
  },
  [`${folderPath(':folder', 'grants')} ungrant`]: {
    make: async (dash, { folder, mark }) => {
      await dash.grant(`github:${mark}`, 'interact', folder)
      return onView('grants', folder, { principal: `github:${mark}`, right: 'interact', scope: folder, sure: 'yes' })
    },
  },
  [`${folderPath(':folder', 'secrets')} set`]: {
    make: async (_, { folder, mark }) => onView('secrets', folder, { owner: folder, key: keyOf(mark), value: 'v' }),
  },
  [`${folderPath(':folder', 'secrets')} remove`]: {
    make: async ({ cli }, { folder, mark }) => {
      const row = { scope_kind: 'folder', owner: folder, key: keyOf(mark) }
      await cli.call(secretsResource.verbs.create, { ...row, value: 'v' })
      return onView('secrets', folder, row)
    },
  },
  [`${folderPath(':folder', 'network')} allow`]: {
    make: async (_, { folder, mark }) => onView('network', folder, { folder, target: `${mark}.example.com` }),
  },
  [`${folderPath(':folder', 'network')} remove`]: {
    make: async ({ cli }, { folder, mark }) => {
      const row = { folder, target: `${mark}.example.com` }
      await cli.call(networkRulesResource.verbs.allow, row)
      return onView('network', folder, row)
    },
  },
  // Administrators of the folder above set it.
  [`${folderPath(':folder', 'budget')} set_budget`]: {
    make: async (_, { folder }) => onView('budget', folder, { dollars: '5' }),
    admin: 403,
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'sessions')} reset`]: {
    make: async (dash, { folder, mark }) => {
      await addTopic(dash, folder, mark)
      return onView('sessions', folder, { topic: mark, label: mark })
    },
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'sessions')} reset_all`]: {
    make: async (dash, { folder, mark }) => {
      await addTopic(dash, folder, mark)
      return onView('sessions', folder, {})
    },
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'sessions')} fork`]: {
    make: async (dash, { folder, mark }) => {
      await addTopic(dash, folder, mark)
      return onView('sessions', folder, { parent: mark, child: `child of ${mark}` })
    },
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'children')} create_child`]: {
    make: async (_, { folder, mark }) => onView('children', folder, { leaf: `c${mark}`, product: 'assistant' }),
    actsOnPage: true,
  },
  [`${folderPath(':folder', 'remove')} remove`]: {
    make: async (dash, { folder, mark }) => {
      const own = `${folder}/r${mark}`
      await dash.groups(own)
      return onView('remove', own, { typed: own })
    },
  },
}

function keyOf(mark: string): string {
  return `KEY_${mark}`.toUpperCase()
}

async function channelSecret({ cli }: Dashboard, mark: string): Promise<ActionPlace> {
  await cli.call(channelSecretsResource.verbs.add, { name: `a${mark}`, platforms: [`p${mark}`] })
  return { path: '/dash/channels', fields: { name: `a${mark}` } }
}

async function connectAccount({ cli }: Dashboard, mark: string): Promise<string> {
  const account = `telegram-${mark}`
  const secrets = { token: '123456789:a-token-that-nobody-has-0123456789' }
  await cli.call(channelAccountsResource.verbs.add, { account, platform: 'telegram', settings: {}, secrets })
  return account
}

async function proxyRoute({ cli }: Dashboard, mark: string) {
  const route = { path: `/${mark}/`, redirect_to: '/elsewhere', auth: 'operator' }
  await cli.call(proxydRoutesResource.verbs.create, { ...route, strip_prefix: false })
  return route
}

async function webRoute({ cli }: Dashboard, folder: string, mark: string): Promise<string> {
  const path_prefix = `/pub/${folder}/${mark}/`
  await cli.call(webRoutesResource.verbs.create, { folder, path_prefix, access: 'public' })
  return path_prefix
}

async function exportManifest({ operator }: Dashboard): Promise<string> {
  const response = await operator.get('/dash/manifest/download')
  assert.equal(response.status, 200)
  return response.text()
}
