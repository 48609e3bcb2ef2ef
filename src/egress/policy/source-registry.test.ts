import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { needs } from '../../../test/support/needs.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { Refusal, type RefusalCode } from '../../lib/refusal.ts'
import type { RegisteredSource } from './policy.ts'
import { readRegistration } from './registration.ts'
import { type RegistryChange, SourceRegistry } from './source-registry.ts'

const entry = (ip: string, ...allowlist: string[]): RegisteredSource => ({ ip, id: 'job', allowlist })

const refusedAs = (code: RefusalCode, sentence: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Refusal, String(error))
  assert.equal(error.code, code)
  assert.match(error.message, sentence)
  return true
}

async function openAt(path: string | undefined) {
  const warnings: string[] = []
  return { sources: await SourceRegistry.open(path, (sentence) => warnings.push(sentence)), warnings }
}

const stateOf = (path: string): RegisteredSource[] => JSON.parse(readFileSync(path, 'utf8'))

test('replaces the entry of a source, finds it by address, and removes it once', async () => {
  const { sources } = await openAt(undefined)
  assert.deepEqual(await sources.set(entry('10.0.0.5', 'a.example')), entry('10.0.0.5', 'a.example'))
  await sources.set(entry('10.0.0.5', 'B.example.', 'b.example'))
  assert.deepEqual(sources.list(), [entry('10.0.0.5', 'b.example')])
  assert.deepEqual(sources.find('10.0.0.5')?.allowlist, ['b.example'])
  assert.equal(sources.find('10.0.0.4'), undefined)
  assert.equal(sources.find('__proto__'), undefined)
  assert.equal(await sources.remove('10.0.0.5'), true)
  assert.equal(await sources.remove('10.0.0.5'), false)
  assert.deepEqual(sources.list(), [])
})

test('treats every spelling of an address as the same source', async () => {
  const { sources } = await openAt(undefined)
  await sources.set(entry('::ffff:10.0.0.5', 'a.example'))
  await sources.set(entry('10.0.0.5', 'b.example'))
  await sources.set(entry('0:0:0:0:0:FFFF:a00:5', 'c.example'))
  assert.deepEqual(sources.list(), [entry('10.0.0.5', 'c.example')])
  for (const ip of ['FD80:0::1', 'fd80::0001', 'fd80:0:0:0:0:0:0:1']) await sources.set(entry(ip))
  assert.deepEqual(sources.list()[1], entry('fd80::1'))
  assert.equal(await sources.remove('::ffff:10.0.0.5'), true)
  assert.equal(sources.size, 1)
})

test('refuses an address that no packet comes from, and stores nothing', async () => {
  const { sources } = await openAt(undefined)
  for (const ip of [
    ...['010.0.0.5', '10.0.0.5 ', ' 10.0.0.5', '10.0.0.5/32', '10.0.0', '10.0.0.256', '167772165', '0x0a.0.0.5'],
    ...['FE80::1%eth0', 'fe80::1%1', '[::1]', '::1/128', ':::', '1::2::3', 'localhost', '', '__proto__', '*'],
    ...['0.0.0.0', '::', '::ffff:0.0.0.0', '10.0.0.5\n', '１０.0.0.5'],
    // Without its link, which the proxy does not see, it may be two machines.
    ...['fe80::1', 'FEBF::1'],
  ])
    await assert.rejects(sources.set(entry(ip)), refusedAs('invalid', /^ip must be /), ip)
  for (const [ip, kind] of [
    ['0.0.0.0', 'unspecified'],
    ['255.255.255.255', 'broadcast'],
    ['224.0.0.0', 'multicast'],
    ['239.255.255.255', 'multicast'],
    ['ff02::1', 'multicast'],
  ] as const) {
    const sentence = `ip must be the address of one source, not the ${kind} address ${ip}`
    await assert.rejects(sources.set(entry(ip)), refusedAs('invalid', new RegExp(`^${sentence}$`)), ip)
  }
  assert.equal(sources.size, 0)
  for (const ip of ['223.255.255.255', '240.0.0.0', '255.255.255.254', '2001:db8::1']) await sources.set(entry(ip))
  assert.equal(sources.size, 4)
})

