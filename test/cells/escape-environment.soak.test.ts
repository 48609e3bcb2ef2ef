// Attacks with names and values: variables that make programs run code, arguments that look like options, odd file names.
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { attackHost, FailedAttack, forEachUser } from '../support/attack.ts'

/** For `assert.rejects`: svc refused the run with this message. */
function isFailedAttack(message: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof FailedAttack, String(error))
    assert.match(error.message, message)
    return true
  }
}

forEachUser('names and values', [], (user) => {
  const host = attackHost(user)

  /** A directory of the workspace that every program can write to. */
  const workspaceDirectory = (t: TestContext, name: string): string => {
    const path = join(host().home(), name)
    mkdirSync(path)
    chmodSync(path, 0o777)
    t.after(() => rmSync(path, { recursive: true }))
    return path
  }

  test('variables of Perl run no code in the first program of the cell', async (t) => {
    const directory = workspaceDirectory(t, 'perl-variables')
    writeFileSync(join(directory, 'Trap.pm'), 'open my $mark, ">", "/tmp/mark"; print $mark "trapped"; 1;')
    const inner = '/home/node/perl-variables'
    const env = { PERL5LIB: inner, PERLLIB: inner, PERL5OPT: '-MTrap', PERL5DB: 'BEGIN { require Trap }' }
    const { attack } = host()
    // Control: the variables affect a Perl that the agent starts itself.
    assert.equal(
      await attack('cat /tmp/mark || echo none; perl -e 1; cat /tmp/mark', { env, silent: true }),
      'none\ntrapped',
    )
  })

  test('variables of the dynamic linker do not affect the first program of the cell', async (t) => {
    const directory = workspaceDirectory(t, 'linker')
    const env = { LD_DEBUG: 'files', LD_DEBUG_OUTPUT: '/home/node/linker/log', LD_PRELOAD: '/home/node/linker/trap.so' }
    await host().attack(['/bin/true'], { env })
    const logs = readdirSync(directory).map((name) => readFileSync(join(directory, name), 'utf8'))
    assert.match(logs.join('\n'), /true/)
    assert.doesNotMatch(logs.join('\n'), /perl|bwrap/)
  })

  test('variables of other interpreters run nothing before the program', async (t) => {
    const directory = workspaceDirectory(t, 'interpreters')
    const inner = '/home/node/interpreters'
    writeFileSync(join(directory, 'trap.sh'), `touch ${inner}/mark`)
    writeFileSync(join(directory, 'trap.cjs'), `require('node:fs').writeFileSync('${inner}/mark', '')`)
    const env = {
      ...{ BASH_ENV: `${inner}/trap.sh`, ENV: `${inner}/trap.sh`, NODE_OPTIONS: `--require ${inner}/trap.cjs` },
      ...{ PYTHONSTARTUP: `${inner}/trap.sh`, SHELLOPTS: 'xtrace', PS4: `$(touch ${inner}/mark)`, IFS: '/' },
    }
    await host().attack(['/bin/true'], { env })
    assert.equal(existsSync(join(directory, 'mark')), false)
  })

  test('variables arrive unchanged', async () => {
    const env = { EMPTY: '', LINES: 'a=b\n\tc', WIDE: 'ü→😀', LONG: 'x'.repeat(100_000), A: '--bind', B: '%ENV' }
    const output = await host().attack(
      ['perl', '-e', 'print join "\\n", map { "[$ENV{$_}]" } qw(EMPTY LINES WIDE LONG A B)'],
      {
        env,
      },
    )
    assert.equal(output, `[]\n[a=b\n\tc]\n[ü→😀]\n[${'x'.repeat(100_000)}]\n[--bind]\n[%ENV]`)
  })

  test('a value with a NUL does not become an argument of bubblewrap', async () => {
    const injected = 'x\0--bind\0/\0/tmp/host\0'
    const { attack } = host()
    const look = 'ls -d /tmp/host; printf "[%s]" "$SECRET" "$SVC_TOPIC" "$SVC_JID" "$SVC_SESSION"'
    const values = { topic: injected, jid: injected, sessionId: injected, silent: true }
    // Values with control characters are dropped.
    assert.equal(await attack(look, { env: { SECRET: injected }, ...values }), '[][][][]')
    await assert.rejects(attack(look, { env: { [`NAME${injected}`]: 'x' } }), isFailedAttack(/contains a NUL/))
    await assert.rejects(attack(['/bin/ls', injected]), isFailedAttack(/contains a NUL/))
  })

  test('arguments that look like options are not taken as options of bubblewrap or Perl', async () => {
    const { attack } = host()
    for (const option of ['-', '--', '--args', '--bind', '-e', '-MTrap', '--help', '--version'])
      await assert.rejects(
        attack([option, '/', '/tmp/host']),
        isFailedAttack(new RegExp(`^${option} could not be started: no such file`)),
        option,
      )
    assert.equal(await attack(['/bin/echo', '--', '--args', '3', '-e']), '-- --args 3 -e')
  })

  test('programs in the workspace are not started instead of those of the machine', async (t) => {
    const { attack, home } = host()
    const names = ['perl', 'sh', 'bwrap', 'node', 'true']
    for (const name of names) writeFileSync(join(home(), name), '#!/bin/sh\ntouch /tmp/mark\n', { mode: 0o755 })
    t.after(() => {
      for (const name of names) rmSync(join(home(), name))
    })
    const env = { PATH: '.:/home/node', path: '/home/node' }
    assert.equal(await attack('command -v perl; command -v bwrap; ls /tmp', { env }), '/usr/bin/perl\n/usr/bin/bwrap')
    assert.equal(await attack(['true'], { env }), '')
  })

  test('file names with line breaks, dashes and control characters have no effect', async (t) => {
    const directory = workspaceDirectory(t, 'odd\n--bind\n')
    for (const name of ['--args', '-e', 'a\nb', 'a\x1b[2J', '$(touch x)', '`touch y`', '%2e%2e'])
      writeFileSync(join(directory, name), '')
    assert.equal(
      await host().attack('ls | wc -l; ls -d /tmp/*', { silent: true }),
      String(readdirSync(host().home()).length + 1),
    )
  })

  test('no folder name makes svc mount another directory', async () => {
    for (const folder of ['..', '.', 'team/..', 'team/../other', '/etc', '../..', 'team//child', 'team/child/', ''])
      await assert.rejects(host().attack('ls', { folder }), isFailedAttack(/^the folder .* (must|is|has)/), folder)
  })
})
