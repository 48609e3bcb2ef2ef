// The actions of the model test, in any order: each is applied to the real instance and to the model, and then all
// invariants are checked.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { InboxOutcome } from '../../src/core/messages/inbox.ts'
import { type ClaimedTurn, DEATHS_MAX } from '../../src/core/turns/turn-claim.ts'
import { Refusal } from '../../src/lib/refusal.ts'
import { groupsResource } from '../../src/resources/groups.ts'
import { inboxResource } from '../../src/resources/inbox.ts'
import { routesResource } from '../../src/resources/routes.ts'
import { scheduledTasksResource } from '../../src/resources/scheduled-tasks.ts'
import { usersResource } from '../../src/resources/users.ts'
import { LEASE_MS, Model, type OpenTurn, type Task, type TurnLease } from './model.ts'
import { type ModelInstance, RULES } from './model-instance.ts'
import { checkInvariants } from './model-invariants.ts'
import { run } from './sql.ts'

const FOLDERS = ['main', 'team', 'team/a'] as const
const CHILDREN: Readonly<Record<string, string>> = { main: 'team', team: 'team/a' }
const LINKS = [
  ['web:main', 'main'],
  ['web:team', 'team'],
  ['hook:main/ci', 'main'],
  ['hook:team/ci', 'team'],
] as const
const ACCOUNT = 'github:7'
const ENDS = ['answered', 'silent', 'silent', 'silent', 'failed', 'refused', 'observed'] as const
const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

export async function setUpModel(instance: ModelInstance): Promise<Model> {
  await instance.reset()
  const model = new Model(RULES)
  for (const folder of FOLDERS) await addGroup(model, instance, folder)
  const lobby = { seq: 2, match: 'room=lobby', target: 'team' }
  const { id } = await instance.callAsHost(routesResource.verbs.create, lobby)
  model.routes.push({ id, seq: lobby.seq, room: 'lobby', target: lobby.target })
  await checkInvariants(model, instance)
  return model
}

/** One of the default tasks of every group is enough here. */
async function addGroup(model: Model, instance: ModelInstance, folder: string): Promise<void> {
  await instance.callAsHost(groupsResource.verbs.add, { folder })
  for (const number of [1, 2, 3, 4])
    await instance.callAsHost(scheduledTasksResource.verbs.delete, { id: `${folder}-mem-${number}` })
  for (const [jid, target] of LINKS) if (target === folder) await instance.link(jid, target)
  model.groups.set(folder, undefined)
  const id = `${folder}-mem-0`
  const daily = { id, owner: folder, jid: folder, cron: '0 2 * * *', isIsolated: true } as const
  model.tasks.set(id, { ...daily, status: 'active', next: following(daily.cron, instance.clock.now()) })
}

function following(cron: string, after: number, slot: number = after): number {
  const from = Math.max(after, slot)
  if (cron === '* * * * *') return (Math.floor(from / MINUTE_MS) + 1) * MINUTE_MS
  if (cron === '0 2 * * *') return (Math.floor((from - 120 * MINUTE_MS) / DAY_MS) + 1) * DAY_MS + 120 * MINUTE_MS
  return slot + (Math.floor((from - slot) / Number(cron)) + 1) * Number(cron)
}

type Action = fc.AsyncCommand<Model, ModelInstance>

/** Counts the actions: an action that never happens is not tested. */
export const tally = new Map<string, number>()

function createAction<A>(
  name: string,
  args: fc.Arbitrary<A>,
  does: (model: Model, instance: ModelInstance, args: A) => Promise<void>,
  may: (model: Readonly<Model>, args: A) => boolean = () => true,
): fc.Arbitrary<Action> {
  tally.set(name, 0)
  return args.map((given) => ({
    check: (model) => may(model, given),
    run: async (model, instance) => {
      tally.set(name, (tally.get(name) ?? 0) + 1)
      await does(model, instance, given)
      await checkInvariants(model, instance)
    },
    toString: () => `${name} ${JSON.stringify(given)}`,
  }))
}

const at = fc.nat(9)
const folder = fc.constantFrom(...FOLDERS)

function pick<T>(list: readonly T[], at: number): T {
  const found = list[at % Math.max(list.length, 1)]
  if (found === undefined) throw new Error('there is nothing to choose from')
  return found
}

// Messages

