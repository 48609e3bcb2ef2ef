// Runs every SQL statement of src/ on both engines: most in a busy instance, the rest by the command line and direct calls.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { handleSubmitStatus } from '../src/agent-socket/submit-status.ts'
import { followAnswer } from '../src/cli/output/sandbox-room.ts'
import type { Caller } from '../src/core/access/caller.ts'
import { recordDenials } from '../src/core/access/network-denials.ts'
import { readChatPage } from '../src/core/chats/chat-page.ts'
import { updateTopicStart } from '../src/core/chats/chat-topics.ts'
import { resolveChatJid } from '../src/core/chats/folder-chat.ts'
import { createBranch, planBranch } from '../src/core/chats/topic-branches.ts'
import { findListedTopic, listTopics, listVersions } from '../src/core/chats/topic-list.ts'
import {
  beginTopicRemoval,
  finishTopicRemovals,
  mustBeIdle,
  mustFindConversation,
  topicRemovals,
} from '../src/core/chats/topic-removal.ts'
import { bumpConfigVersion } from '../src/core/config-version.ts'
import { leaseAccount, releaseAccounts } from '../src/core/delivery/channel-accounts.ts'
import { claimHealthChecks } from '../src/core/delivery/channel-registrations.ts'
import {
  claimOutbox,
  findTargetFolder,
  hasOutboundInTopic,
  outbox,
  type RecordedOutbound,
  recordOutbound,
  setDeliveryAside,
} from '../src/core/delivery/outbox.ts'
import { postInRoom } from '../src/core/delivery/sandbox-rooms.ts'
import { hasDueSuspect, noteDueSuspect } from '../src/core/delivery/suspect-deliveries.ts'
import { ChatFileWriter } from '../src/core/files/chat-file-writer.ts'
import { addChatFiles } from '../src/core/files/chat-files.ts'
import { removeStrayFiles } from '../src/core/files/stray-files.ts'
import { childNames, countDescendants, groups } from '../src/core/groups/groups.ts'
import { endEarlierAnswers } from '../src/core/links/answer-targets.ts'
import { deleteIdempotencyKeys } from '../src/core/links/idempotency-keys.ts'
import { findNearlyFull, forgetChatBytes, subtractMovedBytes } from '../src/core/links/storage-use.ts'
import { visitorPart } from '../src/core/links/visitor-chats.ts'
import { storeFetchedMessages } from '../src/core/messages/fetched-messages.ts'
import { recordInbound } from '../src/core/messages/inbound.ts'
import { listAnsweredIds } from '../src/core/messages/inbox.ts'
import { findReceivedMessage, listLinkDeliveries } from '../src/core/messages/link-deliveries.ts'
import { readArrivalFrom, readListedByIds } from '../src/core/messages/message-list.ts'
import { listIdsWithPrefix, listMessageStates, readMessageDetails } from '../src/core/messages/message-states.ts'
import { MessageTracer } from '../src/core/messages/message-tracer.ts'
import { viewMessages } from '../src/core/messages/message-view.ts'
import { receiveFromPlatform } from '../src/core/messages/platform-inbound.ts'
import { removeMessages } from '../src/core/messages/retention.ts'
import { checkClock, findHeldRemoval } from '../src/core/messages/retention-clock.ts'
import { linkedAccounts } from '../src/core/people/accounts.ts'
import { DEVICE_CODES } from '../src/core/people/device-codes.ts'
import { findIdentityName } from '../src/core/people/identities.ts'
import { REGISTRATIONS } from '../src/core/people/oauth-clients.ts'
import { OPEN_ROWS_MAX, onboarding } from '../src/core/people/onboarding.ts'
import { countAhead } from '../src/core/people/onboarding-requests.ts'
import { openPairing } from '../src/core/people/pairing-codes.ts'
import { takeChallenge } from '../src/core/people/passkeys.ts'
import { createSession } from '../src/core/people/sessions.ts'
import { makeRoom } from '../src/core/people/unused-rows.ts'
import { noteNextSuspect } from '../src/core/processes/suspects.ts'
import { findEarlierSystem } from '../src/core/prompt/prompt-parts.ts'
import { findEngagedFolder } from '../src/core/routing/chat-owner.ts'
import { planChatRoutes } from '../src/core/routing/chat-routes.ts'
import { engage, findLastReplyId } from '../src/core/routing/engagements.ts'
import { listUnrouted, setMessageAside } from '../src/core/routing/unrouted-messages.ts'
import { dueTasks, recordTaskTurn, setTaskAside } from '../src/core/schedule/task-firing.ts'
import { expireLeases, leaseDueTasks } from '../src/core/schedule/task-leases.ts'
import { firstRunAt, removeUnusedRates } from '../src/core/schedule/task-rates.ts'
import { countTasks, lastRuns, removeOldestCompleted } from '../src/core/schedule/tasks.ts'
import { takeBudgetNotice } from '../src/core/turns/budget.ts'
import { forceNewSession } from '../src/core/turns/conversations.ts'
import { sumSpentToday } from '../src/core/turns/costs.ts'
import {
  findResentTopic,
  hasTopicMessages,
  keepResendDigest,
  readTokensOfRound,
} from '../src/core/turns/resent-conversations.ts'
import { writeContextOf } from '../src/core/turns/rounds.ts'
import {
  claimTurn,
  explainMissingWorkspace,
  listDueSuspects,
  listFoldersWithOpenBreaker,
  listUnexplainedFolders,
} from '../src/core/turns/turn-claim.ts'
import { TurnCost } from '../src/core/turns/turn-cost.ts'
import { findLastAnswer, listTurnIdsWithPrefix, listTurns } from '../src/core/turns/turn-list.ts'
import { releaseTurn, stopTurns, type Turn } from '../src/core/turns/turns.ts'
import { openDaemon } from '../src/daemons/daemon.ts'
import { dashd } from '../src/daemons/dashd/daemon.ts'
import { folderViews } from '../src/daemons/dashd/folder/index.ts'
import { folderPath } from '../src/daemons/dashd/page.ts'
import { pages } from '../src/daemons/dashd/pages/index.ts'
import { readStoreContents } from '../src/daemons/doctor/store-checks.ts'
import { openPeers } from '../src/daemons/http/peers.ts'
import { sessionCookieName } from '../src/daemons/http/session-cookie.ts'
import { listIdleCaps } from '../src/daemons/models/shared-models.ts'
import { enterProcess } from '../src/daemons/process/process-entry.ts'
import { storeHealthCheck } from '../src/daemons/process/store-health.ts'
import { routeBatch } from '../src/daemons/routd/router.ts'
import { timestamp, uuidv7 } from '../src/lib/clock.ts'
import { openLog } from '../src/lib/log/log.ts'
import { processIdentity } from '../src/lib/process-identity.ts'
import type { InstanceHost } from '../src/registry/context.ts'
import { accountsResource } from '../src/resources/accounts.ts'
import { bearersResource } from '../src/resources/bearers.ts'
import { groupsResource } from '../src/resources/groups.ts'
import { inboxResource } from '../src/resources/inbox.ts'
import { resources } from '../src/resources/index.ts'
import { invitesResource } from '../src/resources/invites.ts'
import { oauthClientsResource } from '../src/resources/oauth-clients.ts'
import { runBusyInstance } from './support/busy-instance.ts'
import { demoCliOn } from './support/cli.ts'
import { type ConversationHost, LEASE_MS, openConversationHost } from './support/conversation-host.ts'
import { type EngineName, onEveryEngine, type TestHost, testHost } from './support/host.ts'
import { openOnboardingTest } from './support/onboarding.ts'
import { findStatementSites, recordStatementSites } from './support/statement-sites.ts'

