// Traces and metrics of an instance whose daemons are processes of their own.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { traceIdOf } from '../../src/lib/trace/otlp-json.ts'
import { openCollector, pathsOf } from '../support/collector.ts'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { readMetrics } from '../support/metrics.ts'
import { until } from '../support/until.ts'

test('two processes have one trace per message, and all metrics at the front door', async (t) => {
  const collector = await openCollector(t)
  const demo = await openLinkedInstance(t, 'sqlite', { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })
  const link = await demo.mintChat('traced')
  const back = await demo.start({ daemons: ['routd', 'runed'] })
  const env = { ROUTD_URL: back.urls.get('routd') ?? '', RUNED_URL: back.urls.get('runed') ?? '' }
  const front = await demo.start({ daemons: ['proxyd', 'webd'], env })
  const posted = await fetch(front.chat(link), {
    method: 'POST',
    body: new URLSearchParams({ content: '/say hello' }),
  })
  const { turn_id } = JSON.parse(await posted.text())
  await until(async () => JSON.parse(await (await fetch(front.chat(link, turn_id))).text()).status === 'success')
  const spans = await collector.trace(traceIdOf('demo', turn_id), 'POST /chat', 'turn')
  assert.deepEqual(pathsOf(spans), [
    'POST /chat',
    'POST /chat > route',
    'POST /chat > route > turn',
    'POST /chat > route > turn > answer',
    'POST /chat > route > turn > attempt',
    'POST /chat > route > turn > attempt > tool reply',
  ])
  const { stdout } = await demo.run('bearer', 'demo', 'service:metrics')
  const headers = { Authorization: `Bearer ${stdout.trim()}` }
  const scraped = await fetch(`${front.urls.get('proxyd')}/metrics`, { headers })
  const { samples } = readMetrics(await scraped.text())
  assert.equal(samples.get('svc_turns_total{daemon="routd",outcome="answered",runtime="demo"}'), 1)
  assert.equal(samples.get('svc_daemon_up{daemon="runed"}'), 1)
  assert.equal(samples.get('svc_queue_messages{daemon="routd",queue="turns"}'), 0)
  for (const served of [front, back]) assert.equal((await served.stop()).code, 0)
})
