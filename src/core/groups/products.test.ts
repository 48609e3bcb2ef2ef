import assert from 'node:assert/strict'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Directory } from '../../lib/files/directory.ts'
import { Refusal, type RefusalCode } from '../../lib/refusal.ts'
import { splitFrontMatter } from '../../lib/text/front-matter.ts'
import { layout } from '../layout.ts'
import { defaultTasks } from '../schedule/default-tasks.ts'
import { bundledProducts, copyProduct, findProduct, listProducts, type Product, setUpFolder } from './products.ts'

function freshDir(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'svc-products-'))
  t.after(() => rm(dir, { recursive: true, force: true }))
  return dir
}

function put(dir: string, files: Record<string, string>): string {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true })
    writeFileSync(join(dir, name), content)
  }
  return dir
}

const tree = (dir: string) =>
  readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(dir.length + 1))
    .toSorted()

const refused = (code: RefusalCode, sentence: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Refusal, String(error))
  assert.equal(error.code, code)
  assert.match(error.message, sentence)
  return true
}

const SHOP = {
  'shop/PRODUCT.md': '---\nname: shop\ntagline: Sells.\nskills: [sell, base/tidy]\n---\nAbout it.\n',
  'shop/PERSONA.md': 'A seller.\n',
  'shop/NOTES.md': 'not for the group\n',
  'shop/facts/prices.md': '1\n',
  'shop/facts/old/prices.md': '0\n',
  'shop/skills/sell/SKILL.md': 'sell\n',
  'shop/skills/sell/scripts/run.sh': '#!/bin/sh\n',
  'shop/skills/unlisted/SKILL.md': 'no\n',
  'base/PRODUCT.md': '---\nname: base\ntagline: Base.\nskills: [tidy]\n---\n',
  'base/skills/tidy/SKILL.md': 'tidy\n',
}

async function copyTo(product: Product, home: string): Promise<string[]> {
  await using directory = await Directory.make(home, 0o755)
  return await copyProduct(product, directory)
}

async function shopIn(root: string) {
  const product = await findProduct(put(root, SHOP), 'shop')
  assert.ok(product)
  return product
}

test('the bundled products are complete: each skill is listed, named like its directory and described', async () => {
  const products = await listProducts(bundledProducts)
  assert.deepEqual(
    products.map((product) => product.name),
    ['assistant', 'support'],
  )
  for (const product of products) {
    const own = product.skills.filter((skill) => skill.dir.startsWith(product.dir)).map((skill) => skill.name)
    assert.deepEqual(own.toSorted(), readdirSync(join(product.dir, 'skills')).toSorted())
    for (const { name, dir } of product.skills) {
      const { matter = '', body } = splitFrontMatter(readFileSync(join(dir, 'SKILL.md'), 'utf8'))
      assert.ok(matter.includes(`\nname: ${name}\n`), `${name} names itself`)
      assert.match(matter, /\ndescription: .{20,1000}\n/)
      assert.ok(body.trim().length > 200)
    }
    assert.match(splitFrontMatter(readFileSync(join(product.dir, 'PERSONA.md'), 'utf8')).matter ?? '', /\nsummary: \S/)
    assert.ok(readdirSync(join(product.dir, 'facts')).length > 0)
  }
})

test('every bundled product includes the skills that default tasks call', async () => {
  const called = new Set(defaultTasks('main').map(({ prompt }) => prompt.split(' ')[0]?.slice(1)))
  for (const product of await listProducts(bundledProducts)) {
    const names = new Set(product.skills.map((skill) => skill.name))
    assert.ok(
      [...called].every((name) => name !== undefined && names.has(name)),
      product.name,
    )
  }
})

test('finds a product by name, with its text, skills and variables', async (t) => {
  const product = await shopIn(freshDir(t))
  assert.equal(product.tagline, 'Sells.')
  assert.equal(product.about, 'About it.')
  assert.deepEqual(product.env, [])
  assert.deepEqual(
    product.skills.map((skill) => skill.name),
    ['sell', 'tidy'],
  )
})

test('finds nothing for an invalid or unknown name', async (t) => {
  const root = put(freshDir(t), { ...SHOP, file: 'x', 'empty/README.md': 'x' })
  for (const name of ['none', 'empty', 'file', '', '.', '..', '../shop', 'shop/', '/etc', 'SHOP', 'a\0b'])
    assert.equal(await findProduct(root, name), undefined, JSON.stringify(name))
  assert.deepEqual(
    (await listProducts(root)).map((product) => product.name),
    ['base', 'shop'],
  )
})

test('refuses an invalid product and names the file and the error', async (t) => {
  const root = freshDir(t)
  const cases: Record<string, RegExp> = {
    'no front matter': /PRODUCT\.md must start with YAML between two lines of ---$/,
    '---\nname: p\n': /must start with YAML/,
    '---\nname: other\ntagline: x\n---\n': /PRODUCT\.md: name must be p, the name of its directory$/,
    '---\nname: p\n---\n': /PRODUCT\.md: tagline is required$/,
    '---\nname: p\ntagline: x\nbrand: y\n---\n': /unknown field "brand"$/,
    '---\nname: p\ntagline: [x\n---\n': /is not valid YAML: .* at line \d/,
    '---\nname: p\nname: p\n---\n': /is not valid YAML: .* at line 3/,
    '---\nname: &a p\ntagline: *a\n---\n': /is not valid YAML/,
    '---\nname: p\ntagline: x\nskills: [gone]\n---\n': /skill gone not found: .*skills\/gone has no SKILL\.md$/,
    '---\nname: p\ntagline: x\nskills: [../../etc]\n---\n': /skills: "[^"]*" must be <skill> or <product>\/<skill>$/,
    '---\nname: p\ntagline: x\nenv: [{ key: lower, required: true, hint: x }]\n---\n': /env\.0\.key must match/,
    '---\nname: p\ntagline: x\nenv: [{ key: A, hint: x }]\n---\n': /env\.0\.required is required$/,
    '---\n---\n': /./,
    '---\n- a\n---\n': /./,
  }
  for (const [content, sentence] of Object.entries(cases)) {
    put(root, { 'p/PRODUCT.md': content })
    await assert.rejects(findProduct(root, 'p'), refused('invalid', sentence), content)
  }
})

