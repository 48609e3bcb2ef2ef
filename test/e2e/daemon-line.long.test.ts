// Each daemon in a process of its own on SQLite, as in containers: a message reaches the agent, and the answer the visitor, by
// the lines between the processes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openLinkedInstance, type ServedLinks } from '../support/linked-instance.ts'
import { readMetrics } from '../support/metrics.ts'
import { until } from '../support/until.ts'

test('daemons in processes of their own tell each other of commits, also after one was replaced', async (t) => {
  const demo = await openLinkedInstance(t, 'sqlite', { AGENT_RUNTIME: 'demo' })
  const link = await demo.mintChat('x')
  const started: ServedLinks[] = []
  const start = async (daemon: string, env: Record<string, string> = {}): Promise<ServedLinks> => {
    const served = await demo.start({ daemons: [daemon], env })
    started.push(served)
    return served
  }
  const urlOf = (served: ServedLinks): string => [...served.urls.values()][0] ?? assert.fail('no URL')
  const webd = await start('webd')
  const dashd = await start('dashd')
  const WEBD_URL = urlOf(webd)
  const routd = await start('routd', { WEBD_URL })
  const runed = await start('runed', { WEBD_URL, ROUTD_URL: urlOf(routd), DASHD_URL: urlOf(dashd) })
  const proxyd = await start('proxyd', { WEBD_URL })

  const count = async (served: ServedLinks, direction: 'received' | 'sent'): Promise<number> => {
    const { samples } = readMetrics(await (await fetch(`${urlOf(served)}/metrics`)).text())
    return samples.get(`svc_line_messages_total{direction="${direction}"}`) ?? assert.fail('no metric')
  }
  const posts = async (served: ServedLinks, daemon: string): Promise<number> => {
    const { samples } = readMetrics(await (await fetch(`${urlOf(served)}/metrics`)).text())
    return samples.get(`http_requests_total{daemon="${daemon}",method="POST",status="2xx"}`) ?? 0
  }
  const converse = async (): Promise<void> => {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ content: '/say hello' })
    const { turn_id } = Object(await (await fetch(proxyd.chat(link), { method: 'POST', headers, body })).json())
    assert.match(await (await fetch(proxyd.chat(link, `${turn_id}/sse`))).text(), /hello/)
  }
  // Each message is announced by webd to routd, and by routd to runed, which announces its answers to webd and dashd.
  const isAnnounced = async (to: ServedLinks, direction: 'received' | 'sent'): Promise<boolean> => {
    const before = await count(to, direction)
    await converse()
    return (await count(to, direction)) > before
  }
  await until(() => isAnnounced(routd, 'received'))
  await until(() => isAnnounced(runed, 'received'))
  await until(() => isAnnounced(runed, 'sent'))
  await until(async () => (await posts(dashd, 'dashd')) > 0)

  await webd.kill()
  const again = await start('webd', { WEBD_LISTEN: new URL(WEBD_URL).host })
  await until(() => isAnnounced(routd, 'received'))
  // One post of a visitor at a time, so the others are of runed.
  const before = await posts(again, 'webd')
  await converse()
  await until(async () => (await posts(again, 'webd')) > before + 1)
  for (const served of started.filter((each) => each !== webd)) {
    const { code, stderr } = await served.stop()
    assert.deepEqual([code, stderr], [0, ''])
  }
})
