import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../layout.ts'
import { AGENT_FILE_MAX_BYTES, AgentFileName, AgentFileText, skillFile } from './agent-file.ts'
import { listAgentFiles, readAgentFile, writeAgentFile } from './agent-files.ts'

function workspace(t: TestContext) {
  const dirs = layout(tempDir(t))
  const home = join(dirs.groups, 'team')
  mkdirSync(home, { recursive: true })
  return {
    home,
    dirs,
    read: (name: AgentFileName) => readAgentFile(dirs, 'team', name),
    write: (name: AgentFileName, content: string, version: string) =>
      writeAgentFile(dirs, 'team', { name, content, version }),
  }
}

test('creates, reads and replaces a file by version', async (t) => {
  const { home, read, write } = workspace(t)
  assert.deepEqual(await read('.claude/CLAUDE.md'), {
    name: '.claude/CLAUDE.md',
    content: '',
    version: 'none',
    exists: false,
  })
  const first = await write('.claude/CLAUDE.md', 'one\n', 'none')
  assert.deepEqual(await read('.claude/CLAUDE.md'), {
    name: '.claude/CLAUDE.md',
    content: 'one\n',
    version: first,
    exists: true,
  })
  chmodSync(join(home, '.claude/CLAUDE.md'), 0o600)
  await write('.claude/CLAUDE.md', 'two\n', first)
  assert.equal(readFileSync(join(home, '.claude/CLAUDE.md'), 'utf8'), 'two\n')
  assert.equal(statSync(join(home, '.claude/CLAUDE.md')).mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(join(home, '.claude')), ['CLAUDE.md'])
})

test('names the text of a skill with a plain name, and no other file', () => {
  assert.equal(skillFile('weekly-report_2.0'), '.claude/skills/weekly-report_2.0/SKILL.md')
  assert.equal(skillFile('a'.repeat(64)), `.claude/skills/${'a'.repeat(64)}/SKILL.md`)
  for (const name of ['', '.', '..', '.a', '-a', 'a/b', 'a b', 'ü', 'a\n', 'a'.repeat(65)])
    assert.equal(skillFile(name), undefined, name)
  for (const name of ['.claude/skills/a/other.md', 'x/.claude/skills/a/SKILL.md', '.claude/skills/a/SKILL.md/b'])
    assert.equal(AgentFileName.safeParse(name).success, false, name)
})

test('refuses to replace another version and keeps the file', async (t) => {
  const { home, read, write } = workspace(t)
  const version = await write('PERSONA.md', 'mine', 'none')
  writeFileSync(join(home, 'PERSONA.md'), 'of the agent')
  await assert.rejects(write('PERSONA.md', 'newer', version), isRefusal('conflict', 'PERSONA.md was changed meanwhile'))
  await assert.rejects(write('PERSONA.md', 'newer', 'none'), isRefusal('conflict'))
  assert.equal((await read('PERSONA.md')).content, 'of the agent')
  await assert.rejects(write('MEMORY.md', 'x', version), isRefusal('conflict'))
  assert.deepEqual(readdirSync(home), ['PERSONA.md'])
})

test('lets one of several parallel saves of a version succeed', async (t) => {
  const { read, write } = workspace(t)
  for (const start of ['none', undefined]) {
    const version = start ?? (await read('CLAUDE.md')).version
    const texts = Array.from({ length: 8 }, (_, at) => `${start} ${at}`)
    const saves = await Promise.allSettled(texts.map((text) => write('CLAUDE.md', text, version)))
    const saved = texts.filter((_, at) => saves[at]?.status === 'fulfilled')
    assert.equal(saved.length, 1)
    assert.equal((await read('CLAUDE.md')).content, saved[0])
  }
})

