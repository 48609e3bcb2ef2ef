// A row that ends the front twice is set aside; the rows beside it and later ones are handled, and the front stays.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { DEADLY } from '../support/deadly-rows.ts'
import { openLinkedInstance, type ServedLinks } from '../support/linked-instance.ts'
import { until } from '../support/until.ts'

const REASON = 'the process that ran it ended twice'
const PRELOAD = `--import=${join(import.meta.dirname, '..', 'support', 'deadly-rows.ts')}`

async function open(t: TestContext) {
  const demo = await openLinkedInstance(t, 'sqlite')
  const link = await demo.mintChat('visitors')
  const read = (sql: string): Record<string, unknown>[] => {
    using store = new DatabaseSync(join(demo.root, 'store', 'svc.db'), { readOnly: true, timeout: 10_000 })
    return store.prepare(sql).all()
  }
  const ask = async (served: ServedLinks, content: string): Promise<string> => {
    const body = new URLSearchParams({ content, topic: content })
    const response = await fetch(served.chat(link), { method: 'POST', body })
    assert.equal(response.status, 200)
    return String(((await response.json()) as { turn_id: string }).turn_id)
  }
  const state = (id: string): unknown => read(`select state from inbox where id = '${id}'`)[0]?.state
  const start = () => demo.start({ env: { NODE_OPTIONS: PRELOAD } })
  const doctor = async (): Promise<string> => (await demo.run('doctor', 'demo')).stdout
  return { demo, start, read, ask, state, doctor }
}

test('a message that ends the front twice has failed, and its neighbours are answered', async (t) => {
  const { demo, start, ask, state, doctor } = await open(t)
  // Without routd they wait, so that they are routed in one transaction.
  const accepting = await demo.start({ daemons: ['proxyd', 'webd'] })
  const asked: string[] = []
  for (const content of ['before', DEADLY, 'after']) asked.push(await ask(accepting, content))
  await accepting.stop()
  const served = await start()
  await until(() => asked.map(state).every((each) => each === 'answered' || each === 'failed'))
  assert.deepEqual(asked.map(state), ['answered', 'failed', 'answered'])
  const { stdout } = await demo.run('messages', 'demo', 'show', asked[1] ?? '')
  assert.match(stdout, new RegExp(REASON))
  const later = await ask(served, 'later')
  await until(() => state(later) === 'answered')
  assert.match(await doctor(), /processes: the front was started again 2 times/)
})

test('a task that ends the front twice is paused, and other tasks are fired', async (t) => {
  const { demo, start, read, doctor } = await open(t)
  await start()
  for (const prompt of [`${DEADLY} task`, 'other task']) {
    const { code, stderr } = await demo.run('task', 'demo', 'add', 'main', prompt)
    assert.equal(code, 0, stderr)
  }
  const task = (prompt: string) =>
    read(`select t.status, l.error from scheduled_tasks t left join task_run_logs l on l.task_id = t.id
          where t.prompt = '${prompt}'`)
  await until(() => task(`${DEADLY} task`)[0]?.status === 'paused')
  assert.deepEqual(task(`${DEADLY} task`), [{ __proto__: null, status: 'paused', error: REASON }])
  await until(() => task('other task')[0]?.status === 'completed')
  assert.match(await doctor(), /processes: the front was started again 2 times/)
})