/** How far a message gets at once: later steps may run much later, or in another process. */
const goes = fc.constantFrom('nowhere', 'filed', 'routed', 'routed')

async function go(model: Model, instance: ModelInstance, goes: string): Promise<void> {
  if (goes === 'nowhere') return
  await instance.file()
  model.fileAll()
  if (goes === 'routed') await routeAll(model, instance)
}

const postHook = createAction(
  'a hook posts',
  fc.record({ jid: fc.constantFrom('hook:main/ci', 'hook:team/ci'), goes }),
  async (model, instance, { jid, goes }) => {
    const said = { sender: 'ci', text: '/ping is no command here' }
    const id = await instance.post(jid, { ...said, topic: '' })
    model.receive({ id, jid, ...said, chatTopic: '', to: targetOf(jid), hasRound: false })
    await go(model, instance, goes)
  },
  isLinked,
)

const WORDS = fc.oneof(
  { weight: 5, arbitrary: fc.constant('hello') },
  { weight: 3, arbitrary: fc.constantFrom('/ping', '/new', '/new', '/new again', '/stop', '#bills hello') },
)

const postChat = createAction(
  'a person asks at a link',
  fc.record({
    jid: fc.constantFrom('web:main', 'web:team'),
    topic: fc.constantFrom('', 'bills'),
    sender: fc.constantFrom('anon:1', ACCOUNT),
    text: WORDS,
    goes,
  }),
  async (model, instance, { jid, topic, sender, text, goes }) => {
    const id = await instance.post(jid, { sender, topic, text })
    model.receive({ id, jid, chatTopic: topic, sender, text, to: targetOf(jid), hasRound: true })
    await go(model, instance, goes)
  },
  isLinked,
)

function isLinked(model: Readonly<Model>, { jid }: { readonly jid: string }): boolean {
  return model.groups.has(targetOf(jid))
}

function targetOf(jid: string): string {
  return LINKS.find(([link]) => link === jid)?.[1] ?? ''
}

const speakInRoom = createAction(
  'a person speaks in a room',
  fc.record({
    jid: fc.constantFrom('sandbox:lobby', 'sandbox:den'),
    sender: fc.constantFrom('sandbox:ann', 'sandbox:bob'),
    text: WORDS,
    goes,
  }),
  async (model, instance, { text, goes, ...said }) => {
    const { id } = await instance.receive({ ...said, content: text, reach: 'all' })
    model.receive({ id, ...said, text, chatTopic: '', hasRound: false })
    model.fileAll()
    await go(model, instance, goes)
  },
)

const goOn = createAction('messages get further', fc.record({ goes }), (model, instance, { goes }) =>
  go(model, instance, goes),
)

async function routeAll(model: Model, instance: ModelInstance): Promise<void> {
  await instance.route()
  model.routeAll(instance.clock.now())
}

// Time

const advance = createAction(
  'time goes by',
  fc.constantFrom(1000, 5000, 30_000, MINUTE_MS, 3_600_000, DAY_MS),
  async (_model, instance, ms) => instance.clock.advance(ms),
)

const setBack = createAction(
  'the clock is set back',
  fc.constantFrom(1000, 3_600_000, DAY_MS),
  async (model, instance, ms) => {
    instance.clock.advance(-ms)
    model.setBack()
  },
)

const schedule = createAction(
  'a task is scheduled',
  fc.record({
    jid: fc.constantFrom('web:team', 'hook:main/ci', 'team/a', 'main'),
    when: fc.constantFrom('minute', 'interval', 'past', 'future', 'now'),
    contextMode: fc.constantFrom('group', 'isolated'),
  }),
  async (model, instance, { jid, when, contextMode }) => {
    const now = instance.clock.now()
    const time = (ms: number): string => new Date(now + ms).toISOString()
    const crons = { minute: '* * * * *', interval: '45000', past: time(-DAY_MS), future: time(90_000), now: undefined }
    const given = crons[when]
    const { taskId: id } = await instance.callAsHost(scheduledTasksResource.verbs.schedule, {
      ...{ targetJid: jid, prompt: `${when} in ${jid}`, contextMode },
      ...(given === undefined ? {} : { cron: given }),
    })
    // The same request again creates no other task.
    if (model.tasks.has(id)) return
    const cron = when === 'minute' || when === 'interval' ? given : undefined
    const next = cron === undefined ? (given === undefined ? now : Date.parse(given)) : following(cron, now)
    const isIsolated = contextMode === 'isolated'
    model.tasks.set(id, { id, owner: ownerOf(jid), jid, cron, isIsolated, status: 'active', next })
  },
  (model, { jid }) => model.groups.has(ownerOf(jid)),
)