test('refuses links in the path of a skill, and leaves what they lead to', async (t) => {
  const { home, dirs, read, write } = workspace(t)
  const elsewhere = join(dirs.root, 'elsewhere')
  mkdirSync(elsewhere)
  mkdirSync(join(home, '.claude/skills'), { recursive: true })
  symlinkSync(elsewhere, join(home, '.claude/skills/a'))
  const inSkill = isRefusal('conflict', '/.claude/skills/a: it is a symbolic link')
  await assert.rejects(read('.claude/skills/a/SKILL.md'), inSkill)
  await assert.rejects(write('.claude/skills/a/SKILL.md', 'x', 'none'), inSkill)
  assert.equal((await read('.claude/skills/b/SKILL.md')).exists, false)
  await write('.claude/skills/b/SKILL.md', 'x', 'none')
  assert.deepEqual(readdirSync(join(home, '.claude/skills')), ['a', 'b'])
  assert.deepEqual(readdirSync(elsewhere), [])
})

test('refuses links in the directories above a skill', async (t) => {
  const { home, dirs, read, write } = workspace(t)
  const elsewhere = join(dirs.root, 'elsewhere')
  mkdirSync(elsewhere)
  mkdirSync(join(home, '.claude'))
  symlinkSync(elsewhere, join(home, '.claude/skills'))
  const above = isRefusal('conflict', '/.claude/skills: it is a symbolic link')
  await assert.rejects(read('.claude/skills/a/SKILL.md'), above)
  await assert.rejects(write('.claude/skills/a/SKILL.md', 'x', 'none'), above)
  assert.deepEqual(readdirSync(elsewhere), [])
})

test('refuses links, directories, large files and other encodings', async (t) => {
  const { home, dirs, read, write } = workspace(t)
  writeFileSync(join(dirs.root, 'secret'), 'secret')
  symlinkSync(join(dirs.root, 'secret'), join(home, 'PERSONA.md'))
  symlinkSync(dirs.root, join(home, '.claude'))
  mkdirSync(join(home, 'AGENTS.md'))
  writeFileSync(join(home, 'MEMORY.md'), 'x'.repeat(AGENT_FILE_MAX_BYTES + 1))
  writeFileSync(join(home, 'work.md'), Buffer.from([0xff, 0xfe]))
  await assert.rejects(read('PERSONA.md'), isRefusal('invalid', '/home/node/PERSONA.md: it is a symbolic link'))
  await assert.rejects(write('PERSONA.md', 'x', 'none'), isRefusal('invalid', 'symbolic link'))
  await assert.rejects(read('.claude/CLAUDE.md'), isRefusal('conflict', '/home/node/.claude'))
  await assert.rejects(write('.claude/CLAUDE.md', 'x', 'none'), isRefusal('conflict'))
  await assert.rejects(read('AGENTS.md'), isRefusal('invalid', 'not a regular file'))
  await assert.rejects(read('MEMORY.md'), isRefusal('too_large'))
  await assert.rejects(read('work.md'), isRefusal('invalid', 'work.md is not UTF-8 text'))
  assert.equal(readFileSync(join(dirs.root, 'secret'), 'utf8'), 'secret')
  const faults = (await listAgentFiles(dirs, 'team')).filter(({ fault }) => fault !== undefined)
  assert.deepEqual(
    faults.map(({ name }) => name),
    ['PERSONA.md', '.claude/CLAUDE.md', 'AGENTS.md', 'MEMORY.md'],
  )
  assert.ok(!JSON.stringify(faults).includes(dirs.root))
})

test('refuses a workspace that is a link, and one that does not exist', async (t) => {
  const { home, dirs } = workspace(t)
  symlinkSync('/tmp', join(home, 'sub'))
  const change = { name: 'PERSONA.md', content: 'x', version: 'none' } as const
  await assert.rejects(writeAgentFile(dirs, 'team/sub', change), isRefusal('conflict'))
  await assert.rejects(readAgentFile(dirs, 'team/sub', 'PERSONA.md'), isRefusal('conflict'))
  await assert.rejects(writeAgentFile(dirs, 'other', change), isRefusal('not_found', 'other has no workspace'))
  assert.equal((await readAgentFile(dirs, 'other', 'PERSONA.md')).exists, false)
})

test('limits texts by bytes and refuses NUL', () => {
  assert.ok(AgentFileText.safeParse('ä'.repeat(AGENT_FILE_MAX_BYTES / 2)).success)
  assert.ok(!AgentFileText.safeParse('ä'.repeat(AGENT_FILE_MAX_BYTES / 2 + 1)).success)
  assert.ok(!AgentFileText.safeParse('a\u0000').success)
})
