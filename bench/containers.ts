// Cost per turn of agents in containers that are kept between turns, against the same in cells of bubblewrap.
import { openAgentContainers } from '../test/support/agent-containers.ts'
import { CellBenchScope } from './cell-bench-scope.ts'
import { mustHave } from './egress/peers.ts'
import { mintChat, openBenchInstance } from './instance.ts'
import { median, type Result } from './result.ts'
import { compare, shuffled } from './rounds.ts'
import { TurnChat } from './turn-chat.ts'

const NAMES = ['container', 'bwrap'] as const
type Name = (typeof NAMES)[number]

const TURNS = 250
const WARM_TURNS = 20

export async function benchContainerTurns(): Promise<Result[]> {
  mustHave('bwrap', 'bubblewrap')
  mustHave('dockerd', 'docker.io')
  await using scope = new CellBenchScope()
  const engine = await openAgentContainers({ after: (work) => scope.defer(work) })
  scope.defer(() => engine.stop())
  const settings: Record<Name, Record<string, string>> = {
    container: { ...engine.settings },
    bwrap: { SANDBOX: 'bwrap' },
  }
  const chats = new Map<Name, TurnChat>()
  let firstMs = 0
  for (const name of NAMES) {
    const instance = await scope.openInstance({ openBenchInstance }, name, settings[name])
    const path = await instance.open(mintChat)
    const server = await scope.start(instance.serve())
    const chat = await TurnChat.open(server.url + path)
    const ms = await chat.turnMs()
    if (name === 'container') firstMs = ms
    chats.set(name, chat)
  }
  await takeTurns(chats, WARM_TURNS)
  const rounds = await takeTurns(chats, TURNS)
  const { ratio, spread } = compare<Name, number>(rounds, NAMES, (ms) => ms)
  const [container, cell] = NAMES.map((name) => median(rounds.map((round) => round[name])).toFixed(1))
  return [
    {
      name: 'containers: time of a turn of the runtime command in a warm container over the same in a cell',
      ratio,
      goal: 'at most 1.3',
      detail: `${TURNS} turns each, ${spread}; ${container} ms, in a cell ${cell} ms; the first turn ${firstMs.toFixed(0)} ms`,
    },
  ]
}

/** Each round has one turn of each kind, in random order. */
async function takeTurns(chats: ReadonlyMap<Name, TurnChat>, count: number): Promise<Record<Name, number>[]> {
  const rounds: Record<Name, number>[] = []
  for (let turn = 0; turn < count; turn++) {
    const round = { container: 0, bwrap: 0 }
    for (const [name, chat] of shuffled([...chats])) round[name] = await chat.turnMs()
    rounds.push(round)
  }
  return rounds
}
