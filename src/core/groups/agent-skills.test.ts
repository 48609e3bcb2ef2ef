import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../layout.ts'
import { SkillName } from './agent-file.ts'
import { listAgentSkills, removeAgentSkill } from './agent-skills.ts'

function openSkills(t: TestContext) {
  const dirs = layout(tempDir(t))
  const skills = join(dirs.groups, 'team/.claude/skills')
  const add = (name: string, files: Readonly<Record<string, string>>, parent = skills): void => {
    mkdirSync(join(parent, name), { recursive: true })
    for (const [file, text] of Object.entries(files)) writeFileSync(join(parent, name, file), text)
  }
  return {
    skills,
    add,
    install: (name: string) => add(name, { '.package': 'tools\n' }, dirs.packageSkills),
    list: () => listAgentSkills(dirs, 'team'),
    remove: (name: string) => removeAgentSkill(dirs, 'team', name),
  }
}

test('lists skills with their description and the installed package that they belong to', async (t) => {
  const { skills, add, install, list } = openSkills(t)
  assert.deepEqual(await list(), [])
  install('b')
  add('b', { 'SKILL.md': '---\nname: b\ndescription: "Does b. Use on b."\n---\nText', '.package': 'tools\n' })
  add('a', { 'SKILL.md': 'no front matter' })
  add('c', {})
  symlinkSync('/etc', join(skills, 'd'))
  add('e', {})
  symlinkSync('/etc/passwd', join(skills, 'e/SKILL.md'))
  add('f', { 'SKILL.md': '', '.package': 'of the agent\n' })
  assert.deepEqual(await list(), [
    { name: 'a' },
    { name: 'b', description: 'Does b. Use on b.', package: 'tools' },
    { name: 'c', fault: 'it has no SKILL.md' },
    { name: 'e', fault: 'its SKILL.md cannot be read' },
    { name: 'f' },
  ])
})

test('removes a skill with all its files, but nothing behind a link', async (t) => {
  const { skills, add, remove } = openSkills(t)
  const outside = join(tempDir(t), 'kept')
  mkdirSync(outside)
  writeFileSync(join(outside, 'file'), '')
  add('a', { 'SKILL.md': '' })
  add('deep/er', { 'notes.md': '' }, join(skills, 'a'))
  symlinkSync(outside, join(skills, 'a/link'))
  add('b', { 'SKILL.md': '' })
  await remove('a')
  assert.deepEqual(readdirSync(skills), ['b'])
  assert.ok(existsSync(join(outside, 'file')))
  symlinkSync(outside, join(skills, 'c'))
  for (const name of ['a', 'c']) await assert.rejects(remove(name), isRefusal('not_found', `there is no skill ${name}`))
  assert.deepEqual(readdirSync(skills), ['b', 'c'])
})

test('refuses to remove a skill of an installed package, and removes one that only claims to be', async (t) => {
  const { skills, add, install, remove } = openSkills(t)
  install('a')
  install('c')
  add('a', { 'SKILL.md': '', '.package': 'tools\n' })
  add('b', { 'SKILL.md': '', '.package': 'tools\n' })
  add('c', { 'SKILL.md': '', '.package': 'others\n' })
  add('d', { 'SKILL.md': '' })
  symlinkSync('/etc/passwd', join(skills, 'd/.package'))
  await assert.rejects(remove('a'), isRefusal('conflict', 'skill a is part of the package tools'))
  for (const name of ['b', 'c', 'd']) await remove(name)
  assert.deepEqual(readdirSync(join(skills, 'a')), ['.package', 'SKILL.md'])
  assert.deepEqual(readdirSync(skills), ['a'])
})

test('accepts names of directories as names of skills, and no paths', () => {
  for (const name of ['a', '.a', 'a b', '...', 'ü', 'a'.repeat(255)])
    assert.equal(SkillName.safeParse(name).success, true, name)
  for (const name of ['', '.', '..', '../a', 'a/b', '/', 'a\0', 'a\nb', 'a'.repeat(256)])
    assert.equal(SkillName.safeParse(name).success, false, name)
})