function ownerOf(jid: string): string {
  return jid.includes(':') ? targetOf(jid) : jid
}

/** Missed slots are merged, no slot fires twice, and a fired task is in the future or finished. */
async function fireAll(model: Model, instance: ModelInstance): Promise<void> {
  const now = instance.clock.now()
  const fired: Task[] = []
  const due = model.due(now).toSorted((a, b) => (a.next ?? 0) - (b.next ?? 0) || (a.id < b.id ? -1 : 1))
  await instance.fire()
  for (const task of due) {
    const { id, cron, owner, next: slot = 0 } = task
    if (!model.groups.has(owner)) {
      task.status = 'paused'
      continue
    }
    const name = `sched-${id}-${slot}`
    if (!model.slots.has(name)) fired.push(task)
    model.slots.add(name)
    task.status = cron === undefined ? 'completed' : 'active'
    task.next = cron === undefined ? undefined : following(cron, now, slot)
    assert.ok(task.next === undefined || task.next > now)
  }
  const arrived = await readUnknownMessages(model, instance)
  assert.deepEqual(
    arrived.map(({ task_id }) => task_id),
    fired.map(({ id }) => id),
    'what was fired',
  )
  for (const [index, { id, isIsolated, owner, jid }] of fired.entries()) {
    const message = { id: arrived[index]?.id ?? '', jid, chatTopic: '', to: owner, text: '', hasRound: false }
    const sender = isIsolated ? `timed-isolated:${id}` : 'timed'
    model.receive({ ...message, sender, task: { id, isIsolated } })
    model.fileAll()
  }
}

const fire = createAction('tasks are fired', fc.constant({}), fireAll)

/** Messages of tools and schedules that the model does not know yet. */
async function readUnknownMessages(
  model: Model,
  instance: ModelInstance,
): Promise<{ id: string; task_id: string | undefined }[]> {
  const { rows } = await instance.read((tx) =>
    run(
      tx,
      `select m.id, e.task_id from messages m join envelopes e on e.message_seq = m.seq
       where m.direction = 'in' order by m.seq`,
    ),
  )
  const known = new Set(model.messages.map(({ id }) => id))
  return rows
    .filter(({ id }) => !known.has(String(id)))
    .map(({ id, task_id }) => ({ id: String(id), task_id: task_id === null ? undefined : String(task_id) }))
}

// Turns

/** Claims turns concurrently and returns how many were claimed. */
async function claimAll(model: Model, instance: ModelInstance, askers: number): Promise<number> {
  const now = instance.clock.now()
  let count = 0
  for (const claimed of await instance.claim(askers)) {
    const { again, fresh } = model.claimable(now)
    const mayStart = [...again, ...fresh].map(({ folder, topic }) => JSON.stringify([folder, topic]))
    const starts = claimed && JSON.stringify([claimed.turn.folder, claimed.turn.topic])
    if (starts === undefined) assert.deepEqual(mayStart, [], 'something may start, and nothing does')
    else assert.ok(mayStart.includes(starts), `${starts} starts, and not one of ${mayStart.join(' ') || 'none'}`)
    if (!claimed) continue
    begin(model, claimed, now)
    count++
  }
  return count
}

function begin(model: Model, { turn, messages, refusal }: ClaimedTurn, now: number): void {
  const known = model.turns.get(turn.id)
  if (known) model.beginAgain(known, now)
  const open = known ?? model.begin(model.conversation(turn.folder, turn.topic), now)
  assert.deepEqual(
    messages.map(({ row }) => row.id),
    open.ids,
    'the messages of a turn, in the order of arrival',
  )
  assert.equal(refusal !== undefined, open.isRefused, `a refusal: ${refusal}`)
  if (!open.isRefused) assert.equal(turn.money_cents, open.money, 'what it may cost')
}

const claim = createAction(
  'turns are claimed',
  fc.record({ goes, askers: fc.constantFrom(1, 1, 2, 3) }),
  async (model, instance, { goes, askers }) => {
    await go(model, instance, goes)
    await claimAll(model, instance, askers)
  },
)

