// Audit rows tell what was done, not what was said: every verb and every tool, with content in each field that takes it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { digestOf } from '../src/lib/log/redact.ts'
import { audit, writeAudit } from '../src/registry/audit.ts'
import type { NamedVerb } from '../src/registry/resource.ts'
import { resources } from '../src/resources/index.ts'
import { tools } from '../src/tools/index.ts'
import { agents } from './support/agents.ts'
import { agent, onEveryEngine, testHost } from './support/host.ts'
import { run } from './support/sql.ts'

const SENTENCE = 'the visitor said a secret'
/** No name, folder, chat or time has two lines. */
const CONTENT = `${SENTENCE}\nand more of it`
const TOKEN = 'Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE'

const VERBS: readonly NamedVerb[] = [...resources.flatMap(({ verbs }) => Object.values(verbs)), ...tools]

/** A value of this schema with `said` wherever text of any lines is taken; nothing where it takes none. */
function filled(schema: unknown, said: string): unknown {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return filled(schema.unwrap(), said)
  if (schema instanceof z.ZodArray) {
    const element = filled(schema.element, said)
    return element === undefined ? undefined : [element]
  }
  if (schema instanceof z.ZodObject) {
    const fields = Object.entries(schema.shape).map(([name, field]) => [name, filled(field, said)])
    const given = fields.filter(([, value]) => value !== undefined)
    return given.length === 0 ? undefined : Object.fromEntries(given)
  }
  return schema instanceof z.ZodType && schema.safeParse(said).success ? said : undefined
}

/** Texts of one line that are content all the same. */
const TITLES = { 'tools.pane_set_title': { title: SENTENCE } }

/** Fields whose schema takes any text, and that are no content: they are kept, and their rules are checked elsewhere. */
const KEPT = new Set([
  ...['acl.grant params', 'acl.grant predicate', 'acl.ungrant params', 'acl.ungrant predicate'],
  ...['scheduled_tasks.schedule cron', 'identities.link id', 'signing_keys.issue_bearer sub'],
])

onEveryEngine('audit rows', (engine) => {
  test('hold no content, whichever verb or tool it was given to', async (t) => {
    const { host } = await testHost(t, engine)
    const asking = { host, caller: agent('main'), face: 'tool' as const }
    const told: string[] = []
    await host.engine.transaction(async (tx) => {
      for (const verb of VERBS) {
        const input: Record<string, unknown> = Object.assign(
          {},
          filled(verb.input, CONTENT),
          TITLES[verb.id as keyof typeof TITLES],
        )
        for (const name of Object.keys(input)) {
          if (KEPT.has(`${verb.id} ${name}`)) delete input[name]
          else told.push(`${verb.toolName} ${name}`)
        }
        for (const result of ['ok', 'denied'] as const)
          await writeAudit(tx, asking, verb, { input }, { result, durationMs: 0 })
      }
    })
    for (const name of ['send text', 'reply text', 'schedule_task prompt', 'set_work content', 'pane_set_title title'])
      assert.ok(told.includes(name), `${name} is not among ${told.join(', ')}`)
    for (const row of await host.engine.read((tx) => audit.list(tx)))
      assert.ok(!JSON.stringify(row).includes(SENTENCE), JSON.stringify(row))
  })

  test('hold no credential, whichever field it was written to', async (t) => {
    const { host } = await testHost(t, engine)
    const asking = { host, caller: agent('main'), face: 'tool' as const }
    const padding = 'x '.repeat(90)
    await host.engine.transaction(async (tx) => {
      for (const verb of VERBS)
        for (const said of [TOKEN, `/chat/${TOKEN}/`, `${padding}${TOKEN}`]) {
          const names = Object.keys(verb.input.shape)
          const input = Object.fromEntries(names.map((name) => [name, [{ said }, said][names.indexOf(name) % 2]]))
          const outcome = { result: 'denied' as const, durationMs: 0, error: `not permitted on ${said}` }
          await writeAudit(tx, asking, verb, { input }, outcome)
        }
    })
    const rows = await host.engine.read((tx) => audit.list(tx))
    for (const row of rows) assert.ok(!JSON.stringify(row).includes(TOKEN.slice(0, 12)), JSON.stringify(row))
    assert.equal(rows[0]?.error_msg, `not permitted on ${digestOf(TOKEN)}`)
  })

  test('of what an agent says and is refused hold its length', async (t) => {
    const here = await agents(t, engine, ['main', 'team'])
    await here.begin({ id: 'turn-1', folder: 'team', jid: 'web:team' })
    const team = await here.open('team')
    const text = `Here is your link: http://localhost:8080/chat/${TOKEN}/`
    await team.call('reply', { chatJid: 'web:team', text })
    await team.refusal('send', { chatJid: 'web:main', text })
    const rows = await here.host.engine.read((tx) => audit.list(tx, { surface: 'tool' }))
    assert.deepEqual(
      rows.map(({ action, outcome, params_summary }) => [action, outcome, params_summary]),
      [
        ['tools.reply', 'ok', `{"chatJid":"web:team","text":"<redacted:${text.length} chars>"}`],
        ['tools.send', 'denied', `{"chatJid":"web:main","text":"<redacted:${text.length} chars>"}`],
      ],
    )
  })

  test('of an earlier version lose what was said in them', async (t) => {
    const { host } = await testHost(t, engine)
    const old = {
      ...{ created_at: '2026-01-01T00:00:00.000Z', category: 'mutation' as const, actor: 'folder:team', key: '' },
      ...{ surface: 'tool' as const, outcome: 'ok' as const, duration_ms: 1, instance: 'test' },
    }
    const rows = [
      { ...old, action: 'tools.reply', resource: 'tools', params_summary: `{"text":"${SENTENCE}"}` },
      { ...old, action: 'groups.add', resource: 'groups', params_summary: `{"name":"see /chat/${TOKEN}/"}` },
      { ...old, action: 'invites.revoke', resource: 'invites', key: TOKEN, params_summary: '{}' },
      { ...old, action: 'groups.add', resource: 'groups', key: 'team', params_summary: '{"folder":"team"}' },
    ]
    const steps = audit.storage.filter((step) => typeof step === 'string').filter((step) => /^update /.test(step))
    assert.ok(steps.length > 0)
    await host.engine.transaction(async (tx) => {
      for (const row of rows) await audit.append(tx, row)
      for (const step of steps) await run(tx, step)
    })
    const after = await host.engine.read((tx) => audit.list(tx))
    assert.deepEqual(
      after.map(({ action, key, params_summary }) => [action, key, params_summary]),
      [
        ['tools.reply', '', '{}'],
        ['groups.add', '', '{}'],
        ['invites.revoke', TOKEN.slice(0, 12), '{}'],
        ['groups.add', 'team', '{"folder":"team"}'],
      ],
    )
  })
})