const DAY_MS = 24 * 3_600_000
const ROOM = 'telegram:group/1'
const ONBOARDING_ROW = { status: 'awaiting_message', created: '2026-01-01T00:00:00.000Z', attempts: 0 } as const

/** Statements for only one engine. */
const ONLY_ON: Readonly<Record<EngineName, RegExp>> = { sqlite: /'pragma /, postgres: /notifySql|lockSql|sizeSql/ }

async function useCommandLine(t: TestContext, engine: EngineName): Promise<void> {
  const cli = await demoCliOn(t, engine)
  await cli.ok('sandbox demo say lobby mia hello')
  await cli.ok('sandbox demo rooms')
  await cli.ok('export demo -')
  await cli.run('doctor demo')
  await cli.ok('channel demo status')
  for (const which of ['', ' --waiting']) await cli.ok(`channel demo undelivered${which}`)
  await cli.run('send demo main hello')
}

async function callDirectly(t: TestContext, engine: EngineName, on: TestHost): Promise<void> {
  const { host, clock } = on
  const talk = await openConversationHost(t, engine, on)
  const { write, read } = talk
  const context = writeContextOf(host)
  const now = clock.now()
  const at = timestamp(now)

  await write(bumpConfigVersion)
  const keep = { KEEP_MESSAGES: 1, KEEP_TURNS: 1, KEEP_AUDIT: 1 }
  await read((tx) => readStoreContents(tx, { quotas: { chat: 1, folder: 1 }, keep, timeZone: 'UTC', nowMs: 0 }))
  await write((tx) => checkClock(tx, now, 0))
  await read((tx) => findHeldRemoval(tx, now + 10 * 3_600_000, keep))
  await write((tx) => recordDenials(tx, [{ folder: 'main', host: 'a.example', reason: 'denied', count: 1, at }]))
  await read((tx) => readChatPage(tx, { jid: 'web:main', limit: 5, before: { at, fine: 0 }, topic: 'a' }))
  await read((tx) => resolveChatJid(tx, 'main'))
  const first = { jid: ROOM, topic: 'a', message_seq: 1 }
  for (const content of ['new', ''])
    await write((tx) => updateTopicStart(tx, { ...first, content: Buffer.from(content) }))
  const digest = new Uint8Array(32)
  await write((tx) => keepResendDigest(tx, 'none', digest))
  await read((tx) => findResentTopic(tx, 'web:main', digest))
  await read((tx) => hasTopicMessages(tx, 'web:main', 'a'))
  await read((tx) => readTokensOfRound(tx, 'none'))
  const fromClient = { jid: 'web:main', topic: 'a', seq: 1, client_context: { system: 'x' } }
  await read((tx) => findEarlierSystem(tx, fromClient))
  await read((tx) => countDescendants(tx, 'main'))
  await read((tx) => childNames(tx, 'main'))
  await read((tx) => linkedAccounts(tx, 'local:me'))
  await on.cli.call(accountsResource.verbs.list, { search: 'me' })
  await on.cli.call(bearersResource.verbs.revoke_all, { sub: 'local:me' })
  await read((tx) => findIdentityName(tx, 'local:me'))
  await write((tx) => deleteIdempotencyKeys(tx, at))
  await write((tx) => claimHealthChecks(tx, { now, everyMs: 1 }))
  await read((tx) => findNearlyFull(tx, { chat: 1, folder: 1 }, 0.5))
  await write((tx) => subtractMovedBytes(tx, 1, 1))
  await read((tx) => listIdsWithPrefix(tx, '0', 5))
  await read((tx) => listMessageStates(tx, { limit: 5 }))
  await read((tx) => viewMessages(tx, [1, 2]))
  await read((tx) => planChatRoutes(tx, 'telegram:group/2', 'main'))
  await read((tx) => findLastReplyId(tx, 'web:main', ''))
  await read((tx) => hasOutboundInTopic(tx, ROOM, 'a'))
  await read((tx) => listFoldersWithOpenBreaker(tx, now))
  await read((tx) => listUnexplainedFolders(tx, ['main']))
  await host.engine.transaction((tx) => explainMissingWorkspace(tx, 'main'))
  const fetched = { id: 'f1', sender: 'telegram:user/1', content: 'earlier', timestamp: at }
  await write((tx) =>
    storeFetchedMessages(tx, context, { jid: ROOM, folder: 'main', source: 'teled', messages: [fetched] }),
  )

  await write((tx) => recordTaskTurn(tx, { id: 'none', task_id: 'none', started_at: at }, { outcome: 'answered' }))
  await read((tx) => lastRuns(tx, 'none', 5))
  await read((tx) => countTasks(tx, 'main', ['active']))
  await write((tx) => removeOldestCompleted(tx, 'main', 1))
  await read((tx) => dueTasks(tx, now + DAY_MS, 5))
  await write((tx) => leaseDueTasks(tx, { now: now + DAY_MS, forMs: 1, limit: 5 }))
  await write((tx) => expireLeases(tx, now + 2 * DAY_MS))
  await read((tx) => firstRunAt(tx, { rate: 'none', interval_ms: 1, burst: 1 }, now, now))
  await write((tx) => removeUnusedRates(tx, now))

  await write((tx) => engage(tx, { jid: ROOM, topic: '', folder: 'main', until: now + DAY_MS }))
  await read((tx) => findEngagedFolder(tx, { jid: ROOM, chat_topic: '', now, routedFolder: 'main/child' }))
  const message = {
    jid: ROOM,
    sender: 'telegram:user/1',
    source: 'teled',
    content: '/ping',
    platform_id: 'new',
    reply_to_id: 'unknown',
  }
  await on.operator('telegram:user/1')
  await write((tx) => receiveFromPlatform(tx, context, message))
  await write((tx) => routeBatch(tx, { host, assistantName: 'svc' }))
  const post = { jid: 'hook:main/ci', sender: 'ci', target_folder: 'main', content: 'posted', reach: 'work' } as const
  await write((tx) => recordInbound(tx, context, post))
  const tracer = new MessageTracer({ add: () => {} })
  await write((tx) => routeBatch(tx, { host: { ...host, tracer }, assistantName: 'svc' }))
  const { id: unrouted } = await write((tx) => recordInbound(tx, context, post))
  await loseProcess(host)
  await write((tx) => setMessageAside(tx, context, unrouted, 'it broke'))

  await callTurns(talk)
  const receipt = await write((tx) => postInRoom(tx, context, { room: 'lobby', person: 'mia', content: 'hello' }))
  await followAnswer(host, receipt, { signal: AbortSignal.timeout(300), show: () => {} })
}

/** A process ends unexpectedly, and its suspects are handled. */
async function loseProcess(host: InstanceHost): Promise<void> {
  await enterProcess(host, ['routd', 'timed'], { ...processIdentity(), start: '1' })
  const { id, leave } = await enterProcess(host, [])
  await host.engine.transaction((tx) => noteNextSuspect(tx, 'routing', id))
  await host.engine.read(listUnrouted)
  await host.engine.transaction((tx) => setTaskAside(tx, writeContextOf(host), 'none', 'it broke'))
  await host.engine.read((tx) => hasDueSuspect(tx, host.clock.now()))
  await host.engine.transaction((tx) => noteDueSuspect(tx, host.clock.now(), id))
  await host.engine.transaction((tx) => setDeliveryAside(tx, host, 'none', 'it broke'))
  await host.engine.read((tx) => listDueSuspects(tx, host.rules, { now: host.clock.now(), leaseMs: LEASE_MS }))
  await leave()
}

/** A client registers, a person allows it, and it refreshes. */
async function callOauth({ host, as, cli }: TestHost): Promise<void> {
  const { allow, exchange_code, refresh, register, request_device } = oauthClientsResource.verbs
  const target = { client_name: 'A client', aud: 'svc:test', scope: 'account' }
  const redirect_uri = 'http://localhost/cb'
  const registration = { client_name: 'A client', redirect_uris: [redirect_uri], grant_types: ['refresh_token'] }
  const { client_id } = await cli.call(register, registration)
  await cli.call(request_device, { client_id, ...target })
  const code_verifier = 'v'.repeat(43)
  const grant = { client_id, redirect_uri, challenge: hash('sha256', code_verifier, 'base64url'), ...target }
  const { code } = await as({ kind: 'person', sub: 'local:ada', session: 's' }).call(allow, grant)
  const { refresh_token } = await cli.call(exchange_code, { client_id, redirect_uri, code, code_verifier })
  await cli.call(refresh, { client_id, refresh_token, is_allowed: true })
  await host.engine.transaction((tx) => takeChallenge(tx, 'challenge', 2, 1))
  // Without a session it is refused, which is audited.
  await assert.rejects(as({ kind: 'person', sub: 'local:ada' }).call(allow, grant))
  const pending = { ...REGISTRATIONS, unused: 'true', max: 1, networkMax: 0 }
  for (const rows of [pending, { ...DEVICE_CODES, max: 1, networkMax: 0 }])
    await host.engine.transaction((tx) => makeRoom(tx, rows, ''))
}

async function callTurns({ host, clock, ...talk }: ConversationHost): Promise<void> {
  const { write, read } = talk
  const at = timestamp(clock.now())
  const claim = (shiftMs: number, workspaces = { has: () => true, missing: (): string[] => [] }) =>
    write((tx) => claimTurn(tx, host.rules, { now: clock.now() + shiftMs, leaseMs: LEASE_MS, workspaces }))

  await talk.groups('team')
  await talk.cli.call(groupsResource.verbs.activity, {})
  await talk.ask()
  await claim(0, { has: () => false, missing: () => ['elsewhere'] })
  const { turn } = await talk.mustClaim()
  await claim(-DAY_MS)
  await write((tx) => releaseTurn(tx, turn))
  const again = await talk.mustClaim()
  assert.equal(again.turn.id, turn.id)
  await write((tx) => stopTurns(tx, { folder: 'main' }))
  await write((tx) => groups.update(tx, { folder: 'main' }, { cost_cap_cents_per_day: 1 }))
  await write((tx) => takeBudgetNotice(tx, again.turn, at))
  const cost = new TurnCost(again.turn)
  cost.report([{ model: 'm', input: 1, output: 1, cents: 0.5 }])
  await write((tx) => cost.book(tx, undefined, at))
  await read((tx) => sumSpentToday(tx, 'user_sub', 'github:1', at))
  await read((tx) => listIdleCaps(tx, { keyring: host.keyring, sources: [] }))
  await write((tx) => groups.update(tx, { folder: 'main' }, { cost_cap_cents_per_day: undefined }))
  await talk.delegate(again.turn)
  await talk.end(again.turn, { outcome: 'silent' })
  await write((tx) => forceNewSession(tx, 'main', 'a', at))

  await talk.ask('how far?', { jid: ROOM, hasRound: false, conversation: 'b' })
  let inRoom = await talk.mustClaim()
  while (inRoom.turn.jid !== ROOM) inRoom = await talk.mustClaim()
  await handleSubmitStatus(host, inRoom.turn.folder, inRoom.turn, { turn_id: inRoom.turn.id, text: 'half' })
  await talk.say(inRoom.turn, 'hello', { jid: ROOM })
  for (const id of [inRoom.turn.id, 'unknown']) await read((tx) => readMessageDetails(tx, id))
  await useMessages({ ...talk, host, clock }, inRoom.turn)
  for (const shiftMs of [-DAY_MS, DAY_MS])
    await write((tx) => claimOutbox(tx, { now: clock.now() + shiftMs, forMs: 1, limit: 5 }))
}

/** The list, the story and the retries of messages. */
async function useMessages(talk: ConversationHost, turn: Turn): Promise<void> {
  const { list, details, retry } = inboxResource.verbs
  for (const filter of [
    {},
    { sender: 'telegram:user/2' },
    { direction: 'all', until: '2001-01-01T00:00:00Z' },
    { state: 'failed' },
  ])
    await talk.cli.call(list, filter)
  await talk.grant('github:admin', 'admin', 'main/**')
  await talk.as({ kind: 'person', sub: 'github:admin', session: 'a' }, 'dash').call(list, {})
  await talk.cli.call(details, { id: turn.id })
  await talk.read((tx) => readListedByIds(tx, [turn.id]))
  await talk.read((tx) => readArrivalFrom(tx, turn.last_seq))
  const { id } = await talk.say(turn, 'again', { jid: ROOM })
  await talk.write((tx) => outbox.update(tx, { id }, { state: 'failed' }))
  await talk.cli.call(retry, { id })
  await talk.cli.call(list, { direction: 'out' })
  await talk.ask('why not?', { conversation: 'retried' })
  const unlimited = { turnsMax: 99, turnsPerFolder: 99 }
  let next = await talk.mustClaim(unlimited)
  while (next.turn.topic !== 'retried') next = await talk.mustClaim(unlimited)
  await talk.end(next.turn, { outcome: 'failed', reason: 'it broke' })
  await talk.cli.call(retry, { id: next.turn.id })
}

async function useOnboarding(t: TestContext, engine: EngineName): Promise<void> {
  const on = await openOnboardingTest(t, engine)
  const { host, cli } = on
  const person: Caller = { kind: 'person', sub: 'local:ada', session: 'family' }
  const { token } = await cli.call(invitesResource.verbs.create, { target_glob: 'team/**' })
  await on.as(person, 'dash').call(invitesResource.verbs.redeem, { token })
  await on.gate('*', 1)
  await on.ask('telegram:1', 'one')
  await on.admit()
  await host.engine.read((tx) => countAhead(tx, { ...ONBOARDING_ROW, jid: 'x:0', gate: '*', position: 1 }))
  await host.engine.transaction(async (tx) => {
    for (let room = 0; room < OPEN_ROWS_MAX; room++)
      await onboarding.insert(tx, { ...ONBOARDING_ROW, jid: `x:${room}` })
  })
  await on.write('x:new', 'hello')
  const direct = { jid: 'telegram:user/2', sender: 'telegram:user/2', now: on.clock.now() }
  await host.engine.transaction((tx) => openPairing(tx, host.random, direct))
}

/** Every page of the dashboard, for an operator and for an administrator of one folder. */
async function openPages(t: TestContext, on: TestHost): Promise<void> {
  const { host } = on
  const { app, close } = await openDaemon(dashd, {
    ...{ host, resources, sources: [], peers: openPeers(new Map(), new Map()).peers, health: storeHealthCheck(host) },
    log: await openLog({ to: { write: () => {} } }),
    stopping: new AbortController().signal,
  })
  t.after(() => close())
  await on.operator('github:operator')
  await on.grant('github:administrator', '*', 'main')
  const [turn] = await host.engine.read((tx) => listTurns(tx, { limit: 1 }))
  const paths = [
    ...pages.flatMap(({ path }) => (path.includes(':') ? [] : [path])),
    ...folderViews.map(({ name }) => folderPath('main', name)),
    `/dash/turns/${turn?.id}`,
    '/dash/person?sub=github:operator',
    '/dash/people?search=operator',
    '/dash/access?folder=main',
  ]
  for (const sub of ['github:operator', 'github:administrator']) {
    const started = { sub, kind: 'browser', method: 'link', idleMs: DAY_MS, maxMs: DAY_MS } as const
    const { token } = await host.engine.transaction((tx) => createSession(tx, host, started))
    const headers = { Accept: 'text/html', Cookie: `${sessionCookieName(host)}=${token}` }
    for (const path of paths) {
      const response = await app.request(host.webBase + path, { headers })
      // 400: a page that needs a parameter; 404: one that is not for them.
      assert.ok([200, 400, 404].includes(response.status), `${path} is ${response.status}`)
      // Pages that take long are sent in pieces.
      assert.doesNotMatch(await response.text(), /its log has the details/, path)
    }
  }
  await host.engine.read((tx) => findLastAnswer(tx, turn?.id ?? ''))
  await host.engine.transaction((tx) => endEarlierAnswers(tx, 'hook:main/none', timestamp(host.clock.now())))
  await host.engine.read((tx) => listAnsweredIds(tx, turn?.id ?? '', 'hook:main/ci'))
  await host.engine.read((tx) => listTurnIdsWithPrefix(tx, '0', 5))
  for (const visitors of ['together', 'apart'] as const)
    await host.engine.read((tx) => listLinkDeliveries(tx, { jid: 'web:main', folder: 'main', visitors, limit: 5 }))
  await host.engine.transaction((tx) => forgetChatBytes(tx, ['web:none']))
  await host.engine.read((tx) => findReceivedMessage(tx, 'none'))
}

/** Topics, a branch and files of a chat, which are then deleted. */
async function useTopicsAndFiles({ host, clock }: TestHost): Promise<void> {
  const { engine, rules, random, layout = assert.fail('no layout') } = host
  const [context, now, chat] = [writeContextOf(host), clock.now(), { jid: 'web:main', folder: 'main' }]
  const writer = await ChatFileWriter.open(layout, { id: uuidv7(clock, random), name: 'a' })
  await writer.write(Buffer.from('a'))
  const stored = [await writer.finish()]
  await writer.place(chat)
  await removeStrayFiles({ ...host, layout }, { now: now + 2 * DAY_MS, isDryRun: true })
  const add = (content: string): Promise<RecordedOutbound> =>
    engine.transaction((tx) => recordOutbound(tx, context, rules, { ...chat, topic: 'green', content }))
  const [{ seq: message_seq }, last] = [await add('a'), await add('b')]
  await engine.transaction(async (tx) => {
    await addChatFiles(tx, { place: chat, stored }, { message_seq, created_at: timestamp(now) })
    await findTargetFolder(tx, chat)
    await listTopics(tx, { ...chat, limit: 5 })
    await findListedTopic(tx, chat.jid, chat.folder, 'green')
    await listVersions(tx, chat.jid, chat.folder, 'green')
    const inbound = { jid: chat.jid, sender: 'anon:1', content: 'a', reach: 'chat', topic: 'red' } as const
    const { id, seq } = await recordInbound(tx, context, { ...inbound, target_folder: 'main', hasRound: true })
    const branch = await planBranch(tx, { jid: chat.jid, topic: 'blue', message: { id, seq, topic: 'red' } })
    await createBranch(tx, branch, timestamp(now))
  })
  await engine.transaction(async (tx) => {
    await tx.executeQuery({ sql: "update outbox set state = 'sent' where message_seq = $1", parameters: [last.seq] })
    await tx.executeQuery({ sql: 'update routing set last_seq = $1', parameters: [last.seq] })
    await removeMessages(tx, engine.dialect, { before: now + DAY_MS, now, after: last.seq - 1, limit: 1 })
  })
  // With its last event, as the only topic of its chat.
  const other = { jid: `web:main/topics${visitorPart('ann')}`, folder: 'main' }
  await engine.transaction((tx) => recordOutbound(tx, context, rules, { ...other, topic: 'green', content: 'a' }))
  for (const each of [chat, other]) {
    await engine.transaction(async (tx) => {
      await tx.executeQuery({ sql: "update outbox set state = 'sent' where jid = $1", parameters: [each.jid] })
      const conversation = await mustFindConversation(tx, each, 'green')
      await mustBeIdle(tx, each.folder, conversation)
      await beginTopicRemoval(tx, engine.dialect, { ...each, conversation, now })
    })
    await finishTopicRemovals(host, each.jid)
  }
  assert.deepEqual(await engine.read((tx) => topicRemovals.list(tx)), [])
  await engine.transaction((tx) => leaseAccount(tx, 'telegram', { process: 'a:1', until: now, now }))
  await engine.transaction((tx) => releaseAccounts(tx, 'a:1'))
}

onEveryEngine('the SQL of src/', (engine) => {
  test('every statement is executed without an error', async (t) => {
    const reached = recordStatementSites(t)
    const { store } = await runBusyInstance(t, engine, 2000)
    await useCommandLine(t, engine)
    await useOnboarding(t, engine)
    const on = await testHost(t, engine, store)
    await callDirectly(t, engine, on)
    await callOauth(on)
    await useTopicsAndFiles(on)
    await openPages(t, on)
    const other = ONLY_ON[engine === 'sqlite' ? 'postgres' : 'sqlite']
    const sites = (await findStatementSites()).filter(({ code }) => !other.test(code))
    assert.ok(sites.length > 100, `${sites.length} calls were found`)
    assert.deepEqual(
      sites.filter(({ at }) => !reached.has(at)),
      [],
    )
  })
})
