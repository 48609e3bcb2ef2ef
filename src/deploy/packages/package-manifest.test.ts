import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { stringify } from 'smol-toml'
import { type FileTexts, FRAGMENT, MANIFEST, PACKAGE } from '../../../test/support/package-files.ts'
import { Refusal } from '../../lib/refusal.ts'
import { type Package, parseManifest, parsePackage } from './package-manifest.ts'
import { listBundledPackages, readPackage } from './package-source.ts'
import { isIgnoredEntry, type PackageTree } from './package-tree.ts'

function treeOf(files: FileTexts): PackageTree {
  const entries = Object.entries(files)
    .filter(([path]) => !isIgnoredEntry(path.split('/', 1)[0] ?? ''))
    .map(([path, text]) => [path, { data: Buffer.from(text), isExecutable: false }] as const)
  return { source: '/x', revision: 'r', files: new Map(entries) }
}

async function refusalOf(files: FileTexts): Promise<string> {
  const found = await parsePackage(treeOf(files)).catch((error: unknown) => error)
  if (found instanceof Refusal) return found.message
  if (found instanceof Error) throw found
  return 'accepted'
}

suite('a package', () => {
  test('has services, files, settings, routes, grants and skills', async () => {
    const { name, about, settings, rows, fragment, skills, assets }: Package = await parsePackage(treeOf(PACKAGE))
    assert.deepEqual([name, about, skills], ['gate', 'A gateway for tests.', ['summary']])
    assert.deepEqual(settings, [{ key: 'GATE_KEY', required: true, hint: 'The key of the gateway' }])
    assert.deepEqual(rows.proxyd_routes, [{ path: '/gate/', backend: 'http://gate:4000', auth: 'operator' }])
    assert.deepEqual(rows.acl, [
      { principal: 'folder:main', action: 'mcp:send', scope: 'team/**', effect: 'allow', params: '', predicate: '' },
    ])
    assert.deepEqual([[...(fragment?.services.keys() ?? [])], fragment?.hosts], [['gate'], ['api.example.com']])
    assert.deepEqual([...assets.keys()].sort(), [
      'services/gate.yml',
      'services/gate/config.yaml',
      'skills/summary/.package',
      'skills/summary/SKILL.md',
      'skills/summary/more/example.md',
    ])
  })

  test('needs no services', async () => {
    const { 'package.toml': manifest, 'skills/summary/SKILL.md': skill } = PACKAGE
    const files = { 'package.toml': manifest ?? '', 'skills/summary/SKILL.md': skill ?? '' }
    assert.equal((await parsePackage(treeOf(files))).fragment, undefined)
  })

  const manifestWith = (text: string): FileTexts => ({ ...PACKAGE, 'package.toml': text })
  const refused: Record<string, [FileTexts, RegExp]> = {
    'no package.toml': [{ 'services.yml': FRAGMENT }, /^\/x is not a package: it has no package\.toml$/],
    'invalid TOML, with its place': [manifestWith('name = "gate"\nabout ='), /is not valid TOML: line 2, column \d+: /],
    'an unknown member': [manifestWith(`${MANIFEST}\n[extra]\n`), /package\.toml of \/x: unknown field "extra"/],
    'an unknown member of a route': [
      manifestWith(MANIFEST.replace('auth =', 'gate_by = "X"\nauth =')),
      /unknown field "proxyd_routes\.0\.gate_by"/,
    ],
    'an unknown member of a grant': [
      manifestWith(`${MANIFEST}granted_by = "x"\n`),
      /unknown field "acl\.0\.granted_by"/,
    ],
    'a name that climbs out': [manifestWith(MANIFEST.replace('"gate"', '"../gate"')), /name must be 1 to 63 letters/],
    'a name that begins with a dot': [manifestWith(MANIFEST.replace('"gate"', '".gate"')), /name must be 1 to 63/],
    'a long name': [manifestWith(MANIFEST.replace('"gate"', `"${'x'.repeat(64)}"`)), /name must be 1 to 63/],
    'a route of the front door': [manifestWith(MANIFEST.replace('/gate/', '/dash/')), /belongs to the front door/],
    'a route without a target': [manifestWith(MANIFEST.replace(/backend.*\n/, '')), /exactly one of backend and/],
    'a grant that can never match': [manifestWith(MANIFEST.replace('mcp:send', 'fly')), /the action "fly" is none of/],
    'a route twice': [
      manifestWith(`${MANIFEST}[[proxyd_routes]]\npath = "/gate/"\nredirect_to = "/x"\nauth = "public"\n`),
      /has the route \/gate\/ twice/,
    ],
    'a fragment that opens the host': [
      { ...PACKAGE, 'services.yml': FRAGMENT.replace('image:', 'privileged: true\n    image:') },
      /^services\.yml of \/x: gate: privileged is not allowed/,
    ],
    'services of a package whose name no service can have': [
      manifestWith(MANIFEST.replace('"gate"', '"My_gate"')),
      /has a name of lower-case letters, digits and "-", not My_gate/,
    ],
    'a mount of a missing file': [
      { ...PACKAGE, 'services.yml': FRAGMENT.replace('./config', './other') },
      /mounts \.\/other\.yaml, but there is no files\/other\.yaml/,
    ],
    'a file that no service mounts': [{ ...PACKAGE, 'files/more.txt': '' }, /no service mounts files\/more\.txt/],
    'a skill without SKILL.md': [{ ...PACKAGE, 'skills/other/notes.md': '' }, /skills\/other has no SKILL\.md/],
    'a file beside the skills': [{ ...PACKAGE, 'skills/SKILL.md': '' }, /unknown file "skills\/SKILL\.md"/],
    'a skill with a strange name': [{ ...PACKAGE, 'skills/Sum/SKILL.md': '' }, /skill must be 1 to 64 of a-z/],
    'a misspelled file': [{ ...PACKAGE, 'service.yml': '' }, /unknown file "service\.yml"/],
  }
  for (const [what, [files, message]] of Object.entries(refused))
    test(`refuses ${what}`, async () => assert.match(await refusalOf(files), message))

  test('refuses one that adds nothing', async () => {
    const message = await refusalOf({ 'package.toml': 'name = "gate"\nabout = "x"\n' })
    assert.match(message, /adds nothing/)
  })

  test('has a name of at most 63 characters', async () => {
    const named = (length: number): FileTexts => ({
      'package.toml': MANIFEST.replace('"gate"', `"${'x'.repeat(length)}"`),
    })
    assert.equal(await refusalOf(named(63)), 'accepted')
    assert.match(await refusalOf(named(64)), /name must be/)
  })

  test('refuses a manifest above 64 KiB', async () => {
    const sized = (bytes: number): FileTexts => ({ 'package.toml': MANIFEST.padEnd(bytes, '\n') })
    assert.equal(await refusalOf(sized(65_536)), 'accepted')
    assert.match(await refusalOf(sized(65_537)), /larger than 65536 bytes/)
  })
})

