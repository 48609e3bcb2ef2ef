// Turns: time until the first frame arrives through proxyd, and whether waiting folders are served fairly.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { callVerb } from '../src/registry/call.ts'
import { groupsResource } from '../src/resources/groups.ts'
import { routeTokensResource } from '../src/resources/route-tokens.ts'
import { BenchScope } from './bench-scope.ts'
import { postChat } from './chat-clients.ts'
import { mintChat, openBenchInstance } from './instance.ts'
import { median, middleHalf, type Result } from './result.ts'
import { TurnChat } from './turn-chat.ts'
import { openTwoCommits } from './two-commits.ts'

const MESSAGES = 150
/** After these most code is compiled, as in a server that has run for minutes. */
const WARM = 500
const CONTENT = Buffer.alloc(64, 'x')

export async function benchFirstFrame(): Promise<Result[]> {
  await using scope = new BenchScope()
  const instance = await openBenchInstance(join(scope.root, 'first'))
  const chat = await instance.open(mintChat)
  const svc = await scope.start(instance.serve())
  const commits = openTwoCommits(join(scope.root, 'bare.db'))
  const times: number[] = []
  const bare: number[] = []
  const turns = await TurnChat.open(`${svc.url}${chat}`)
  for (let n = 0; n < WARM + MESSAGES; n++) {
    bare.push(commits.write(CONTENT))
    times.push((await turns.turn(`/say frame ${n}`)).frameMs)
  }
  commits.close()
  const [ours, bares] = [times.slice(WARM), bare.slice(WARM)]
  const [low, high] = middleHalf(ours)
  return [
    {
      name: 'turns: from a message to the first frame of the demo, over two bare commits',
      ratio: median(ours) / median(bares),
      goal: 'at most 12',
      detail: `${median(ours).toFixed(2)} ms (middle half ${low.toFixed(2)} to ${high.toFixed(2)}); two commits ${median(bares).toFixed(2)} ms`,
    },
  ]
}

const FOLDERS = 100
const TURNS = 1000

export async function benchFairness(): Promise<Result[]> {
  await using scope = new BenchScope()
  const instance = await openBenchInstance(join(scope.root, 'fair'), { SANDBOX: 'none' })
  const chats = await instance.open(async (host) => {
    const request = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
    const paths: string[] = []
    for (let n = 0; n < FOLDERS; n++) {
      const folder = `f${n}`
      await callVerb(request, groupsResource.verbs.add, { folder })
      const { url } = await callVerb(request, routeTokensResource.verbs.issue_chat, {
        target_folder: folder,
        jid_suffix: `b${n}`,
      })
      paths.push(new URL(url).pathname)
      mkdirSync(join(host.layout?.groups ?? '', folder), { recursive: true })
    }
    return paths
  })
  const svc = await scope.start(instance.serve())
  const started = performance.now()
  for (let topic = 0; topic < TURNS / FOLDERS; topic++)
    await Promise.all(chats.map((chat) => postChat(`${svc.url}${chat}`, '/say hello', `t${topic}`)))
  const ended = () => query(instance.store, `select count(*) as n from turns where state = 'done'`)
  while (Number(ended()[0]?.n) < TURNS) await new Promise((resolve) => setTimeout(resolve, 50))
  const seconds = (performance.now() - started) / 1000
  const order = query(instance.store, 'select folder from turns order by started_at, last_seq').map(
    ({ folder }) => folder,
  )
  const last = Math.max(...chats.map((_, n) => order.indexOf(`f${n}`))) + 1
  const [failed] = query(instance.store, `select count(*) as n from turns where outcome <> 'answered'`)
  return [
    {
      name: `turns: the place at which the last of ${FOLDERS} folders has its first of ${TURNS} turns`,
      ratio: last / FOLDERS,
      goal: 'at most 1.2: no folder waits while another has a second turn',
      detail: `place ${last}; all in ${seconds.toFixed(1)} s, ${(TURNS / seconds).toFixed(0)} turns a second, 4 at once; ${failed?.n} failed`,
    },
  ]
}

function query(path: string, sql: string): Record<string, unknown>[] {
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    return db.prepare(sql).all()
  } finally {
    db.close()
  }
}
