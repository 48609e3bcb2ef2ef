// Cost of one chat message at a steady rate, from its POST to the end of its round: processor time and bytes written by the
// server and its children, against a bare server that makes two commits per POST. All daemons are on; the demo answers.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchScope } from './bench-scope.ts'
import { post } from './chat-clients.ts'
import { addFolders, type Instance, mintChat, openBenchInstance } from './instance.ts'
import { PacedChats } from './paced-chats.ts'
import { median, middleHalf, type Result } from './result.ts'
import { shuffled, untilQuiet } from './rounds.ts'
import { openBareServer, type Server, type TreeUse, useOfTree } from './server.ts'
import { fillIndex, fillStore } from './store-rows.ts'

export const RATE = 50
export const CHATS = 10
const SECONDS = 5
const ROUNDS = 5
const OLD = { messages: 300_000, tokens: 1000, turns: 100_000 }
const BYTES_GOAL = 24_000

/** Opens an instance with chats in separate folders and returns their paths. */
export async function openChats(root: string): Promise<{ readonly instance: Instance; readonly paths: string[] }> {
  const instance = await openBenchInstance(root)
  const folders = Array.from({ length: CHATS }, (_, at) => `c${at}`)
  const paths = await instance.open(async (host) => {
    await addFolders(host, folders)
    return Promise.all(folders.map((folder) => mintChat(host, folder)))
  })
  return { instance, paths }
}

/** Cost of one message. */
type Cost = Pick<TreeUse, 'micros' | 'writtenBytes'>
type Name = 'bare' | 'few' | 'many'

export async function benchMessages(): Promise<Result[]> {
  await using scope = new BenchScope()
  const [few, many] = [await openChats(join(scope.root, 'few')), await openChats(join(scope.root, 'many'))]
  fillStore(many.instance.store, OLD)
  await fillIndex(many.instance)
  const bare = await scope.start(openBareServer(join(scope.root, 'bare.db')))
  const costs: Record<Name, () => Promise<Cost>> = {
    bare: () => costOf(bare, () => postPaced(bare)),
    few: await chatCost(scope, few),
    many: await chatCost(scope, many),
  }
  const names = Object.keys(costs) as Name[]
  for (const name of names) await costs[name]()
  const rounds: Record<Name, Cost>[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const entries: [Name, Cost][] = []
    for (const name of shuffled(names)) entries.push([name, await costs[name]()])
    // Every name has an entry, which the type of Object.fromEntries does not tell.
    rounds.push(Object.fromEntries(entries) as Record<Name, Cost>)
  }
  const micros = (name: Name): string => `${median(rounds.map((round) => round[name].micros)).toFixed(0)} µs`
  const over = (one: Name, other: Name): Pick<Result, 'ratio' | 'detail'> => {
    const ratios = rounds.map((round) => round[one].micros / round[other].micros)
    const [low, high] = middleHalf(ratios)
    const spread = `middle half ${low.toFixed(1)}–${high.toFixed(1)}`
    return { ratio: median(ratios), detail: `${micros(one)} over ${micros(other)}; ${spread}; ${RATE} a second` }
  }
  const bytes = rounds.map((round) => round.few.writtenBytes)
  const [low, high] = middleHalf(bytes)
  const kb = (value: number): string => (value / 1000).toFixed(1)
  return [
    {
      name: 'messages: processor time to the end of the round, over a bare request with two commits',
      ...over('few', 'bare'),
      goal: 'at most 20',
    },
    {
      name: `messages: processor time with ${OLD.turns.toLocaleString('en')} turns stored, over an empty store`,
      ...over('many', 'few'),
      goal: 'at most 1.1',
    },
    {
      name: `messages: bytes written for one of 1 KiB, over ${BYTES_GOAL / 1000} KB`,
      ratio: median(bytes) / BYTES_GOAL,
      goal: 'at most 1',
      detail: `${kb(median(bytes))} KB, middle half ${kb(low)}–${kb(high)}; a bare request with two commits ${kb(median(rounds.map((round) => round.bare.writtenBytes)))} KB`,
    },
  ]
}

async function chatCost(scope: BenchScope, { instance, paths }: Awaited<ReturnType<typeof openChats>>) {
  const svc = await scope.start(instance.serve())
  await untilQuiet(svc)
  const chats = new PacedChats(paths.map((path) => `${svc.url}${path}`))
  scope.defer(() => chats.close())
  return () => costOf(svc, () => chats.run(RATE, SECONDS))
}

async function costOf(server: Server, work: () => Promise<void>): Promise<Cost> {
  const before = useOfTree(server)
  await work()
  // Background work after the last answer counts as part of the messages.
  await untilQuiet(server)
  const after = useOfTree(server)
  const each = (name: keyof Cost): number => (after[name] - before[name]) / (RATE * SECONDS)
  return { micros: each('micros'), writtenBytes: each('writtenBytes') }
}

async function postPaced(server: Server): Promise<void> {
  const started = performance.now()
  const body = JSON.stringify({ content: 'x'.repeat(1000) })
  const posting: Promise<string>[] = []
  for (let n = 0; n < RATE * SECONDS; n++) {
    await sleep(Math.max(0, started + (n * 1000) / RATE - performance.now()))
    posting.push(post(server.url, body))
  }
  await Promise.all(posting)
}
