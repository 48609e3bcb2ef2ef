// A dashboard in which every text that someone else can write is hostile: it ends attributes and elements, brings a script, and
// loads something. Rows are inserted below the checks of the verbs, so that pages do not depend on them.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { acl, aclMembership } from '../../src/core/access/acl.ts'
import { holdForApproval, pendingActions } from '../../src/core/access/approvals.ts'
import { issuedBearers } from '../../src/core/access/issued-bearers.ts'
import { networkDenials } from '../../src/core/access/network-denials.ts'
import { channelRegistrations } from '../../src/core/delivery/channel-registrations.ts'
import { recordOutbound } from '../../src/core/delivery/outbox.ts'
import { groups } from '../../src/core/groups/groups.ts'
import { groupDirs } from '../../src/core/layout.ts'
import { proxydRoutes } from '../../src/core/links/proxyd-routes.ts'
import { routeTokens } from '../../src/core/links/route-tokens.ts'
import { webHosts } from '../../src/core/links/web-hosts.ts'
import { webRoutes } from '../../src/core/links/web-routes.ts'
import { messageRetries } from '../../src/core/messages/message-retries.ts'
import { accounts } from '../../src/core/people/accounts.ts'
import { invites } from '../../src/core/people/invites.ts'
import { onboarding } from '../../src/core/people/onboarding.ts'
import { onboardingGates } from '../../src/core/people/onboarding-gates.ts'
import { passkeys } from '../../src/core/people/passkeys.ts'
import { sessions } from '../../src/core/people/sessions.ts'
import { routes } from '../../src/core/routing/routes.ts'
import { taskRunLogs } from '../../src/core/schedule/tasks.ts'
import { channelSecrets } from '../../src/core/secrets/channel-secrets.ts'
import { secrets } from '../../src/core/secrets/secrets.ts'
import { conversations, sessionLog } from '../../src/core/turns/conversations.ts'
import { recordCost } from '../../src/core/turns/costs.ts'
import { writeContextOf } from '../../src/core/turns/rounds.ts'
import { turnLogFile } from '../../src/core/turns/turn-log-files.ts'
import { folderViews } from '../../src/daemons/dashd/folder/index.ts'
import { folderPath } from '../../src/daemons/dashd/page.ts'
import { pages } from '../../src/daemons/dashd/pages/index.ts'
import { audit } from '../../src/registry/audit.ts'
import { resources } from '../../src/resources/index.ts'
import { scheduledTasksResource } from '../../src/resources/scheduled-tasks.ts'
import type { Tx } from '../../src/store/engine.ts'
import { type ConversationHost, openConversationHost } from './conversation-host.ts'
import { type Dashboard, OPERATOR, serveDashboard, TEAM_ADMIN } from './dashboard.ts'
import { run } from './sql.ts'

const END = `"'><img src=x onerror=hacked()>`
const MORE = `<script>hacked()</script></textarea></title></pre><b hx-get="/hacked" hx-trigger="load">\${hacked()}`
/** What a browser shows as a link, and must not follow. */
export const SCRIPT_URL = 'javascript:hacked()'

/** Parameters of the queries of pages, and of folder views. */
const PAGE_PARAMETERS = [
  ...['q', 'search', 'folder', 'state', 'outcome', 'direction', 'chat', 'sender', 'since', 'until', 'after', 'limit'],
  ...['task', 'path', 'jid', 'kind', 'edit', 'by', 'days', 'sub', 'principal', 'category', 'actor', 'only', 'view'],
]
const VIEW_PARAMETERS = ['after', 'task', 'route', 'path', 'jid', 'message', 'topic', 'history', 'file', 'kind']

export interface HostileDashboard extends Dashboard {
  /** The names of the texts. Each text begins with its name. */
  readonly names: readonly string[]
  /** Pages that show all of them, with the parameters of rows. */
  readonly paths: readonly string[]
  /** The same pages with hostile parameters. */
  readonly reflecting: readonly string[]
}

/** Collects the names of the texts that it makes. */
class HostileTexts {
  readonly names: string[] = []

  of(name: string): string {
    return `${this.short(name)}${MORE}`
  }