test('sorts by numeric address, IPv4 first, in memory and in the file', async (t) => {
  const path = join(tempDir(t), 'state.json')
  const { sources } = await openAt(path)
  const sorted = ['2.0.0.1', '10.0.0.2', '10.0.0.10', '10.0.1.0', '192.168.0.1', '::1', '2001:db8::1', 'fec0::1']
  for (const ip of [...sorted].reverse()) await sources.set(entry(ip))
  assert.deepEqual(
    sources.list().map(({ ip }) => ip),
    sorted,
  )
  assert.deepEqual(
    stateOf(path).map(({ ip }) => ip),
    sorted,
  )
})

test('behaves like a plain Map for any sets and removals', async () => {
  const ip = fc.integer({ min: 0, max: 12 }).map((last) => `10.0.0.${last}`)
  const act = fc.record({ ip, host: fc.option(fc.constantFrom('a.example', 'b.example'), { nil: undefined }) })
  await fc.assert(
    fc.asyncProperty(fc.array(act, { maxLength: 40 }), async (acts) => {
      const { sources } = await openAt(undefined)
      const model = new Map<string, RegisteredSource>()
      for (const { ip, host } of acts)
        if (host === undefined) assert.equal(await sources.remove(ip), model.delete(ip))
        else model.set(ip, await sources.set(entry(ip, host)))
      assert.equal(sources.size, model.size)
      for (let last = 0; last <= 12; last++)
        assert.deepEqual(sources.find(`10.0.0.${last}`), model.get(`10.0.0.${last}`))
    }),
    { numRuns: 300 },
  )
})

suite('validation of a registration', () => {
  const good = { ip: '10.0.0.5', id: 'job', allowlist: ['a.example'] }

  test('accepts an empty allowlist, which allows nothing', () => {
    assert.deepEqual(readRegistration({ ...good, allowlist: [] }).allowlist, [])
  })

  test('refuses an allowlist that is missing or not a list of texts', () => {
    const { allowlist, ...without } = good
    assert.throws(() => readRegistration(without), refusedAs('invalid', /^allowlist is required$/))
    for (const bad of [null, 'a.example', {}, 5, true, [1], [null], [['a.example']], [{}], ['a.example', undefined]])
      assert.throws(() => readRegistration({ ...good, allowlist: bad }), refusedAs('invalid', /^allowlist/))
  })

  test('refuses hosts that would never match, by name and all at once', () => {
    const bad = [
      'https://a.example',
      'a.example:443',
      '*.a.example',
      '10.0.0.0/8',
      '10.0.0.1',
      'a b',
      '*',
      '',
      '.',
      'com',
    ]
    for (const host of [
      ...bad,
      '*.com',
      'a.example/path',
      '[::1]',
      'bücher.example',
      'a..example',
      ' a.example',
      '127.1',
    ])
      assert.throws(
        () => readRegistration({ ...good, allowlist: ['fine.example', host] }),
        (error) => error instanceof Refusal && error.code === 'invalid' && error.message.includes(JSON.stringify(host)),
        host,
      )
    assert.throws(
      () => readRegistration({ ...good, allowlist: bad }),
      (error) => error instanceof Refusal && bad.every((host) => error.message.includes(JSON.stringify(host))),
    )
  })

  test('warns about a name that allows more than it seems to', async () => {
    const { sources, warnings } = await openAt(undefined)
    await sources.set(entry('10.0.0.5', 'localhost'))
    assert.match(warnings.join(), /in the allowlist of 10\.0\.0\.5: "localhost" has a single label/)
  })

  test('treats names of prototypes as ordinary data', async () => {
    const { sources } = await openAt(undefined)
    const stored = await sources.set({ ip: '10.0.0.5', id: '__proto__', allowlist: ['constructor.example'] })
    assert.deepEqual(stored, { ip: '10.0.0.5', id: '__proto__', allowlist: ['constructor.example'] })
    assert.throws(
      () => readRegistration(JSON.parse('{"ip":"10.0.0.5","id":"a","allowlist":[],"__proto__":{"x":1}}')),
      refusedAs('invalid', /unknown field "__proto__"/),
    )
    assert.throws(
      () => readRegistration(JSON.parse('{"__proto__":{"ip":"10.0.0.5","id":"a","allowlist":[]}}')),
      Refusal,
    )
  })

  test('requires an id of 1 to 128 printable characters', () => {
    for (const id of ['a', 'job 1', 'é', '日本', '😀'.repeat(128), '"quoted"', '<b>', 'x'.repeat(128)])
      assert.equal(readRegistration({ ...good, id }).id, id)
    for (const id of [
      '',
      ' ',
      'x'.repeat(129),
      '😀'.repeat(129),
      'a\nb',
      '\u001b[31m',
      '\u202e',
      '\0',
      '\ud800',
      5,
      null,
    ])
      assert.throws(() => readRegistration({ ...good, id }), refusedAs('invalid', /^id /), String(id))
    assert.throws(() => readRegistration({ ip: '10.0.0.5', allowlist: [] }), refusedAs('invalid', /^id is required$/))
  })

  test('refuses anything but an object, and unknown fields', () => {
    for (const raw of [null, undefined, [], 'x', 5, [good]]) assert.throws(() => readRegistration(raw), Refusal)
    assert.throws(() => readRegistration({ ...good, hosts: [] }), refusedAs('invalid', /^unknown field "hosts"$/))
  })

  test('refuses more than 10,000 hosts quickly', () => {
    const hosts = Array.from({ length: 10_000 }, (_, at) => `h${at}.example`)
    assert.equal(readRegistration({ ...good, allowlist: hosts }).allowlist.length, 10_000)
    const more = refusedAs('invalid', /^allowlist has more than 10000 entries$/)
    assert.throws(() => readRegistration({ ...good, allowlist: [...hosts, 'one.example'] }), more)
    assert.throws(() => readRegistration({ ...good, allowlist: new Array(1_000_000).fill(0) }), more)
    assert.throws(
      () => readRegistration({ ...good, allowlist: new Array(10_000).fill('*') }),
      (error) => error instanceof Refusal && error.message.length < 5000,
    )
  })
})

