// A form of the dashboard changes something once, although the server is killed while it is carried out and the browser sends
// it again.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { onEveryEngine } from '../support/host.ts'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { repeatableRandom } from '../support/repeatable-random.ts'
import { browserOf, cookiesOf, formRequest, type SignedInBrowser } from '../support/sign-in.ts'

const KILLS = { sqlite: 3, postgres: 1 }
const CLIENTS = 4
/** Delay of the kill after the first response. */
const [LEAST_MS, MOST_MS] = [5, 250]
const PATH = '/dash/folders/main?view=links'

type Form = Readonly<Record<string, string>> & { readonly jid_suffix: string }

/** Each creates a link, so that a second run would be a second row. */
function newForm(): Form {
  const id = randomUUID()
  return { action: 'chat', form: 'chat', form_key: id, target_folder: 'main', tools: 'chat', jid_suffix: id }
}

/** Sends one form after the other until the server is gone, and returns those without a response. */
async function sendUntilGone(
  browser: SignedInBrowser,
  onResponse: (form: Form, status: number) => void,
): Promise<Form> {
  for (;;) {
    const form = newForm()
    const status = await statusOf(browser, form).catch(() => undefined)
    if (status === undefined) return form
    onResponse(form, status)
  }
}

async function statusOf(browser: SignedInBrowser, form: Form): Promise<number> {
  const response = await browser.post(PATH, form)
  await response.arrayBuffer()
  return response.status
}

onEveryEngine('a dashboard whose server is killed during forms', (engine) => {
  test('carries out every form once', async (t) => {
    const by = repeatableRandom(t)
    const demo = await openLinkedInstance(t, engine)
    await demo.run('group', 'demo', 'grant', 'local:ada', 'main')
    const { stdout } = await demo.run('login', 'demo', 'local:ada')
    const link = /\/auth\/link\/\S+/.exec(stdout)?.[0] ?? assert.fail(stdout)
    let served = await demo.start()
    const url = (): string => served.urls.get('proxyd') ?? ''
    const signedIn = await fetch(url() + link, formRequest(url(), {}))
    const browser = await browserOf({ url } as Parameters<typeof browserOf>[0], cookiesOf(signedIn))
    const [all, answers]: [Form[], number[]] = [[], []]
    for (let kill = 0; kill < KILLS[engine]; kill++) {
      const begun = Promise.withResolvers<void>()
      const clients = Array.from({ length: CLIENTS }, () =>
        sendUntilGone(browser, (form, status) => {
          assert.equal(status, 200)
          all.push(form)
          begun.resolve()
        }),
      )
      await begun.promise
      await pause(by.between(LEAST_MS, MOST_MS))
      await served.kill()
      const unanswered = await Promise.all(clients)
      served = await demo.start()
      for (const form of unanswered) answers.push(await statusOf(browser, form))
      all.push(...unanswered)
    }
    t.diagnostic(`responses to forms that were sent again: ${answers.join(', ')}`)
    assert.deepEqual(
      answers.filter((status) => status !== 200 && status !== 409),
      [],
    )
    const rows = await demo.query('select jid from route_tokens')
    const count = (suffix: string): number => rows.filter(({ jid }) => jid === `web:main/${suffix}`).length
    assert.deepEqual(
      all.filter(({ jid_suffix }) => count(jid_suffix) !== 1),
      [],
    )
    await served.stop()
  })
})
