import assert from 'node:assert/strict'
import { test } from 'node:test'
import { demoCliOn } from '../../../test/support/cli.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { openTelegramServer, TELEGRAM_TOKEN } from '../../../test/support/telegram-server.ts'
import { channelRegistrations, recordHealth, registerChannel } from '../../core/delivery/channel-registrations.ts'
import { systemClock } from '../../lib/clock.ts'
import { sourceOf } from '../../lib/settings.ts'
import { findInstance, openInstance } from '../instance/instance.ts'

onEveryEngine('svc channel', (engine) => {
  test('adds, lists, rotates and removes the secret of an adapter', async (t) => {
    const cli = await demoCliOn(t, engine)
    assert.equal((await cli.run('channel demo list')).stderr, 'no adapter secrets, and no adapter is registered\n')
    const made = await cli.run('channel demo add bridge --platforms discord,slack')
    const secret = /^name: bridge\nplatforms: discord,slack\nsecret: (\S{43})\n$/.exec(made.stdout)?.[1] ?? ''
    assert.notEqual(secret, '')
    assert.match(made.stderr, /instead of CHANNEL_SECRET\. It is stored as a hash and not shown again\.\n$/)
    const listed = await cli.ok('channel demo list')
    assert.match(listed, /^NAME\tPLATFORMS\tCREATED_AT\tADAPTERS\nbridge\tdiscord,slack\t\S+Z\t-\n$/)
    assert.ok(!listed.includes(secret))
    const again = await cli.run('channel demo add bridge -p discord')
    assert.equal(again.code, 1)
    assert.match(again.stderr, /the adapter bridge has a secret already/)
    assert.match(again.stderr, /svc channel demo rotate bridge replaces it/)
    const rotated = JSON.parse(await cli.ok('channel demo rotate bridge --json'))
    assert.deepEqual(
      [rotated.name, rotated.platforms, rotated.ended, rotated.secret === secret],
      ['bridge', ['discord', 'slack'], [], false],
    )
    const [row] = JSON.parse(await cli.ok('channel demo list --json'))
    assert.deepEqual(Object.keys(row), ['name', 'platforms', 'created_at', 'created_by', 'adapters'])
    assert.equal(await cli.ok('channel demo rm bridge'), 'removed the secret of bridge\n')
    assert.equal((await cli.run('channel demo rm bridge')).stderr, 'svc: there is no secret for the adapter bridge\n')
    const last = await cli.ok('channel demo add bridge -p discord --json')
    assert.equal(JSON.parse(last).platforms.join(), 'discord')
    assert.deepEqual(JSON.parse(await cli.ok('channel demo rm bridge --json')), { name: 'bridge', ended: [] })
  })

  test('shows the state of an adapter and the QR code of a sign-in', async (t) => {
    const cli = await demoCliOn(t, engine)
    const environment = sourceOf('the environment', new Map([['SVC_DATA_DIR', cli.dir]]))
    const host = await openInstance(await findInstance('demo', environment), { clock: systemClock })
    const wanted = { name: 'whats', url: 'http://127.0.0.1:9', jid_prefixes: ['whatsapp:'], capabilities: {} }
    await host.engine.transaction(async (tx) => {
      await registerChannel(tx, host, { ...wanted, secret_name: undefined })
      const row = await channelRegistrations.find(tx, { name: 'whats' })
      assert.ok(row)
      const report = {
        state: 'login_needed',
        detail: 'scan it',
        since: '2026-01-01T00:00:00.000Z',
        qr: '2@code',
      } as const
      await recordHealth(tx, host, row, { isAlive: true, report })
    })
    await host.close()
    const { stdout, stderr } = await cli.run('channel demo status')
    assert.match(stdout, /^ADAPTER\tPLATFORMS\tHEALTH\tCHECKED_AT\tSEEN_AT\tSTATE\tSINCE\tDETAIL\n/)
    assert.match(stdout, /\tlogin_needed\t2026-01-01T00:00:00.000Z\tscan it\n/)
    assert.match(stdout, /\n[█▀▄ ]{20,}\n/)
    assert.match(stderr, /^Scan this with the account of whats\./)
    const { adapters } = JSON.parse(await cli.ok('channel demo status --json'))
    assert.deepEqual([adapters[0].state, adapters[0].qr], ['login_needed', '2@code'])
    const doctor = (await cli.run('doctor demo')).stdout
    assert.ok(
      doctor.includes('adapters: whats needs a sign-in at its platform since 2026-01-01T00:00:00.000Z: scan it\n'),
      doctor,
    )
    assert.ok(!doctor.includes('2@code'))
    const listed = await cli.ok('channel demo list --json')
    assert.ok(listed.includes('"state": "login_needed"') && !listed.includes('2@code'))
  })

  test('connects an account, lists it as an adapter and removes it', async (t) => {
    const cli = await demoCliOn(t, engine)
    const telegram = await openTelegramServer(t)
    const env = { TELEGRAM_API_URL: telegram.url }
    const add = (line: string, stdin = `${TELEGRAM_TOKEN}\n`) => cli.run(`channel demo add ${line}`, { stdin, env })
    const added = await add('telegram --token -')
    assert.deepEqual(
      [added.code, added.stdout],
      [0, 'connected telegram as @ada_test_bot (Ada)\ninvite: https://t.me/ada_test_bot?startgroup=true\n'],
    )
    assert.match(added.stderr, /svc channel demo status shows its state; svc group demo add telegram:<chat> <folder>/)
    const json = await add('telegram --account work --set bots=allow --token - --json')
    const { account, settings, name: shown } = JSON.parse(json.stdout)
    assert.deepEqual([account, settings, shown], ['telegram-work', { bots: 'allow' }, '@ada_test_bot (Ada)'])
    const probed = await cli.run('channel demo status --probe --json', { env })
    const name = '@ada_test_bot (Ada)'
    assert.deepEqual(JSON.parse(probed.stdout).accounts, [
      { account: 'telegram', name },
      { account: 'telegram-work', name },
    ])
    assert.match(await cli.ok('channel demo list'), /\ntelegram\ttelegram\t\S+\t-\ntelegram-work\ttelegram-work\t/)
    assert.match(
      (await cli.run('channel demo rotate telegram')).stderr,
      /svc starts the adapter telegram itself, and its secret cannot be rotated/,
    )
    assert.equal(await cli.ok('channel demo set telegram dm open'), 'telegram dm -> open\n')
    const wrong = await cli.run('channel demo set telegram dm all')
    assert.match(wrong.stderr, /^svc: dm must be pairing, allowlist, open or off: who may start a direct chat\n/)
    assert.equal(await cli.ok('channel demo rm telegram'), 'removed the account telegram\n')
    const asked: string[] = []
    const typed = await cli.run('channel demo add telegram', {
      env,
      terminal: true,
      ask: async (question) => {
        asked.push(question)
        return TELEGRAM_TOKEN
      },
    })
    assert.deepEqual([typed.code, asked.length], [0, 1])
    assert.match(asked[0] ?? '', /token of the bot/)
    for (const ran of [added, json, typed]) assert.ok(!(ran.stdout + ran.stderr).includes(TELEGRAM_TOKEN))
  })

  test('refuses an account with a sentence, and saves nothing', async (t) => {
    const cli = await demoCliOn(t, engine)
    const telegram = await openTelegramServer(t)
    telegram.revoke()
    const env = { TELEGRAM_API_URL: telegram.url }
    for (const [line, stdin, sentence] of [
      ['telegram --token -', `${TELEGRAM_TOKEN}\n`, /Telegram does not accept this token/],
      ['telegram --token -', 'a token\n', /the token of the bot must look like/],
      ['telegram --token -', '', /the token of the bot must look like/],
      ['telegram --token 1:x', '', /--token takes -, and the secret comes on stdin/],
      ['telegram', '', /no terminal: give --token -, and the secrets on stdin, one a line/],
      ['telegram --set bots --token -', '', /--set takes <name>=<value>, not bots/],
      ['telegram --account Work --token -', '', /the name of an account has 1 to 32/],
      ['icq --token -', '', /icq is none of telegram, slack, discord, email; --platforms <list>/],
      ['bridge -p discord --token -', '', /--platforms makes a secret for an adapter of your own/],
    ] as const) {
      const ran = await cli.run(`channel demo add ${line}`, { stdin, env })
      assert.deepEqual([ran.code, ran.stdout], [1, ''], `${line}: ${ran.stderr}`)
      assert.match(ran.stderr, sentence)
      assert.ok(!ran.stderr.includes('a token'))
    }
    assert.equal(await cli.ok('channel demo list'), '')
  })

  test('refuses platforms that are reserved for accounts, and an empty list', async (t) => {
    const cli = await demoCliOn(t, engine)
    const github = await cli.run('channel demo add bridge -p discord,github')
    assert.deepEqual([github.code, github.stderr], [1, 'svc: platforms: "github" is reserved for accounts\n'])
    assert.match((await cli.run('channel demo add bridge -p ,')).stderr, /^svc: platforms needs at least 1/)
    assert.equal(await cli.ok('channel demo list'), '')
  })
})