suite('order of a change', () => {
  test('writes the file, then applies, then answers', async (t) => {
    const path = join(tempDir(t), 'state.json')
    const { sources } = await openAt(path)
    const seen: string[] = []
    const gate = Promise.withResolvers<void>()
    sources.subscribe(async (change: RegistryChange) => {
      const ip = change.kind === 'set' ? change.entry.ip : change.ip
      seen.push(`${change.kind} ${ip}, in the file: ${stateOf(path).some((one) => one.ip === ip)}`)
      await gate.promise
    })
    const answered = sources.set(entry('10.0.0.5')).then(() => seen.push('answered'))
    gate.resolve()
    await answered
    await sources.remove('10.0.0.5')
    await sources.remove('10.0.0.5')
    assert.deepEqual(seen, ['set 10.0.0.5, in the file: true', 'answered', 'remove 10.0.0.5, in the file: false'])
  })

  test('does not answer a change before it is applied, and queues later ones', async () => {
    const { sources } = await openAt(undefined)
    const gate = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    let applied = 0
    sources.subscribe(async () => {
      applied++
      started.resolve()
      await gate.promise
    })
    const answers: number[] = []
    const all = [1, 2, 3].map((at) => sources.set(entry(`10.0.0.${at}`)).then(() => answers.push(at)))
    await started.promise
    assert.deepEqual([applied, answers], [1, []])
    gate.resolve()
    await Promise.all(all)
    assert.deepEqual([applied, answers], [3, [1, 2, 3]])
  })

  test('fails a change that cannot be applied, and tries the next', async () => {
    const { sources } = await openAt(undefined)
    let isBroken = true
    sources.subscribe(async () => {
      if (isBroken) throw new Error('the thread is gone')
    })
    await assert.rejects(sources.set(entry('10.0.0.5')), /the thread is gone/)
    isBroken = false
    await sources.set(entry('10.0.0.6'))
  })
})