  /** Without slashes, for names of files. */
  short(name: string): string {
    assert.ok(!this.names.includes(name), name)
    this.names.push(name)
    return `${name}${END}`
  }
}

export async function serveHostileDashboard(t: TestContext): Promise<HostileDashboard> {
  const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
  const on = await openConversationHost(t, 'sqlite', { ...dash, operator: async () => {} })
  const texts = new HostileTexts()
  const chat = `web:team/${texts.of('link-suffix')}`
  const failed = await failTurn(on, texts, chat)
  const running = await runTurn(on, texts)
  const sent = await failDelivery(on, texts)
  const task = await addTask(on, texts)
  const topic = texts.of('conversation')
  await on.write(async (tx) => {
    await addAudit(tx, on, texts)
    await addFolderRows(tx, texts, { chat, topic })
    await addPeople(tx, on, texts)
    await addInstanceRows(tx, on, texts)
  })
  await addFiles(on, texts)
  const views = folderViews.map(({ name }) => folderPath('team', name))
  const query = (name: string, value: string): string => `${name}=${encodeURIComponent(value)}`
  const listed = pages.flatMap(({ path, nav }) => (nav === undefined ? [] : [path]))
  const own = [
    ...listed,
    ...views,
    ...[failed, running, sent].map((id) => `/dash/messages/${id}`),
    ...[failed, running].map((id) => `/dash/turns/${id}`),
    ...['/dash/messages?direction=all', '/dash/channels?kind=waiting', '/dash/search?q=team'],
    ...['model', 'user_sub', 'day'].map((by) => `/dash/costs?by=${by}`),
    ...['all', 'gates'].map((view) => `/dash/admissions?view=${view}`),
    `/dash/tasks?${query('task', task)}`,
    `${folderPath('team', 'tasks')}&${query('task', task)}`,
    `${folderPath('team', 'links')}&${query('jid', chat)}`,
    `${folderPath('team', 'links')}&${query('message', failed)}`,
    `${folderPath('team', 'sessions')}&history=1&${query('topic', topic)}`,
    `${folderPath('team', 'agent')}&file=PERSONA.md`,
    `${folderPath('team', 'routes')}&route=1`,
    `/dash/access?folder=team`,
    `/dash/access?folder=team&${query('principal', TEAM_ADMIN)}`,
    ...[OPERATOR, TEAM_ADMIN].map((sub) => `/dash/person?${query('sub', sub)}`),
    ...resources.map(({ name }) => `/dash/resources/${name}`),
  ]
  const value = `typed${END}${MORE}`
  const reflecting = [
    ...[...listed, '/dash/person', '/dash/search', '/dash/resources/groups', folderPath('team')].flatMap((path) =>
      PAGE_PARAMETERS.map((name) => `${path}?${query(name, value)}`),
    ),
    ...views.flatMap((path) => VIEW_PARAMETERS.map((name) => `${path}&${query(name, value)}`)),
    `/dash/messages/${encodeURIComponent(value)}`,
    `/dash/turns/${encodeURIComponent(value)}`,
    `/dash/folders/${encodeURIComponent(value)}`,
    `/dash/resources/${encodeURIComponent(value)}`,
  ]
  return { ...dash, names: texts.names, paths: own, reflecting }
}