suite('any package.toml', () => {
  const file = 'package.toml'

  test('is parsed or refused with one line, whatever bytes it has', () => {
    const pieces = fc.constantFrom(
      'name',
      '=',
      '"x"',
      '\n',
      '[[acl]]',
      '[',
      ']',
      '{',
      'about',
      '\u0000',
      '😀',
      '1e999',
      '#',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.array(pieces).map((all) => all.join(' ')),
        ),
        (text) => {
          try {
            parseManifest(text, file)
          } catch (error) {
            assert.ok(error instanceof Refusal, String(error))
            assert.match(error.message, /^package\.toml[: ]/)
            assert.doesNotMatch(error.message, /\n/)
          }
        },
      ),
      { numRuns: 400 },
    )
  })

  test('gives back what was written', () => {
    const word = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}$/)
    const line = fc.stringMatching(/^[ -~]{1,40}$/)
    const setting = fc.record({ key: fc.stringMatching(/^[A-Z][A-Z0-9_]{0,20}$/), required: fc.boolean(), hint: line })
    const route = fc.record({
      path: fc.stringMatching(/^\/app[a-z0-9]{1,10}\/$/),
      backend: fc.stringMatching(/^http:\/\/[a-z]{1,10}:[1-9][0-9]{3}$/),
      auth: fc.constantFrom('public', 'user', 'operator'),
      strip_prefix: fc.boolean(),
    })
    const grant = fc.record({
      principal: fc.stringMatching(/^github:[0-9]{1,8}$/),
      action: fc.constantFrom('admin', 'interact', 'mcp:send', 'mcp:*'),
      scope: fc.constantFrom('**', 'team', 'team/**'),
      effect: fc.constantFrom('allow', 'deny'),
      params: fc.constantFrom('', 'a=b'),
      predicate: fc.constantFrom('', 'role=x'),
    })
    const manifest = fc.record({
      name: word,
      about: line,
      settings: fc.array(setting, { maxLength: 3 }),
      proxyd_routes: fc.array(route, { maxLength: 3 }),
      acl: fc.array(grant, { maxLength: 3 }),
    })
    fc.assert(
      fc.property(manifest, (written) => {
        // The generated records have no prototype.
        assert.deepEqual(
          JSON.parse(JSON.stringify(parseManifest(stringify(written), file))),
          JSON.parse(JSON.stringify(written)),
        )
      }),
      { numRuns: 100 },
    )
  })
})

test('every bundled package is valid and has the name of its directory', async () => {
  for (const name of await listBundledPackages()) {
    const found = await parsePackage(await readPackage({ kind: 'bundled', name, source: `bundled:${name}` }))
    assert.equal(found.name, name)
    const [...images] = [...(found.fragment?.services.values() ?? [])].map(({ image }) => image)
    for (const image of images) assert.match(image, /:v?\d+\.\d+/, `${image} has no pinned version`)
  }
})