suite('the state file', () => {
  test('is one JSON array, readable only by its owner', async (t) => {
    const path = join(tempDir(t), 'state.json')
    const umask = process.umask(0)
    t.after(() => process.umask(umask))
    const { sources } = await openAt(path)
    await sources.set(entry('10.0.0.5', 'a.example'))
    assert.equal(statSync(path).mode & 0o777, 0o600)
    assert.deepEqual(stateOf(path), [entry('10.0.0.5', 'a.example')])
    await sources.remove('10.0.0.5')
    assert.deepEqual(stateOf(path), [])
  })

  test('restores what was registered, allowlists in the order given', async (t) => {
    const path = join(tempDir(t), 'deep', 'er', 'state.json')
    const first = await openAt(path)
    await first.sources.set(entry('10.0.0.5', 'b.example', 'a.example'))
    await first.sources.set(entry('10.0.0.6'))
    await first.sources.set(entry('10.0.0.7', 'c.example'))
    await first.sources.remove('10.0.0.7')
    const { sources, warnings } = await openAt(path)
    assert.deepEqual(sources.list(), [entry('10.0.0.5', 'b.example', 'a.example'), entry('10.0.0.6')])
    assert.deepEqual(warnings, [])
  })

  test('is not written without a path or with an empty one', async () => {
    for (const path of [undefined, '']) {
      const { sources, warnings } = await openAt(path)
      await sources.set(entry('10.0.0.5'))
      assert.deepEqual(warnings, [])
    }
  })

  test('gives an empty registry and a warning if it is missing or corrupt', async (t) => {
    const dir = tempDir(t)
    const whole = JSON.stringify([entry('10.0.0.5', 'a.example')])
    const contents: Record<string, string | Uint8Array | undefined> = {
      missing: undefined,
      empty: '',
      blank: ' \n',
      truncated: whole.slice(0, -4),
      'cut in the middle': whole.slice(0, whole.length / 2),
      'followed by something': `${whole}x`,
      twice: whole + whole,
      object: '{"ip":"10.0.0.5","id":"x","allowlist":["a.example"]}',
      null: 'null',
      text: '"10.0.0.5"',
      'no UTF-8': Uint8Array.of(0x5b, 0xff, 0x5d),
      'all zero': new Uint8Array(4096),
    }
    for (const [what, content] of Object.entries(contents)) {
      const path = join(dir, `${what}.json`)
      if (content !== undefined) writeFileSync(path, content)
      const { sources, warnings } = await openAt(path)
      assert.deepEqual(sources.list(), [], what)
      assert.equal(warnings.length, 1, what)
      assert.match(warnings[0] ?? '', /the registry starts empty, and everything is denied$/, what)
      assert.ok(warnings[0]?.includes(path), what)
      await sources.set(entry('10.0.0.6'))
      assert.deepEqual(stateOf(path), [entry('10.0.0.6')], what)
    }
  })

  test('gives an empty registry if it is truncated anywhere', async (t) => {
    const path = join(tempDir(t), 'state.json')
    const whole = JSON.stringify([entry('10.0.0.5', 'a.example', 'b.example'), entry('10.0.0.6')])
    for (let cut = 0; cut < whole.length; cut++) {
      writeFileSync(path, whole.slice(0, cut))
      assert.deepEqual((await openAt(path)).sources.list(), [], whole.slice(0, cut))
    }
  })

  test('skips invalid entries with a warning each and keeps the others', async (t) => {
    const path = join(tempDir(t), 'state.json')
    const list = [
      entry('10.0.0.1', 'a.example'),
      entry('10.0.0.2', '*'),
      entry('010.0.0.3'),
      { ip: '10.0.0.4', id: 'x' },
      { ip: '10.0.0.5', id: 'x', allowlist: null },
      null,
      'x',
      entry('::ffff:10.0.0.1', 'evil.example'),
      { ...entry('10.0.0.6'), until: 'tomorrow' },
      entry('::ffff:10.0.0.7', 'B.example.'),
    ]
    writeFileSync(path, JSON.stringify(list))
    const { sources, warnings } = await openAt(path)
    assert.deepEqual(sources.list(), [entry('10.0.0.1', 'a.example'), entry('10.0.0.7', 'b.example')])
    assert.deepEqual(
      warnings.map((warning) => /entry (\d+) is left out/.exec(warning)?.[1]),
      ['2', '3', '4', '5', '6', '7', '8', '9'],
    )
    assert.equal(warnings[6], `the state file ${path}: entry 8 is left out: 10.0.0.1 is a duplicate`)
    writeFileSync(path, JSON.stringify(new Array(5000).fill(0)))
    assert.equal((await openAt(path)).warnings.length, 21)
  })

  test('is read with a warning if others can write it', async (t) => {
    const path = join(tempDir(t), 'state.json')
    for (const mode of [0o666, 0o620, 0o602]) {
      writeFileSync(path, '[]')
      chmodSync(path, mode)
      assert.deepEqual((await openAt(path)).warnings, [
        `the state file ${path} can be written by other users of this machine: chmod go-w it`,
      ])
    }
    for (const mode of [0o600, 0o644]) {
      chmodSync(path, mode)
      assert.deepEqual((await openAt(path)).warnings, [])
    }
  })

  test('stops the start if its content cannot be determined', async (t) => {
    const dir = tempDir(t)
    mkdirSync(join(dir, 'folder'))
    execFileSync('mkfifo', [join(dir, 'pipe')])
    writeFileSync(join(dir, 'file'), '')
    await assert.rejects(openAt(join(dir, 'folder')), refusedAs('invalid', /it is a directory/))
    await assert.rejects(openAt(join(dir, 'pipe')), refusedAs('invalid', /not a regular file/))
    await assert.rejects(openAt(join(dir, 'file', 'state.json')), Refusal)
    await assert.rejects(openAt('a\0b'), refusedAs('invalid', /NUL byte/))
    // Where the system creates no folders, Node's recursive mkdir would never end.
    await assert.rejects(openAt('/proc/no/such/state.json'), refusedAs('not_found', /cannot make \/proc\/no/))
    symlinkSync('circle', join(dir, 'circle'))
    await assert.rejects(openAt(join(dir, 'circle')), refusedAs('invalid', /circle/))
  })

  test('stops the start if it may not be read', async (t) => {
    const path = join(tempDir(t), 'state.json')
    writeFileSync(path, '[]')
    chmodSync(path, 0)
    const isRoot = process.geteuid?.() === 0
    if (isRoot) process.seteuid?.(65_534)
    try {
      await assert.rejects(openAt(path), refusedAs('forbidden', /permission denied/))
    } finally {
      if (isRoot) process.seteuid?.(0)
    }
  })

  test('keeps a link and writes its target', async (t) => {
    const dir = tempDir(t)
    const [link, target] = [join(dir, 'link.json'), join(dir, 'elsewhere', 'state.json')]
    mkdirSync(join(dir, 'elsewhere'))
    writeFileSync(target, JSON.stringify([entry('10.0.0.5')]))
    symlinkSync(target, link)
    const { sources } = await openAt(link)
    await sources.set(entry('10.0.0.6'))
    assert.equal(stateOf(target).length, 2)
    assert.equal((await openAt(link)).sources.size, 2)
  })

  test('removes temporary files of a killed process at start, and nothing else', async (t) => {
    const dir = tempDir(t)
    const path = join(dir, 'state.json')
    await (await openAt(path)).sources.set(entry('10.0.0.5'))
    const prefix = (name: string) =>
      execFileSync('sh', ['-c', `printf %s "${name}" | sha256sum`])
        .toString()
        .slice(0, 8)
    const own = `.egress-${prefix('state.json')}-0123456789abcdef`
    const others = [
      `.egress-${prefix('other.json')}-0123456789abcdef`,
      '.tmp-0123456789abcdef',
      `.egress-${prefix('state.json')}-kept`,
      'state.json.bak',
    ]
    for (const name of [own, ...others]) writeFileSync(join(dir, name), 'half of it')
    const { sources, warnings } = await openAt(path)
    assert.deepEqual(readdirSync(dir).sort(), [...others, 'state.json'].sort())
    assert.deepEqual([sources.size, warnings], [1, []])
  })

  test('stores 200 concurrent registers in few writes, and the last of each source wins', async (t) => {
    const path = join(tempDir(t), 'state.json')
    const { sources } = await openAt(path)
    const inodes = new Set<number>()
    sources.subscribe(async () => void inodes.add(statSync(path).ino))
    const ips = Array.from({ length: 100 }, (_, at) => `10.0.0.${at}`)
    await Promise.all([
      ...ips.map((ip) => sources.set(entry(ip, 'first.example'))),
      ...ips.map((ip) => sources.set(entry(ip, 'last.example'))),
    ])
    assert.deepEqual(stateOf(path), sources.list())
    assert.deepEqual(new Set(stateOf(path).flatMap(({ allowlist }) => allowlist)), new Set(['last.example']))
    assert.equal(sources.size, 100)
    assert.ok(inodes.size < 10, `${inodes.size} files were written`)
  })

  test('refuses the change if the directory is gone, keeps memory unchanged, and logs why', async (t) => {
    const dir = join(tempDir(t), 'gone')
    const path = join(dir, 'state.json')
    const { sources, warnings } = await openAt(path)
    await sources.set(entry('10.0.0.5', 'a.example'))
    let applied = 0
    sources.subscribe(async () => void applied++)
    rmSync(dir, { recursive: true })
    const refused = refusedAs('unavailable', /^the registry could not be stored, so nothing has changed$/)
    await assert.rejects(sources.set(entry('10.0.0.6', 'b.example')), refused)
    await assert.rejects(sources.remove('10.0.0.5'), refused)
    assert.equal(await sources.remove('10.0.0.9'), false)
    assert.deepEqual(sources.list(), [entry('10.0.0.5', 'a.example')])
    assert.equal(applied, 0)
    assert.match(warnings.join(), /its directory does not exist/)
    mkdirSync(dir)
    await sources.set(entry('10.0.0.6', 'b.example'))
    assert.equal(stateOf(path).length, 2)
  })
})