test('refuses a missing catalogue and names its path', async (t) => {
  await assert.rejects(listProducts(join(freshDir(t), 'gone')), refused('not_found', /gone: it does not exist$/))
})

test('copies persona, facts and the listed skills, and returns the paths written', async (t) => {
  const dir = freshDir(t)
  const product = await shopIn(join(dir, 'products'))
  chmodSync(join(product.dir, 'skills/sell/scripts/run.sh'), 0o755)
  const home = join(dir, 'home')
  const written = await copyTo(product, home)
  const expected = [
    '.claude/skills/sell/SKILL.md',
    '.claude/skills/sell/scripts/run.sh',
    '.claude/skills/tidy/SKILL.md',
    'PERSONA.md',
    'facts/old/prices.md',
    'facts/prices.md',
  ]
  assert.deepEqual(written.toSorted(), expected)
  assert.deepEqual(tree(home), expected)
  assert.ok(statSync(join(home, '.claude/skills/sell/scripts/run.sh')).mode & 0o100)
})

test("writes only missing files on a second copy, so an operator's edits survive", async (t) => {
  const dir = freshDir(t)
  const product = await shopIn(join(dir, 'products'))
  const home = join(dir, 'home')
  await copyTo(product, home)
  writeFileSync(join(home, 'PERSONA.md'), 'edited\n')
  await rm(join(home, 'facts/prices.md'))
  assert.deepEqual(await copyTo(product, home), ['facts/prices.md'])
  assert.equal(readFileSync(join(home, 'PERSONA.md'), 'utf8'), 'edited\n')
})

test('does not copy symbolic links of a product', async (t) => {
  const dir = freshDir(t)
  const product = await shopIn(join(dir, 'products'))
  symlinkSync('/etc/hostname', join(product.dir, 'facts/host.md'))
  symlinkSync('/etc', join(product.dir, 'skills/sell/etc'))
  const written = await copyTo(product, join(dir, 'home'))
  assert.ok(!written.some((file) => file.includes('host') || file.includes('etc')))
})

test('changes nothing when a folder is set up again', async (t) => {
  const dir = freshDir(t)
  const product = await shopIn(join(dir, 'products'))
  const place = layout(join(dir, 'svc_demo'))
  await setUpFolder(place, 'team/shop', product)
  const home = join(place.groups, 'team/shop')
  assert.equal(readFileSync(join(home, 'PERSONA.md'), 'utf8'), 'A seller.\n')
  for (const made of [join(home, '.claude/skills'), join(place.webPub, 'team/shop'), join(place.webPriv, 'team/shop')])
    assert.ok(statSync(made).isDirectory())
  const before = tree(place.root)
  writeFileSync(join(home, '.claude/CLAUDE.md'), 'mine\n')
  await setUpFolder(place, 'team/shop', product)
  assert.deepEqual(tree(place.root), before)
  assert.equal(readFileSync(join(home, '.claude/CLAUDE.md'), 'utf8'), 'mine\n')
})

test('gives a folder without a product a default persona and runbook', async (t) => {
  const place = layout(freshDir(t))
  await setUpFolder(place, 'main')
  assert.deepEqual(tree(place.root), ['groups/main/.claude/CLAUDE.md', 'groups/main/PERSONA.md'])
  assert.match(readFileSync(join(place.groups, 'main/PERSONA.md'), 'utf8'), /^---\nsummary: /)
})

test('refuses to set up a folder where a file is in the way, and names the path', async (t) => {
  const place = layout(put(freshDir(t), { 'groups/main': 'a file' }))
  await assert.rejects(setUpFolder(place, 'main'), refused('conflict', /groups\/main: something else is there$/))
  await assert.rejects(setUpFolder(layout(join(place.root, 'groups/main')), 'x'), refused('conflict', /groups\/main/))
  await assert.rejects(setUpFolder(place, '../x'), refused('invalid', /^the folder "\.\.\/x" /))
})

test('does not follow an agent’s link when setting up a folder', async (t) => {
  const dir = freshDir(t)
  const outside = join(dir, 'outside')
  mkdirSync(outside)
  const place = layout(put(join(dir, 'svc_demo'), { 'groups/team/x': '' }))
  symlinkSync(outside, join(place.groups, 'team/evil'))
  await assert.rejects(setUpFolder(place, 'team/evil'), refused('conflict', /team\/evil: something else is there$/))
  await setUpFolder(place, 'team')
  await rm(join(place.groups, 'team/.claude'), { recursive: true })
  symlinkSync(outside, join(place.groups, 'team/.claude'))
  await assert.rejects(setUpFolder(place, 'team'), refused('conflict', /\.claude: something else is there$/))
  await rm(join(place.groups, 'team/PERSONA.md'))
  symlinkSync(join(outside, 'new'), join(place.groups, 'team/PERSONA.md'))
  await rm(join(place.groups, 'team/.claude'))
  await setUpFolder(place, 'team')
  assert.deepEqual(readdirSync(outside), [])
})
