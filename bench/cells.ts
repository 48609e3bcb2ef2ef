// Cost of a turn of the runtime command in a cell, against earlier versions.
import { openVersions } from './baseline.ts'
import { BASELINE, CellBenchScope, NAMES, type Name } from './cell-bench-scope.ts'
import { mustHave } from './egress/peers.ts'
import { median, type Result } from './result.ts'
import { compare, shuffled } from './rounds.ts'
import { type Server, useOfTree } from './server.ts'
import { TurnChat } from './turn-chat.ts'

const TURNS = 250
const WARM_TURNS = 20

/** Against the version before cells had their own network, user, system-call filter and network rules. */
export function benchCellTurns(): Promise<Result[]> {
  return compareCommandTurns(BASELINE, 'at most 1.2')
}

export async function compareCommandTurns(baseline: string, goal: string): Promise<Result[]> {
  mustHave('bwrap', 'bubblewrap')
  await using scope = new CellBenchScope()
  const versions = await openVersions(scope, baseline)
  const agents = new Map<Name, Agent>()
  for (const name of NAMES) {
    const { mintChat } = versions[name]
    const instance = await scope.openInstance(versions[name], name)
    const path = await instance.open(mintChat)
    const server = await scope.start(instance.serve())
    agents.set(name, { server, chat: await TurnChat.open(server.url + path) })
  }
  await takeTurns(agents, WARM_TURNS)
  const before = cpuOfAgents(agents)
  const rounds = await takeTurns(agents, TURNS)
  const after = cpuOfAgents(agents)
  const cpu = { now: (after.now - before.now) / TURNS, before: (after.before - before.before) / TURNS }
  const { ratio, spread } = compare<Name, number>(rounds, NAMES, (ms) => ms)
  const [now, then] = NAMES.map((name) => median(rounds.map((round) => round[name])).toFixed(1))
  return [
    {
      name: `cells: time of a turn of the runtime command over the same at ${baseline}`,
      ratio,
      goal,
      detail: `${TURNS} turns each, ${spread}; ${now} ms, at ${baseline} ${then} ms`,
    },
    {
      name: `cells: processor time of such a turn, the agent's included, over the same at ${baseline}`,
      ratio: cpu.now / cpu.before,
      goal: 'none; watched, because other processes disturb it less',
      detail: `${cpu.now.toFixed(1)} ms, at ${baseline} ${cpu.before.toFixed(1)} ms`,
    },
  ]
}

interface Agent {
  readonly server: Server
  readonly chat: TurnChat
}

/** Each round has one turn of each version, in random order. */
async function takeTurns(agents: ReadonlyMap<Name, Agent>, count: number): Promise<Record<Name, number>[]> {
  const rounds: Record<Name, number>[] = []
  for (let turn = 0; turn < count; turn++) {
    const round = { now: 0, before: 0 }
    for (const [name, { chat }] of shuffled([...agents])) round[name] = await chat.turnMs()
    rounds.push(round)
  }
  return rounds
}

/** Processor time in milliseconds since the start. */
function cpuOfAgents(agents: ReadonlyMap<Name, Agent>): Record<Name, number> {
  const cpu = { now: 0, before: 0 }
  for (const [name, { server }] of agents) cpu[name] = useOfTree(server).micros / 1000
  return cpu
}
