import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { type Dashboard, serveDashboard } from '../../../../test/support/dashboard.ts'
import { followForm, postForm } from '../../../../test/support/dashboard-forms.ts'
import { groups } from '../../../core/groups/groups.ts'
import { setUpFolder } from '../../../core/groups/products.ts'
import { groupDirs } from '../../../core/layout.ts'
import { conversations, sessionLog } from '../../../core/turns/conversations.ts'
import { groupsResource } from '../../../resources/groups.ts'

const AT = '2026-01-01T00:00:00.000Z'
const INJECTION = '<script>alert(1)</script>'
const ESCAPED = '&lt;script&gt;alert(1)&lt;/script&gt;'

function homeOf({ host }: Dashboard, folder: string): string {
  assert.ok(host.layout)
  return groupDirs(host.layout, folder).home
}

async function open(t: Parameters<typeof serveDashboard>[0]): Promise<Dashboard> {
  const dash = await serveDashboard(t)
  assert.ok(dash.host.layout)
  await setUpFolder(dash.host.layout, 'team')
  return dash
}

const textOf = async (response: Promise<Response>): Promise<string> => (await response).text()
const VIEWS = ['overview', 'agent', 'chat', 'budget', 'sessions', 'children', 'remove']

suite('views of a folder', () => {
  test('are shown only to operators and to administrators of the folder', async (t) => {
    const dash = await open(t)
    for (const view of VIEWS) {
      const path = `/dash/folders/team?view=${view}`
      for (const browser of [dash.operator, dash.admin]) {
        const page = await browser.get(path)
        assert.equal(page.status, 200, view)
        const body = await page.text()
        assert.match(body, /aria-current="page"/)
        assert.ok(!/ style=|<script(?! src=)/.test(body), view)
      }
      const hidden = await dash.stranger.get(path)
      assert.equal(hidden.status, 404, view)
      assert.ok(!(await hidden.text()).includes('team'))
      assert.equal((await dash.admin.get(`/dash/folders/other?view=${view}`)).status, 404)
    }
  })

  test('escape names that other people have chosen', async (t) => {
    const dash = await open(t)
    await dash.cli.call(groupsResource.verbs.set, { folder: 'team', key: 'name', to: INJECTION })
    await dash.host.engine.transaction(async (tx) => {
      const row = { folder: 'team', waiting: 0, observed_seq: 0, updated_at: AT, session_id: 's' }
      await conversations.insert(tx, { ...row, topic: INJECTION })
      const event = { folder: 'team', topic: INJECTION, event: 'turn', message_count: 1 } as const
      await sessionLog.append(tx, { ...event, error: INJECTION, started_at: AT, ended_at: AT })
    })
    writeFileSync(join(homeOf(dash, 'team'), 'PERSONA.md'), `</textarea>${INJECTION}`)
    const paths = ['', '?view=sessions', `?view=sessions&history=1&topic=${encodeURIComponent(INJECTION)}`]
    for (const path of [...paths, '?view=agent&file=PERSONA.md']) {
      const body = await textOf(dash.operator.get(`/dash/folders/team${path}`))
      assert.ok(body.includes(ESCAPED), path)
      assert.ok(!body.includes(INJECTION), path)
    }
  })

  test('overview: an administrator changes the name, but not limits', async (t) => {
    const dash = await open(t)
    const path = '/dash/folders/team'
    const page = await followForm(dash.admin, path, { action: 'set', key: 'name', to: 'The Team' })
    assert.match(page, /Name saved\./)
    assert.match(page, /The Team/)
    assert.ok(!page.includes('form-set-max_children'))
    assert.match(await textOf(dash.operator.get(path)), /form-set-max_children/)
    assert.equal((await postForm(dash.admin, path, { action: 'set', key: 'max_children', to: '9' })).status, 403)
    assert.equal((await postForm(dash.stranger, path, { action: 'set', key: 'name', to: 'x' })).status, 404)
  })

  test('agent: edits a file, and a save over another change is refused with both texts', async (t) => {
    const dash = await open(t)
    const path = '/dash/folders/team?view=agent&file=PERSONA.md'
    const body = await textOf(dash.admin.get(path))
    const [, version = ''] = /name="version" value="([^"]+)"/.exec(body) ?? []
    const save = { action: 'save_file', name: 'PERSONA.md', version }
    const saved = await followForm(dash.admin, path, { ...save, content: 'Be kind.\r\nBe brief.\r\n' })
    assert.match(saved, /PERSONA\.md saved\./)
    assert.equal(readFileSync(join(homeOf(dash, 'team'), 'PERSONA.md'), 'utf8'), 'Be kind.\nBe brief.\n')
    const refused = await postForm(dash.operator, path, { ...save, content: 'Of someone else' })
    assert.equal(refused.status, 409)
    const both = await refused.text()
    assert.match(both, /was changed meanwhile/)
    assert.match(both, /Of someone else<\/textarea>/)
    assert.match(both, /id="current-file">.*Be kind\./s)
    assert.equal(readFileSync(join(homeOf(dash, 'team'), 'PERSONA.md'), 'utf8'), 'Be kind.\nBe brief.\n')
    const wrong = { ...save, version: 'none', content: 'x' }
    assert.equal((await postForm(dash.admin, '/dash/folders/other?view=agent', wrong)).status, 404)
    assert.equal((await postForm(dash.stranger, path, wrong)).status, 404)
    assert.equal((await dash.admin.get('/dash/folders/team?view=agent&file=.env')).status, 404)
    const others = join(homeOf(dash, 'other'), 'PERSONA.md')
    assert.notEqual(existsSync(others) && readFileSync(others, 'utf8'), 'x')
  })

  test('agent: lists files and skills', async (t) => {
    const dash = await open(t)
    const body = await textOf(dash.admin.get('/dash/folders/team?view=agent'))
    assert.match(body, /file=PERSONA\.md/)
    assert.match(body, /The agent has no skills/)
    assert.match(body, /Only operators of this server can choose another runtime/)
    assert.match(await textOf(dash.operator.get('/dash/folders/team?view=agent')), /kind=openrouter/)
  })

  test('agent: creates a skill, edits its text, and says which package it is from', async (t) => {
    const dash = await open(t)
    const path = '/dash/folders/team?view=agent'
    const skill = { action: 'create_skill', skill: 'report', description: 'Writes "reports".' }
    const created = await postForm(dash.admin, path, skill)
    const editor = created.headers.get('Location') ?? ''
    assert.deepEqual([created.status, editor], [303, `${path}&file=.claude%2Fskills%2Freport%2FSKILL.md`])
    const file = join(homeOf(dash, 'team'), '.claude/skills/report/SKILL.md')
    const text = '---\nname: report\ndescription: "Writes \\"reports\\"."\n---\n\n# report\n'
    assert.equal(readFileSync(file, 'utf8'), text)
    const body = await textOf(dash.admin.get(path))
    assert.match(body, /<a href="[^"]*file=.claude%2Fskills%2Freport%2FSKILL.md">report<\/a>/)
    const shown = await textOf(dash.admin.get(editor))
    assert.ok(!shown.includes('part of the package'))
    const [, version = ''] = /name="version" value="([^"]+)"/.exec(shown) ?? []
    const name = '.claude/skills/report/SKILL.md'
    const saved = await postForm(dash.admin, editor, { action: 'save_file', name, version, content: 'How to do it.' })
    assert.equal(saved.status, 303)
    assert.equal(readFileSync(file, 'utf8'), 'How to do it.')
    writeFileSync(join(homeOf(dash, 'team'), '.claude/skills/report/.package'), 'office\n')
    assert.ok(!(await textOf(dash.admin.get(editor))).includes('part of the package'), 'not installed')
    const installed = join(dash.host.layout?.packageSkills ?? '', 'report')
    mkdirSync(installed, { recursive: true })
    writeFileSync(join(installed, '.package'), 'office\n')
    assert.match(
      await textOf(dash.admin.get(editor)),
      /It is part of the package office, whose updates keep your changes\./,
    )
    const again = await postForm(dash.admin, path, skill)
    assert.equal(again.status, 409)
    assert.match(await again.text(), /exists already/)
    assert.equal(readFileSync(file, 'utf8'), 'How to do it.')
    for (const wrong of ['../up', '.hidden', 'a b', 'x'.repeat(65)])
      assert.equal((await postForm(dash.admin, path, { ...skill, skill: wrong })).status, 400, wrong)
    assert.equal((await postForm(dash.stranger, path, { ...skill, skill: 'mine' })).status, 404)
    assert.deepEqual(readdirSync(join(homeOf(dash, 'team'), '.claude/skills')), ['report'])
  })

  test('agent: deletes a skill of the folder after a question, and offers no deletion of those of packages', async (t) => {
    const dash = await open(t)
    const path = '/dash/folders/team?view=agent'
    const skills = join(homeOf(dash, 'team'), '.claude/skills')
    await postForm(dash.admin, path, { action: 'create_skill', skill: 'report', description: 'Writes reports.' })
    writeFileSync(join(skills, 'report/.package'), 'office\n')
    const installed = join(dash.host.layout?.packageSkills ?? '', 'report')
    mkdirSync(installed, { recursive: true })
    writeFileSync(join(installed, '.package'), 'office\n')
    const remove = { action: 'remove_skill', folder: 'team', skill: 'report', confirmed: 'yes' }
    assert.ok(!(await textOf(dash.admin.get(path))).includes('Delete the skill report'))
    assert.match(await textOf(dash.admin.post(path, remove)), /Skill report is part of the package office/)
    rmSync(installed, { recursive: true })
    assert.match(await textOf(dash.admin.get(path)), /aria-label="Delete the skill report"/)
    const asked = await textOf(dash.admin.post(path, { ...remove, confirmed: '' }))
    assert.match(asked, /Delete the skill report with all its files\?/)
    assert.ok(existsSync(join(skills, 'report/SKILL.md')))
    assert.equal((await dash.stranger.post(path, remove)).status, 404)
    assert.ok(existsSync(join(skills, 'report/SKILL.md')))
    assert.equal((await dash.admin.post(path, remove)).status, 303)
    assert.deepEqual(readdirSync(skills), [])
  })

  test('agent: its files and skills can be downloaded', async (t) => {
    const dash = await open(t)
    const path = '/dash/folders/team?view=agent'
    await postForm(dash.admin, path, { action: 'create_skill', skill: 'report', description: 'Writes reports.' })
    assert.equal(
      await textOf(dash.admin.get(`${path}&format=csv&list=skills-list`)),
      'skill,what_it_does,from\r\nreport,Writes reports.,the folder\r\n',
    )
    const files = (await (await dash.admin.get(`${path}&format=json&list=agent-files`)).json()) as { file: string }[]
    assert.ok(files.some(({ file }) => file === 'PERSONA.md'))
  })

  test('chat: leads to the chat of the person, made once', async (t) => {
    const dash = await open(t)
    const path = '/dash/folders/team?view=chat'
    const opened = await postForm(dash.admin, path, { action: 'chat' })
    const chat = opened.headers.get('Location') ?? ''
    assert.match(chat, /^\/chat\/~/)
    assert.equal((await dash.admin.get(chat)).status, 200)
    assert.equal((await dash.operator.get(chat)).status, 401)
    assert.equal((await postForm(dash.admin, path, { action: 'chat' })).headers.get('Location'), chat)
  })

  test('budget: administrators of the parent set the cap', async (t) => {
    const dash = await open(t)
    const page = await followForm(dash.admin, '/dash/folders/team/sub?view=budget', {
      action: 'set_budget',
      dollars: '2.50',
    })
    assert.match(page, /may spend \$2\.50 a day/)
    const row = await dash.host.engine.read((tx) => groups.find(tx, { folder: 'team/sub' }))
    assert.equal(row?.cost_cap_cents_per_day, 250)
    assert.ok(!(await textOf(dash.admin.get('/dash/folders/team?view=budget'))).includes('form-set_budget'))
    const own = await postForm(dash.admin, '/dash/folders/team?view=budget', { action: 'set_budget', dollars: '9' })
    assert.equal(own.status, 403)
    const bad = await postForm(dash.operator, '/dash/folders/team?view=budget', {
      action: 'set_budget',
      dollars: 'much',
    })
    assert.equal(bad.status, 400)
    assert.match(await bad.text(), /value="much"/)
  })

  test('sessions: resets after a question, and forks', async (t) => {
    const dash = await open(t)
    const row = { folder: 'team', waiting: 0, observed_seq: 0, updated_at: AT, session_id: 's-1' }
    await dash.host.engine.transaction((tx) => conversations.insert(tx, { ...row, topic: '' }))
    const path = '/dash/folders/team?view=sessions'
    assert.match(await textOf(dash.admin.get(path)), /main topic/)
    const read = (topic: string) => dash.host.engine.read((tx) => conversations.find(tx, { folder: 'team', topic }))
    await followForm(dash.admin, path, { action: 'fork', parent: '', child: 'plans' })
    assert.equal((await read('plans'))?.parent_session, 's-1')
    const question = await postForm(dash.admin, path, { action: 'reset', topic: '', label: '' })
    assert.match(await question.text(), /Start a new session in the main topic\?/)
    assert.equal((await read(''))?.session_id, 's-1')
    await followForm(dash.admin, path, { action: 'reset', topic: '', label: '', confirmed: 'yes' })
    assert.equal((await read(''))?.session_id, undefined)
    assert.match(await textOf(dash.admin.get(`${path}&history=1`)), /reset/)
    const csv = await textOf(dash.admin.get(`${path}&format=csv`))
    assert.match(csv, /^topic,kind,state,waiting,session,forked_from,last_use\r\n/)
  })

  test('children: creates a folder below', async (t) => {
    const dash = await open(t)
    const path = '/dash/folders/team?view=children'
    const form = { action: 'create_child', leaf: 'sales', name: 'Sales', product: 'support' }
    const created = await postForm(dash.admin, path, form)
    assert.equal(created.headers.get('Location'), '/dash/folders/team/sales')
    assert.ok(existsSync(join(homeOf(dash, 'team/sales'), 'PERSONA.md')))
    const body = await textOf(dash.admin.get(path))
    assert.match(body, /team\/<\/span>sales/)
    assert.ok(!body.includes('other'))
    assert.equal((await postForm(dash.admin, path, form)).status, 409)
    assert.equal((await postForm(dash.admin, path, { ...form, leaf: '../x' })).status, 400)
  })

  test('remove: shows what goes, and needs the name of the folder', async (t) => {
    const dash = await open(t)
    const path = '/dash/folders/team/sub?view=remove'
    assert.match(await textOf(dash.admin.get(path)), /Stays without a folder/)
    assert.equal((await postForm(dash.admin, path, { action: 'remove', typed: 'team' })).status, 400)
    const removed = await postForm(dash.admin, path, { action: 'remove', typed: 'team/sub', purge: 'true' })
    assert.equal(removed.headers.get('Location'), '/dash/folders')
    assert.equal((await dash.admin.get('/dash/folders/team/sub')).status, 404)
    await dash.cli.call(groupsResource.verbs.add, { folder: 'main' })
    assert.match(await textOf(dash.operator.get('/dash/folders/main?view=remove')), /main cannot be removed/)
  })
})
