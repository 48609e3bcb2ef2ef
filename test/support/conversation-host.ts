// Messages and turns for tests of the tables: the test does the work of the router.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { type OutboundMessage, type RecordedOutbound, recordOutbound } from '../../src/core/delivery/outbox.ts'
import { envelopes } from '../../src/core/messages/envelopes.ts'
import { type InboundMessage, recordInbound } from '../../src/core/messages/inbound.ts'
import { type InboxRow, inbox } from '../../src/core/messages/inbox.ts'
import { lockMessageOrder, messages } from '../../src/core/messages/messages.ts'
import { conversations } from '../../src/core/turns/conversations.ts'
import { findRound, type Round, readFrames } from '../../src/core/turns/rounds.ts'
import { type ClaimedTurn, claimTurn } from '../../src/core/turns/turn-claim.ts'
import type { TurnRules } from '../../src/core/turns/turn-rules.ts'
import { endTurn, submitTurn, type Turn, type TurnEnd, type TurnSubmission, turns } from '../../src/core/turns/turns.ts'
import { timestamp } from '../../src/lib/clock.ts'
import type { Tx } from '../../src/store/engine.ts'
import { type EngineName, type TestHost, testHost } from './host.ts'
import { run } from './sql.ts'

export const LEASE_MS = 10_000

export interface TestMessageOptions extends Partial<Omit<InboundMessage, 'content'>> {
  readonly folder?: string
  /** The conversation, if it is not the topic of the chat. */
  readonly conversation?: string
}

export interface ConversationHost extends TestHost {
  /** Adds a routed, waiting message and returns its id. It is a round by default. */
  ask(content?: string, asking?: TestMessageOptions): Promise<string>
  /** The turn delegates to the folder `team`, whose answer goes to `web:main`. Returns the id of the question. */
  delegate(from: Turn): Promise<string>
  claim(rules?: Partial<TurnRules>): Promise<ClaimedTurn | undefined>
  mustClaim(rules?: Partial<TurnRules>): Promise<ClaimedTurn>
  say(turn: Turn, content: string, out?: Partial<OutboundMessage>): Promise<RecordedOutbound>
  submit(folder: string, submission: TurnSubmission): Promise<readonly string[]>
  end(turn: Pick<Turn, 'id' | 'fence'>, end?: Partial<TurnEnd>): Promise<boolean>
  state(id: string): Promise<InboxRow>
  round(id: string): Promise<Round>
  turn(id: string): Promise<Turn>
  frames(id: string): Promise<string[]>
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

export async function openConversationHost(
  t: TestContext,
  engine: EngineName,
  on?: TestHost,
): Promise<ConversationHost> {
  const here = on ?? (await testHost(t, engine))
  const { host, clock } = here
  const { engine: store, rules } = host
  const speaking = { dialect: store.dialect, clock: host.clock, random: host.random }
  const claim = (changes: Partial<TurnRules> = {}) =>
    store.transaction(async (tx) => {
      await lockMessageOrder(tx, store.dialect)
      return claimTurn(tx, { ...rules, ...changes }, { now: clock.now(), leaseMs: LEASE_MS })
    })
  const ask: ConversationHost['ask'] = (content = 'why?', { folder = 'main', conversation, ...inbound } = {}) =>
    store.transaction(async (tx) => {
      const { id, seq } = await recordInbound(tx, speaking, {
        jid: `web:${folder}`,
        sender: 'anon:1',
        target_folder: folder,
        hasRound: true,
        content,
        reach: 'all',
        ...inbound,
      })
      await routeByHand(tx, { seq, folder, topic: conversation ?? inbound.topic ?? '', now: timestamp(clock.now()) })
      return id
    })
  return {
    ...here,
    claim,
    ask,
    delegate: ({ id: from_turn }) => {
      const envelope = { verb: 'delegate', depth: 1, from_turn, return_jid: 'web:main', as_folder: 'team' }
      return ask('please', { folder: 'team', jid: 'team', sender: 'delegate', hasRound: false, envelope })
    },
    mustClaim: async (changes) => (await claim(changes)) ?? assert.fail('nothing to claim'),
    say: (turn, content, out = {}) =>
      store.transaction((tx) =>
        recordOutbound(tx, speaking, rules, {
          jid: turn.jid,
          topic: turn.chat_topic,
          folder: turn.folder,
          turn_id: turn.id,
          content,
          ...out,
        }),
      ),
    submit: (folder, submission) => store.transaction((tx) => submitTurn(tx, speaking, rules, folder, submission)),
    end: async (turn, end = {}) =>
      (await store.transaction((tx) => endTurn(tx, speaking, rules, turn, { outcome: 'answered', ...end }))) !==
      undefined,
    state: async (id) => (await store.read((tx) => inbox.find(tx, { id }))) ?? assert.fail('no such message'),
    round: async (id) => (await store.read((tx) => findRound(tx, id))) ?? assert.fail('no such round'),
    turn: async (id) => (await store.read((tx) => turns.find(tx, { id }))) ?? assert.fail('no such turn'),
    frames: async (id) => (await store.read((tx) => readFrames(tx, id, 0, 200))).map(({ content }) => content),
    write: (work) => store.transaction(work),
    read: (work) => store.read(work),
  }
}

/** Does the work of the router for a message of a folder. */
export async function routeByHand(
  tx: Tx,
  { seq, folder, topic, now }: { seq: number; folder: string; topic: string; now: string },
): Promise<void> {
  const message = (await messages.find(tx, { seq })) ?? assert.fail('no such message')
  const envelope = await envelopes.find(tx, { message_seq: seq })
  await inbox.insert(tx, {
    message_seq: seq,
    id: message.id,
    jid: message.jid,
    folder,
    topic,
    chat_topic: message.topic ?? '',
    sender: message.sender,
    verb: envelope?.verb ?? 'message',
    state: 'waiting',
    updated_at: now,
  })
  await conversations.insertIfMissing(tx, { folder, topic, waiting: 0, observed_seq: 0, updated_at: now })
  await run(tx, 'update conversations set waiting = waiting + 1 where folder = $1 and topic = $2', [folder, topic])
  await run(tx, 'update routing set last_seq = $1 where id = 1', [seq])
}