/** Runs `work` in the root of a small file system; cleaned up here, because the removal of the folder is itself a hook. */
async function onSmallDisk(t: TestContext, work: (root: string) => Promise<void>): Promise<void> {
  const root = mkdtempSync(join(tempDir(t), 'disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'egress-test', root])
  try {
    await work(root)
  } finally {
    execFileSync('umount', [root])
  }
}

suite('a disk that accepts no writes', needs('root'), () => {
  test('refuses the change if it is full, keeps file and memory equal, and recovers with room', async (t) => {
    await onSmallDisk(t, async (root) => {
      const path = join(root, 'state.json')
      const { sources, warnings } = await openAt(path)
      await sources.set(entry('10.0.0.5', 'a.example'))
      const hosts = Array.from({ length: 5000 }, (_, at) => `host-${at}.example`)
      const refused = refusedAs('unavailable', /nothing has changed/)
      await assert.rejects(sources.set(entry('10.0.0.6', ...hosts)), refused)
      assert.match(warnings.join(), /the disk is full/)
      assert.deepEqual(stateOf(path), sources.list())
      assert.deepEqual(sources.list(), [entry('10.0.0.5', 'a.example')])
      assert.deepEqual(readdirSync(root), ['state.json'])
      await sources.set(entry('10.0.0.6', 'b.example'))
      assert.deepEqual(stateOf(path), sources.list())
    })
  })

  test('starts normally if it is read-only, and refuses every change', async (t) => {
    await onSmallDisk(t, async (root) => {
      const path = join(root, 'state.json')
      writeFileSync(path, JSON.stringify([entry('10.0.0.5', 'a.example')]))
      execFileSync('mount', ['-o', 'remount,ro', root])
      const { sources, warnings } = await openAt(path)
      assert.deepEqual([sources.size, warnings], [1, []])
      await assert.rejects(sources.remove('10.0.0.5'), refusedAs('unavailable', /nothing has changed/))
      assert.match(warnings.join(), /the file system is read-only/)
      assert.equal(sources.size, 1)
    })
  })
})
