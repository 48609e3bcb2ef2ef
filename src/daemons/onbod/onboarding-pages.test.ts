import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { type ServedHost, serveHost } from '../../../test/support/served-host.ts'
import { signIn } from '../../../test/support/sign-in.ts'
import { until } from '../../../test/support/until.ts'
import { onboarding } from '../../core/people/onboarding.ts'
import { onboardingResource } from '../../resources/onboarding.ts'
import { onboardingGatesResource } from '../../resources/onboarding-gates.ts'

async function open(t: TestContext, engine: EngineName): Promise<ServedHost> {
  const served = await serveHost(t, { on: await testHost(t, engine), daemons: ['proxyd', 'authd', 'onbod'] })
  await served.groups('main')
  return served
}

onEveryEngine('the page for a folder', (engine) => {
  test('asks a person without access for a name and shows the state of the request', async (t) => {
    const on = await open(t, engine)
    const [ada, bob] = [await signIn(on, 'local:ada'), await signIn(on, 'local:bob')]
    assert.match(await (await ada.get('/onboard')).text(), /Choose a name to ask for one/)
    const taken = await ada.post('/onboard', { folder: '<main>' })
    assert.equal(taken.status, 400)
    const text = await taken.text()
    assert.match(text, /That is not a folder name/)
    assert.match(text, /value="&lt;main&gt;"/)
    assert.match(await (await ada.post('/onboard', { folder: 'main' })).text(), /The name main is not available/)
    assert.equal((await ada.post('/onboard', { folder: 'ada' })).status, 303)
    assert.equal((await bob.post('/onboard', { folder: 'bob' })).status, 303)
    assert.match(
      await (await ada.get('/onboard')).text(),
      /<code>ada<\/code> is waiting\. An operator of this server decides/,
    )
    assert.equal((await ada.post('/onboard', { folder: 'more' })).status, 409)
    await on.cli.call(onboardingGatesResource.verbs.put, { spec: '*', daily_limit: 1 })
    await until(async () => {
      const row = await on.host.engine.read((tx) => onboarding.find(tx, { jid: 'local:ada' }))
      return row?.status === 'approved'
    })
    assert.match(await (await ada.get('/onboard')).text(), /You are in: <code>ada<\/code> is your folder/)
    const opened = await ada.post('/onboard', { action: 'open' })
    assert.match(opened.headers.get('Location') ?? '', /^\/chat\/~[^/]+\/$/)
    await until(async () => /number 1 in the queue/.test(await (await bob.get('/onboard')).text()))
    const { update } = onboardingResource.verbs
    await on.cli.call(update, { jid: 'local:bob', action: 'refuse' })
    assert.match(await (await bob.get('/onboard')).text(), /was refused/)
    await on.cli.call(update, { jid: 'local:bob', action: 'reprompt' })
    assert.match(await (await bob.get('/onboard')).text(), /Choose a name/)
  })

  test('sends others to the sign-in page and accepts no forms of other sites', async (t) => {
    const on = await open(t, engine)
    const stranger = await fetch(`${on.url()}/onboard`, { redirect: 'manual', headers: { Accept: 'text/html' } })
    assert.deepEqual([stranger.status, stranger.headers.get('Location')], [303, '/auth/sign-in?next=%2Fonboard'])
    const ada = await signIn(on, 'local:ada')
    assert.equal((await ada.post('/onboard', { folder: 'ada' }, { Origin: 'https://evil.example' })).status, 403)
    assert.equal((await ada.post('/onboard', { folder: 'ada', csrf: 'x' })).status, 403)
    const bearer = await on.bearer({ sub: 'local:ada', ttlMs: 60_000 })
    assert.equal((await on.ask('/onboard', bearer, { redirect: 'manual' })).status, 303)
    assert.equal(await on.host.engine.read((tx) => onboarding.count(tx)), 0)
  })

  test('offers nothing to a person who has access', async (t) => {
    const on = await open(t, engine)
    await on.grant('local:ada', 'interact', 'main')
    const ada = await signIn(on, 'local:ada')
    assert.match(await (await ada.get('/onboard')).text(), /You have access to a folder/)
    assert.equal((await ada.post('/onboard', { folder: 'ada' })).status, 403)
  })
})