/** Turns whose owner may run them. */
function listRunning(model: Readonly<Model>): OpenTurn[] {
  return model.listOwned().filter(({ isRefused, folder }) => !isRefused && model.groups.has(folder))
}

const hasRunning = (model: Readonly<Model>): boolean => listRunning(model).length > 0
const hasOwned = (model: Readonly<Model>): boolean => model.listOwned().length > 0

let words = 0

const say = createAction(
  'a turn says something',
  fc.record({ at, isStatus: fc.boolean() }),
  async (model, instance, given) => {
    const turn = pick(listRunning(model).filter(isHeard), given.at)
    const text = `words ${++words}`
    const isStatus = given.isStatus && turn.jid.startsWith('web:')
    if (isStatus) await instance.status(turn, text)
    else await instance.callTool(turn, 'reply', { chatJid: turn.jid, text })
    model.reply(turn, text, { isStatus })
  },
  (model) => listRunning(model).some(isHeard),
)

/** A bare folder is not a chat. */
function isHeard({ jid }: OpenTurn): boolean {
  return jid.includes(':')
}

const submit = createAction(
  'a turn is submitted',
  fc.record({
    at,
    status: fc.constantFrom('success', 'error'),
    hasResult: fc.boolean(),
    cents: fc.constantFrom(0, 3, 40),
    times: fc.integer({ min: 1, max: 2 }),
  }),
  async (model, instance, { status, hasResult, cents, times, ...given }) => {
    const turn = pick(listRunning(model), given.at)
    const now = instance.clock.now()
    const session = `session ${++words}`
    const result = hasResult && status === 'success' ? `result ${words}` : ''
    const models = cents === 0 ? {} : { models: { m: { cost_cents: cents } } }
    const isFirst = turn.submitted === undefined
    for (let time = 0; time < times; time++)
      await instance.submit(turn, { status, result, session_id: session, ...models })
    model.submit(turn, { status, result, session })
    if (isFirst && cents > 0) model.spend(turn, cents, now, true)
  },
  hasRunning,
)

const spend = createAction(
  'a turn spends money elsewhere',
  fc.record({ at, cents: fc.constantFrom(1, 20, 60) }),
  async (model, instance, { cents, ...given }) => {
    const turn = pick(listRunning(model), given.at)
    await instance.callTool(turn, 'log_external_cost', { provider: 'openai', model: 'm', cost_usd: cents / 100 })
    model.spend(turn, cents, instance.clock.now(), false)
  },
  hasRunning,
)

async function endOne(model: Model, instance: ModelInstance, turn: OpenTurn, wish: InboxOutcome): Promise<void> {
  const outcome = turn.isRefused ? 'refused' : turn.deaths > DEATHS_MAX ? 'failed' : wish
  const isBad = outcome === 'failed' || outcome === 'refused'
  const why = isBad ? { reason: 'it did not work', notice: 'It did not work.' } : {}
  assert.ok(await instance.end(turn, { outcome, ...why }), 'whoever holds it ends it')
  model.end(turn, outcome, instance.clock.now())
}

const end = createAction(
  'a turn ends',
  fc.record({ at, outcome: fc.constantFrom(...ENDS) }),
  (model, instance, { outcome, ...given }) => endOne(model, instance, pick(model.listOwned(), given.at), outcome),
  hasOwned,
)

const retry = createAction(
  'a turn fails and is tried again',
  fc.record({ at, afterMs: fc.constantFrom(0, 2000) }),
  async (model, instance, { afterMs, ...given }) => {
    const turn = pick(model.listOwned(), given.at)
    const runAfter = instance.clock.now() + afterMs
    assert.ok(await instance.retry(turn, runAfter))
    Object.assign(turn, { state: 'retrying', runAfter, leasedUntil: 0 })
  },
  hasOwned,
)

const renew = createAction(
  'a turn is held for longer',
  fc.record({ at }),
  async (model, instance, given) => {
    const turn = pick(model.listOwned(), given.at)
    const now = instance.clock.now()
    const isRenewed = turn.leasedUntil > now || model.hasRoomFor(turn.folder, now)
    assert.equal(await instance.renew(turn), isRenewed)
    if (isRenewed) turn.leasedUntil = now + LEASE_MS
  },
  hasOwned,
)

function mayDelegate(model: Readonly<Model>): OpenTurn[] {
  return listRunning(model).filter(({ depth, folder }) => depth === 0 && model.groups.has(CHILDREN[folder] ?? ''))
}

