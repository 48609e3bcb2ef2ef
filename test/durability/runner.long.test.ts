// The processes of a served instance end or freeze: what was accepted is answered once, and a turn that ends its process twice
// is set aside.
import assert from 'node:assert/strict'
import { getPriority } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { instance, type ServedProcess } from '../support/svc.ts'
import { processOf, svcProcesses } from '../support/svc-processes.ts'
import { until } from '../support/until.ts'

interface Round {
  readonly status: string
  readonly frames: readonly { readonly kind: string; readonly content: string }[]
}

async function open(t: TestContext, settings: Record<string, string> = {}) {
  const svc = await instance(t, settings)
  const served = await svc.serve()
  const issued = await svc.run('token', 'demo', 'issue', 'chat', 'main')
  const path = /^url: .*?(\/chat\/.*)$/m.exec(issued.stdout)?.[1] ?? ''
  const url = `${served.urls.get('proxyd')}${path}`
  const post = async (content: string, topic: string): Promise<string> => {
    const response = await fetch(url, { method: 'POST', body: new URLSearchParams({ content, topic }) })
    assert.equal(response.status, 200)
    return String(((await response.json()) as { turn_id: string }).turn_id)
  }
  const round = async (id: string): Promise<Round> => (await fetch(`${url}${id}`)).json() as Promise<Round>
  const ended = async (id: string): Promise<Round> => {
    await until(async () => (await round(id)).status !== 'pending')
    return round(id)
  }
  const hasStarted = (id: string) => until(async () => (await round(id)).frames.length > 0)
  return { svc, served, url, post, round, ended, hasStarted, parent: parentOf(served) }
}

/** The launcher is replaced by the parent. */
function parentOf({ child }: ServedProcess): number {
  return child.pid ?? 0
}

function leaseOf(root: string, id: string): number {
  using store = new DatabaseSync(join(root, 'store', 'svc.db'), { readOnly: true })
  return Number(store.prepare('select leased_until from turns where id = ?').get(id)?.leased_until)
}

const texts = ({ frames }: Round): string[] =>
  frames.filter(({ kind }) => kind === 'message').map((each) => each.content)

test('a turn whose runner was killed is answered by a process of its own, while others go on', async (t) => {
  const { svc, post, ended, hasStarted, parent } = await open(t)
  const slow = await post('/say begun\n/wait 5s\n/say done', 'slow')
  await hasStarted(slow)
  const runner = await processOf(parent, 'runner')
  process.kill(runner, 'SIGKILL')
  await processOf(parent, 'runner', { turnId: slow })
  const next = await processOf(parent, 'runner', { not: [runner] })
  const quick = await ended(await post('/say quick', 'quick'))
  assert.deepEqual(texts(quick), ['quick'])
  const answered = await ended(slow)
  assert.equal(answered.status, 'success')
  assert.equal(texts(answered).at(-1), 'done')
  assert.ok(svcProcesses(parent).some(({ pid }) => pid === next))
  await until(() => svcProcesses(parent).every(({ turnId }) => turnId === undefined))
  const { stdout } = await svc.run('doctor', 'demo')
  assert.match(stdout, /processes: the runner was started again once: it was ended by SIGKILL/)
})

test('a turn that ended its process twice has failed and does not run a third time', async (t) => {
  const { svc, post, ended, hasStarted, parent } = await open(t)
  const bad = await post('/say begun\n/wait 50s', 'bad')
  await hasStarted(bad)
  process.kill(await processOf(parent, 'runner'), 'SIGKILL')
  const alone = await processOf(parent, 'runner', { turnId: bad })
  // A process that has not claimed the turn yet cannot have been ended by it.
  await until(() => leaseOf(svc.root, bad) > Date.now())
  process.kill(alone, 'SIGKILL')
  assert.equal((await ended(bad)).status, 'failed')
  const shown = await svc.run('messages', 'demo', 'show', bad)
  assert.match(shown.stdout, /the process that ran it ended twice/)
  assert.deepEqual(texts(await ended(await post('/say next', 'bad'))), ['next'])
})

test('a frozen runner is replaced, and links accept messages meanwhile', async (t) => {
  const { post, ended, hasStarted, parent } = await open(t)
  const first = await post('/say begun\n/wait 3s\n/say done', 'first')
  await hasStarted(first)
  const frozen = await processOf(parent, 'runner')
  process.kill(frozen, 'SIGSTOP')
  const second = await post('/say second', 'second')
  assert.deepEqual(texts(await ended(second)), ['second'])
  const answered = await ended(first)
  assert.equal(answered.status, 'success')
  assert.equal(texts(answered).filter((text) => text === 'done').length, 1)
  assert.ok(svcProcesses(parent).every(({ pid }) => pid !== frozen))
})

test('a front that was killed is replaced at the same address; the run goes on and the stream has no gap', async (t) => {
  const { url, post, hasStarted, parent } = await open(t)
  const id = await post('/count 40\n/wait 3s\n/count 3', 'stream')
  await hasStarted(id)
  const runner = await processOf(parent, 'runner')
  process.kill(await processOf(parent, 'front'), 'SIGKILL')
  const seen: string[] = []
  let lastId = '0'
  await until(async () => {
    try {
      const response = await fetch(`${url}${id}/sse`, { headers: { 'Last-Event-ID': lastId } })
      for (const event of (await response.text()).split('\n\n')) {
        const seq = /^id: (\d+)$/m.exec(event)?.[1]
        if (seq !== undefined) seen.push(seq)
        lastId = seq ?? lastId
        if (event.includes('event: round_done')) return true
      }
    } catch {
      // The front is not there yet.
    }
    return false
  })
  assert.deepEqual(
    seen.map(Number),
    seen.map((_, at) => at + 1),
  )
  assert.ok(svcProcesses(parent).some(({ pid }) => pid === runner))
})

test('the runner leaves the processor to the front', async (t) => {
  const { post, ended, parent } = await open(t)
  await ended(await post('hello', ''))
  const [front, runner] = [await processOf(parent, 'front'), await processOf(parent, 'runner')]
  assert.equal(getPriority(runner), Math.max(5, getPriority(front)))
})

test('all processes end with their parent', async (t) => {
  const { post, ended, parent, served } = await open(t)
  await ended(await post('hello', ''))
  const pids = svcProcesses(parent).map(({ pid }) => pid)
  assert.equal(pids.length, 2)
  served.child.kill('SIGKILL')
  await served.ended
  const isRunning = (pid: number): boolean => {
    try {
      return process.kill(pid, 0)
    } catch {
      return false
    }
  }
  await until(() => !pids.some(isRunning))
})