async function failTurn(on: ConversationHost, texts: HostileTexts, jid: string): Promise<string> {
  const id = await on.ask(texts.of('message-text'), {
    ...{ folder: 'team', jid, sender: texts.of('sender'), topic: texts.of('topic'), event: texts.of('event') },
    link_context: texts.of('link-context'),
    envelope: {
      ...{ verb: texts.of('verb'), depth: 0, sender_name: texts.of('sender-name') },
      reply_to_text: texts.of('quoted-text'),
    },
  })
  const { turn } = await on.mustClaim()
  await on.say(turn, texts.of('answer'))
  await on.submit('team', {
    turn_id: id,
    models: [{ model: texts.of('model'), input_tokens: 1, output_tokens: 1, cost_cents: 90 }],
  })
  const at = '2026-01-01T00:00:00.000Z'
  await on.write(async (tx) => {
    await audit.append(tx, {
      ...{
        created_at: at,
        category: 'authz',
        action: texts.of('tool'),
        actor: 'folder:team',
        resource: 'tools',
        key: '',
      },
      ...{ surface: 'tool', params_summary: texts.of('tool-arguments'), outcome: 'denied', instance: 'test' },
      ...{ error_msg: texts.of('tool-error'), duration_ms: 1, folder: 'team', turn_id: id },
    })
    await messageRetries.insert(tx, {
      ...{ message_seq: turn.last_seq, number: 1, state: 'failed', reason: texts.of('earlier-failure'), turn_id: id },
      ...{ ended_at: at, retried_at: at, retried_by: texts.of('retried-by') },
    })
  })
  await on.end(turn, { outcome: 'failed', reason: texts.of('failure'), publicReason: texts.of('public-failure') })
  const { layout } = on.host
  assert.ok(layout)
  const file = turnLogFile(groupDirs(layout, 'team'), id, on.clock.now())
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${texts.of('log-line')}\n`)
  return id
}

async function runTurn(on: ConversationHost, texts: HostileTexts): Promise<string> {
  on.clock.advance(10)
  const envelope = { verb: 'message', depth: 0, source: texts.of('channel') }
  const jid = `telegram:${texts.of('room')}`
  const id = await on.ask(texts.of('running-text'), {
    folder: 'team',
    jid,
    hasRound: false,
    envelope,
    target_folder: undefined,
  })
  const { turn } = await on.mustClaim()
  await on.say(turn, texts.of('running-step'), { kind: 'status' })
  return id
}

async function failDelivery(on: ConversationHost, texts: HostileTexts): Promise<string> {
  const { host } = on
  const message = { jid: 'telegram:1', topic: '', folder: 'team', content: texts.of('undelivered-text') }
  return on.write(async (tx) => {
    const { id } = await recordOutbound(tx, writeContextOf(host), host.rules, message)
    const changes = [texts.of('delivery-error'), texts.of('platform-id'), id]
    await run(tx, `update outbox set state = 'failed', error = $1, platform_id = $2 where id = $3`, changes)
    return id
  })
}

async function addTask({ cli, write }: ConversationHost, texts: HostileTexts): Promise<string> {
  const { schedule } = scheduledTasksResource.verbs
  const { taskId: id } = await cli.call(schedule, {
    targetJid: 'team',
    prompt: texts.of('task-prompt'),
    cron: '0 9 * * *',
  })
  await write(async (tx) => {
    await run(tx, 'update scheduled_tasks set chat_jid = $1, topic = $2, cron = $3 where id = $4', [
      ...[texts.of('task-chat'), texts.of('task-topic'), texts.of('task-schedule'), id],
    ])
    const once = { task_id: id, run_at: '2026-01-01T00:00:00.000Z', duration_ms: 1 }
    await taskRunLogs.insert(tx, { ...once, id: 'run-1', status: 'success', result: texts.of('task-result') })
    await taskRunLogs.insert(tx, { ...once, id: 'run-2', status: 'error', error: texts.of('task-error') })
  })
  return id
}

async function addAudit(tx: Tx, { host }: ConversationHost, texts: HostileTexts): Promise<void> {
  const at = '2026-01-01T00:00:00.000Z'
  await audit.append(tx, {
    ...{ created_at: at, category: 'mutation', action: texts.of('audit-action'), actor: texts.of('audit-actor') },
    ...{ resource: 'groups', key: texts.of('audit-key'), surface: 'dash', params_summary: texts.of('audit-details') },
    ...{ outcome: 'ok', duration_ms: 1, instance: 'test' },
  })
  await audit.append(tx, {
    ...{ created_at: at, category: 'authz', action: 'x.y', actor: 'x:y', resource: 'groups', key: '', surface: 'dash' },
    ...{ params_summary: '', outcome: 'denied', error_msg: texts.of('audit-error'), duration_ms: 1, instance: 'test' },
  })
  const call = { folder: 'team', tool: texts.of('held-tool'), args_hash: 'a', summary: texts.of('held-arguments') }
  await holdForApproval(tx, host, { ...call, jid: texts.of('held-chat') })
  await pendingActions.insert(tx, {
    ...{ id: 'decided', folder: 'team', tool: 'send', args_hash: 'b', summary: texts.of('decided-arguments') },
    ...{ status: 'rejected', decided_by: texts.of('decided-by'), held_at: at, updated_at: at },
  })
}

async function addFolderRows(
  tx: Tx,
  texts: HostileTexts,
  { chat, topic }: { chat: string; topic: string },
): Promise<void> {
  const created_at = '2026-01-01T00:00:00.000Z'
  const config = JSON.stringify({ runtime: 'openai', model: texts.of('model-setting') })
  await groups.update(tx, { folder: 'team' }, { name: texts.of('folder-name'), product: texts.of('product'), config })
  for (const [at, reason] of ['blocked-by-allowlist', texts.of('denial-reason')].entries())
    await networkDenials.insert(tx, {
      ...{ folder: 'team', host: texts.of(`denied-host-${at}`), sni: '', port: 443, reason, count: 1 },
      ...{ first_at: created_at, last_at: created_at },
    })
  await routes.append(tx, {
    id: 1,
    seq: 1,
    match: `room=${texts.short('route-match').replaceAll(' ', '/')}`,
    target: 'team',
  })
  await routeTokens.insert(tx, {
    ...{ token_hash: Buffer.from('hash'), jid: chat, owner_folder: 'team', target_folder: 'team', created_at },
    ...{ context: texts.of('link-row-context'), verify: texts.of('signature-scheme') },
  })
  await webRoutes.insert(tx, {
    ...{
      path_prefix: `/pub/team/${texts.of('web-path')}`,
      access: 'redirect',
      redirect_to: SCRIPT_URL,
      folder: 'team',
    },
    created_at,
  })
  await webHosts.insert(tx, { hostname: texts.of('web-host'), folder: 'team' })
  await conversations.insert(tx, {
    ...{ folder: 'team', topic, waiting: 0, observed_seq: 0, updated_at: created_at, session_id: 's' },
    parent_topic: texts.of('parent-topic'),
  })
  await sessionLog.append(tx, {
    ...{ folder: 'team', topic, event: 'turn', message_count: 1, error: texts.of('session-error') },
    ...{ started_at: created_at, ended_at: created_at },
  })
  await secrets.insert(tx, {
    ...{ scope_kind: 'folder', owner: 'team', key: texts.of('folder-secret'), value: Buffer.from('v'), created_at },
  })
  await acl.insert(tx, {
    ...{ principal: texts.of('principal'), action: texts.of('right'), scope: 'team', effect: 'allow', params: '' },
    ...{ predicate: '', granted_by: texts.of('granted-by'), granted_at: created_at },
  })
  await recordCost(tx, undefined, {
    ...{
      folder: 'team',
      turn_id: 'x',
      model: 'm',
      user_sub: texts.of('cost-person'),
      input_tokens: 1,
      output_tokens: 1,
    },
    ...{ cost_cents: 1, recorded_at: created_at },
  })
}

async function addPeople(tx: Tx, { clock }: ConversationHost, texts: HostileTexts): Promise<void> {
  const at = new Date(clock.now()).toISOString()
  const later = '2030-01-01T00:00:00.000Z'
  await accounts.update(tx, { sub: TEAM_ADMIN }, { name: texts.of('person-name'), email: texts.of('person-email') })
  await accounts.insert(tx, {
    ...{ sub: `evil:${texts.of('account')}`, issuer: texts.of('issuer'), subject: 'x', email_verified: false },
    created_at: at,
  })
  await aclMembership.insert(tx, {
    ...{ subject: TEAM_ADMIN, role: texts.of('role'), added_by: texts.of('added-by'), added_at: at },
  })
  await acl.insert(tx, {
    ...{ principal: TEAM_ADMIN, action: texts.of('person-right'), scope: texts.of('person-scope'), effect: 'allow' },
    ...{ params: texts.of('condition'), predicate: texts.of('claim'), granted_by: 'x', granted_at: at },
  })
  for (const sub of [OPERATOR, TEAM_ADMIN]) {
    const of = (name: string): string => texts.of(`${name}-of-${sub.slice(7)}`)
    await sessions.insert(tx, {
      ...{
        family_id: `family-${sub}`,
        sub,
        scope: '',
        started_at: at,
        renewed_at: at,
        expires_at: later,
        rotations: 0,
      },
      ...{ status: 'active', kind: 'browser', name: of('browser'), method: of('method'), idle_ms: 1, ends_at: later },
      address: of('address'),
    })
    await issuedBearers.insert(tx, {
      ...{ id: `bearer-${sub}`, sub, kind: 'user', name: of('bearer'), folder: of('bearer-folder'), created_at: at },
      ...{ created_by: 'x', expires_at: later },
    })
    await passkeys.insert(tx, {
      ...{ id: `key-${sub.slice(7)}`, sub, user_handle: 'h', public_key: Buffer.from('k'), counter: 0, transports: [] },
      ...{ name: of('passkey'), is_backup_eligible: false, is_backed_up: false, created_at: at },
    })
  }
  await secrets.insert(tx, {
    ...{ scope_kind: 'user', owner: OPERATOR, key: texts.of('own-secret'), value: Buffer.from('v'), created_at: at },
  })
  await invites.insert(tx, {
    ...{ token_hash: Buffer.from('invite'), token_id: texts.of('invite'), target_glob: texts.of('invited-to') },
    ...{ issued_by_sub: texts.of('invited-by'), issued_at: at, max_uses: 1, used_count: 0 },
  })
  const request = { status: 'queued', created: at, queued_at: at, attempts: 0 } as const
  await onboarding.insert(tx, {
    ...{
      ...request,
      jid: texts.of('asking-chat'),
      user_sub: texts.of('asking-person'),
      folder: texts.of('asked-folder'),
    },
    position: 1,
  })
  await onboarding.insert(tx, { ...request, jid: 'telegram:2', gate: texts.of('admitting-gate'), position: 2 })
  await onboardingGates.insert(tx, { spec: texts.of('gate'), daily_limit: 1, enabled: true })
}

async function addInstanceRows(tx: Tx, { clock }: ConversationHost, texts: HostileTexts): Promise<void> {
  const at = new Date(clock.now()).toISOString()
  await channelRegistrations.insert(tx, {
    ...{ name: texts.of('adapter'), url: texts.of('adapter-address'), jid_prefixes: [`${texts.of('platform')}:`] },
    ...{ capabilities: { [texts.of('capability')]: true }, token_hash: Buffer.from('t'), health_fails: 1 },
    ...{ checked_at: clock.now(), registered_at: at, seen_at: at },
  })
  await channelSecrets.insert(tx, {
    ...{ name: texts.of('adapter-secret'), platforms: [texts.of('secret-platform')], secret_hash: Buffer.from('s') },
    ...{ created_at: at, created_by: texts.of('secret-creator') },
  })
  await proxydRoutes.insert(tx, {
    ...{ path: `/${texts.of('proxy-path')}/`, redirect_to: SCRIPT_URL, auth: 'operator' },
    ...{ gated_by: texts.of('proxy-setting'), preserve_headers: [texts.of('proxy-header')] },
  })
  const columns = 'folder, name, source, revision, installed_at, manifest'
  await run(tx, `insert into installed_packages (${columns}) values ('', $1, $2, $3, $4, $5)`, [
    ...[texts.of('package'), texts.of('package-source'), texts.of('package-revision'), at],
    JSON.stringify({ [texts.of('package-part')]: [texts.of('package-member')] }),
  ])
}

async function addFiles({ host }: ConversationHost, texts: HostileTexts): Promise<void> {
  const { layout } = host
  assert.ok(layout)
  const { home } = groupDirs(layout, 'team')
  writeFileSync(join(home, 'PERSONA.md'), `</textarea>${texts.of('persona')}`)
  const skill = join(home, '.claude', 'skills', texts.short('skill'))
  mkdirSync(skill, { recursive: true })
  writeFileSync(join(skill, 'SKILL.md'), `---\ndescription: ${texts.of('skill-description')}\n---\n`)
  const published = join(layout.webPub, 'team')
  mkdirSync(published, { recursive: true })
  writeFileSync(join(published, texts.short('published-file')), 'x')
}