const delegate = createAction(
  'a turn hands its question on',
  fc.record({ at, endsAfter: fc.boolean() }),
  async (model, instance, { endsAfter, ...given }) => {
    const turn = pick(mayDelegate(model), given.at)
    const group = CHILDREN[turn.folder] ?? ''
    await instance.callTool(turn, 'delegate_group', { group, prompt: 'please', chatJid: turn.jid })
    const [asked, ...more] = await readUnknownMessages(model, instance)
    assert.equal(more.length, 0)
    const delegated = { from: turn.id, jid: turn.jid, topic: turn.chatTopic }
    const message = { id: asked?.id ?? '', jid: group, chatTopic: '', sender: 'delegate', text: 'please', to: group }
    model.receive({ ...message, hasRound: false, delegated })
    model.fileAll()
    if (endsAfter) await endOne(model, instance, turn, 'silent')
  },
  (model) => mayDelegate(model).length > 0,
)

const die = createAction(
  'all holders die',
  fc.record({ askers: fc.nat(2) }),
  async (model, instance, { askers }) => {
    instance.clock.advance(LEASE_MS)
    await claimAll(model, instance, askers)
  },
  hasOwned,
)

const LATE = ['say', 'status', 'submit', 'end', 'retry', 'release', 'renew', 'delegate', 'spend'] as const

/** A worker that has lost its turn is refused, and the invariants check that nothing has changed. */
async function tryLate(instance: ModelInstance, late: TurnLease, what: (typeof LATE)[number]): Promise<boolean> {
  if (what === 'end') return instance.end(late, { outcome: 'failed', reason: 'late', notice: 'Late.' })
  if (what === 'retry') return instance.retry(late, instance.clock.now())
  if (what === 'renew') return instance.renew(late)
  if (what === 'release') await instance.release(late)
  if (what === 'status') await instance.status(late, 'late')
  if (what === 'release' || what === 'status') return false
  try {
    if (what === 'say') await instance.callTool(late, 'reply', { chatJid: 'web:team', text: 'late' })
    if (what === 'delegate')
      await instance.callTool(late, 'delegate_group', { group: 'team/a', prompt: 'late', chatJid: 'web:team' })
    if (what === 'spend')
      await instance.callTool(late, 'log_external_cost', { provider: 'openai', model: 'm', cost_usd: 1 })
    if (what === 'submit')
      await instance.submit(late, { result: 'late', session_id: 'late', models: { late: { cost_cents: 9 } } })
  } catch (error) {
    if (error instanceof Refusal && error.code === 'conflict') return false
    throw error
  }
  // A repeated submission is ignored, from any worker.
  return what !== 'submit'
}

const comeLate = createAction(
  'one who has lost its turn',
  fc.record({ at: fc.nat(30), what: fc.constantFrom(...LATE), isOver: fc.boolean() }),
  async (model, instance, { what, isOver, ...given }) => {
    const lost = model.listLost()
    const goesOn = lost.filter(({ id }) => model.turns.has(id))
    const late = pick(isOver || goesOn.length === 0 ? lost : goesOn, given.at)
    assert.equal(await tryLate(instance, late, what), false, `${what} was taken from one who has lost its turn`)
  },
  (model) => model.listLost().length > 0,
)

// The instance

const TARGETS = [
  'team',
  'main',
  'team#observe',
  'team#plans',
  'gone',
  'gone#observe',
  'builtin:drop',
  'daemon:mail',
] as const

const addRoute = createAction(
  'a route is added',
  fc.record({ seq: fc.nat(3), room: fc.constantFrom('lobby', 'den', undefined), target: fc.constantFrom(...TARGETS) }),
  async (model, instance, { seq, room, target }) => {
    const match = room === undefined ? '' : `room=${room}`
    const { id } = await instance.callAsHost(routesResource.verbs.create, { seq, match, target })
    model.routes.push({ id, seq, room, target })
  },
  (model, { seq, room, target }) =>
    !model.routes.some((each) => each.seq === seq && each.room === room && each.target === target),
)

const removeRoute = createAction(
  'a route is removed',
  fc.record({ at }),
  async (model, instance, given) => {
    const { id } = pick(model.routes, given.at)
    await instance.callAsHost(routesResource.verbs.delete, { id })
    model.routes = model.routes.filter((each) => each.id !== id)
  },
  (model) => model.routes.length > 0,
)

const daily = fc.constantFrom(0, 5, 50)

const capFolder = createAction(
  'a budget is set',
  fc.record({ folder, daily }),
  async (model, instance, { folder, daily }) => {
    await instance.callAsHost(groupsResource.verbs.set_budget, { folder, daily })
    model.groups.set(folder, daily === 0 ? undefined : daily)
  },
  (model, { folder }) => model.groups.has(folder),
)

const capPerson = createAction(
  'a budget of a person is set',
  fc.record({ daily }),
  async (model, instance, { daily }) => {
    await instance.callAsHost(usersResource.verbs.set_budget, { sub: ACCOUNT, daily })
    if (daily === 0) model.people.delete(ACCOUNT)
    else model.people.set(ACCOUNT, daily)
  },
)

const removeGroup = createAction(
  'a group is removed',
  fc.record({ folder }),
  async (model, instance, { folder }) => {
    await instance.callAsHost(groupsResource.verbs.remove, { folder })
    model.groups.delete(folder)
  },
  (model, { folder }) => folder !== 'main' && model.groups.has(folder),
)

const missing = (model: Readonly<Model>): string[] => FOLDERS.filter((each) => !model.groups.has(each))

const addAgain = createAction(
  'a group is made again',
  fc.record({ at }),
  async (model, instance, given) => {
    await addGroup(model, instance, pick(missing(model), given.at))
  },
  (model) => missing(model).length > 0,
)

/** A graceful stop releases running turns; otherwise their leases expire. */
const restart = createAction(
  'the process is restarted',
  fc.record({ inOrder: fc.boolean() }),
  async (model, instance, { inOrder }) => {
    for (const turn of inOrder ? model.listOwned() : []) {
      await instance.release(turn)
      Object.assign(turn, { state: 'retrying', runAfter: 0, leasedUntil: 0, attempts: turn.attempts - 1 })
    }
    await instance.restart()
  },
)

const retryByPerson = createAction(
  'a person retries a message',
  fc.record({ at }),
  async (model, instance, given) => {
    const message = pick(model.listRetryable(), given.at)
    await instance.callAsHost(inboxResource.verbs.retry, { id: message.id })
    model.retry(message)
    await assert.rejects(instance.callAsHost(inboxResource.verbs.retry, { id: message.id }), Refusal)
  },
  (model) => model.listRetryable().length > 0,
)

const weighted = (weight: number, arbitrary: fc.Arbitrary<Action>): fc.WeightedArbitrary<Action> => ({
  weight,
  arbitrary,
})

export const ANY_ACTION: fc.Arbitrary<Action> = fc.oneof(
  weighted(3, postHook),
  weighted(16, postChat),
  weighted(7, speakInRoom),
  weighted(4, goOn),
  weighted(4, advance),
  weighted(1, setBack),
  weighted(2, schedule),
  weighted(3, fire),
  weighted(12, claim),
  weighted(10, say),
  weighted(8, submit),
  weighted(5, spend),
  weighted(8, end),
  weighted(4, retry),
  weighted(6, retryByPerson),
  weighted(2, renew),
  weighted(12, delegate),
  weighted(8, die),
  weighted(12, comeLate),
  weighted(4, addRoute),
  weighted(1, removeRoute),
  weighted(2, capFolder),
  weighted(2, capPerson),
  weighted(2, removeGroup),
  weighted(6, addAgain),
  weighted(1, restart),
)

/** Finally, when all waiting messages are answered, nothing is left and every message has reached its final state. */
export async function drain(model: Model, instance: ModelInstance): Promise<void> {
  await instance.file()
  model.fileAll()
  await fireAll(model, instance)
  await routeAll(model, instance)
  await checkInvariants(model, instance)
  const isLeft = (): boolean =>
    model.turns.size > 0 || [...model.conversations.values()].some(({ waiting }) => waiting.length > 0)
  while (isLeft()) {
    instance.clock.advance(Math.max(0, model.allDueAt() - instance.clock.now()))
    assert.ok((await claimAll(model, instance, RULES.turnsMax)) > 0, 'something waits, and nobody is given it')
    for (const turn of model.listOwned()) await endOne(model, instance, turn, 'answered')
  }
  await checkInvariants(model, instance)
  for (const { id, state } of model.messages)
    assert.match(state, /^(answered|silent|failed|refused|observed|onboarding)$/, `the end of ${id}`)
}
