// What the agents of one world (first segment of a folder) can do to those of another, and turns that the host cannot run.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { suite, test } from 'node:test'
import { forEachUser } from '../support/attack.ts'
import { attackInstance } from '../support/attack-instance.ts'
import { needs } from '../support/needs.ts'
import { type CleanupScope, tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const SVC = join(import.meta.dirname, '../../bin/svc.js')

/** Holds what it has used up, until the file `stop` exists. */
const HOLD = `
open('/home/node/held', 'w').close()
while not os.path.exists('/home/node/stop'): time.sleep(0.05)
print('held', count)
`

const DESCRIPTORS = `exec python3 -c "
import array, os, socket, time
count, pairs = 0, []
try:
    while count < 100000:
        pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        for _ in range(8):
            pairs[-1][0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 250))])
            count += 250
except OSError as error: assert error.errno == 109, error
${HOLD}"`

const INOTIFY = `exec python3 -c "
import ctypes, os, time
count = 0
while count < 100000 and ctypes.CDLL(None).inotify_init1(0) >= 0: count += 1
${HOLD}"`

/** Opens one more of each. */
const USE = `python3 -c "
import array, ctypes, socket
a, b = socket.socketpair()
a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])
print(ctypes.CDLL(None).inotify_init1(0) >= 0)"`

suite('as root, agents of two worlds', needs('root', 'bubblewrap', 'python'), () => {
  test('have users of their own, also after an update from an instance in which all had one', async (t) => {
    const { home, root, serve } = await attackInstance(t, 'root')
    writeFileSync(join(home('team'), 'old'), 'old\n')
    execFileSync('chown', ['-hR', '60000:60000', ...['main', 'team', 'other'].map(home)])
    execFileSync('chmod', ['755', home('team')])
    const served = await serve()
    const program = 'id -u; id -g; echo new >> old; cat old; touch child/x'
    const others = { other: '60001\n60000', team: '60002\n60000' }
    assert.equal((await served.ask('team', program)).text, `${others.team}\nold\nnew`)
    assert.equal((await served.ask('team/child', 'id -u; id -g; rm x')).text, others.team)
    assert.equal((await served.askAsVisitor('team', 'id -u; id -g; touch ~/x')).text, others.team)
    assert.equal((await served.ask('other', 'id -u; id -g')).text, others.other)
    const owners = execFileSync('find', [
      home('team'),
      join(root, 'chats', 'team'),
      '-mindepth',
      '1',
      '-printf',
      '%U\n',
    ])
    assert.deepEqual([...new Set(String(owners).trim().split('\n'))], ['60002'])
    assert.equal(statSync(home('team')).mode & 0o777, 0o700)
    await served.stop()
  })

  for (const [name, program] of Object.entries({ 'descriptors in flight': DESCRIPTORS, 'inotify instances': INOTIFY }))
    test(`cannot use up the ${name} of each other`, async (t) => {
      const { home, serve } = await attackInstance(t, 'root')
      const served = await serve()
      const attack = served.ask('team', program)
      await until(() => existsSync(join(home('team'), 'held')))
      assert.equal((await served.ask('other', USE)).text, 'True')
      assert.equal((await served.askAsVisitor('other', USE)).text, 'True')
      // Folders of one world share these limits. Their messages wait, and none of them fails.
      const sibling = served.ask('team/child', 'echo fine')
      writeFileSync(join(home('team'), 'stop'), '')
      assert.match((await attack).text, /^held \d+$/)
      assert.equal((await sibling).text, 'fine')
      await served.stop()
    })

  test('cannot signal, inspect or read each other, even without a sandbox', async (t) => {
    const { home, serve } = await attackInstance(t, 'root')
    for (let at = home('team'); at !== '/'; at = join(at, '..'))
      if ((statSync(at).mode & 0o011) === 0) chmodSync(at, statSync(at).mode | 0o011)
    const command = `sed -n 's/.*run=\\([A-Za-z0-9+/=]*\\).*/\\1/p' | tail -n 1 | base64 -d > program; exec sh ./program 2>&1`
    const served = await serve({ env: { SANDBOX: 'none', AGENT_COMMAND: command } })
    const victim = served.ask(
      'other',
      'echo secret > note; echo $$ > pid; until [ -e stop ]; do sleep 0.1; done; echo alive',
    )
    await until(() => existsSync(join(home('other'), 'pid')) && statSync(join(home('other'), 'pid')).size > 1)
    const pid = execFileSync('cat', [join(home('other'), 'pid')], { encoding: 'utf8' }).trim()
    const { text } = await served.ask(
      'team',
      `kill -9 ${pid}; cat /proc/${pid}/environ; ls ${home('other')}; cat ${home('other')}/note; echo x > ${home('other')}/new; id -u`,
    )
    const lines = text.split('\n').filter(Boolean)
    assert.equal(lines.length, 6, text)
    for (const line of lines.slice(0, 5)) assert.match(line, /not permitted|denied/)
    assert.notEqual(Number(lines[5]), statSync(home('other')).uid)
    writeFileSync(join(home('other'), 'stop'), '')
    assert.equal((await victim).text, 'alive')
    await served.stop()
  })
})

/** A `bwrap` that fails while the returned file exists. */
function brittleBubblewrap(t: CleanupScope): { readonly path: string; readonly flag: string } {
  const folder = tempDir(t)
  chmodSync(folder, 0o755)
  const flag = join(folder, 'broken')
  const real = execFileSync('sh', ['-c', 'command -v bwrap'], { encoding: 'utf8' }).trim()
  mkdirSync(join(folder, 'bin'))
  const script = `#!/bin/sh\nif [ -e ${flag} ]; then echo 'bwrap: Creating new namespace failed: No space left on device' >&2; exit 1; fi\nexec ${real} "$@"\n`
  writeFileSync(join(folder, 'bin', 'bwrap'), script, { mode: 0o755 })
  return { path: `${join(folder, 'bin')}${delimiter}${process.env.PATH}`, flag }
}

forEachUser('a cell that cannot be set up', [], (user) => {
  test('costs no attempt: its message waits with the reason and is answered later', async (t) => {
    const { path, flag } = brittleBubblewrap(t)
    const { serve, svc, store } = await attackInstance(t, user)
    const served = await serve({ env: { PATH: path } })
    assert.equal((await served.ask('team', 'echo before')).text, 'before')
    writeFileSync(flag, '')
    const answer = served.ask('team', 'echo after')
    const waiting = () =>
      store((db) => db.prepare("select id, attempts, postponed, reason from turns where state = 'retrying'").get())
    await until(() => Number(waiting()?.postponed) >= 3)
    const { id, attempts, reason } = waiting() ?? {}
    assert.equal(attempts, 0)
    assert.match(String(reason), /^its cell could not be set up: bwrap: Creating new namespace failed: No space left/)
    assert.match(
      await svc('messages', 'demo', 'show', String(id)),
      /last failure: +its cell could not be set up: bwrap/,
    )
    assert.match(served.log.join(''), /turn cannot run yet/)
    rmSync(flag)
    assert.deepEqual([(await answer).status, (await answer).text], ['success', 'after'])
    await served.stop()
  })

  test('is no excuse for an agent that fails by itself: its attempts count', async (t) => {
    const { serve, store } = await attackInstance(t, user)
    const served = await serve()
    // Bubblewrap's own exit code and message, and all descriptors that it may have.
    const fake = `for fd in /proc/1/fd/* /proc/self/fd/*; do echo 'hand over: faked' > $fd; done 2>/dev/null
echo 'bwrap: Creating new namespace failed' >&2; exit 1`
    assert.equal((await served.ask('team', fake)).status, 'failed')
    const turn = store((db) => db.prepare("select attempts, postponed from turns where outcome = 'failed'").get())
    assert.deepEqual({ ...turn }, { attempts: 3, postponed: null })
    await served.stop()
  })
})

suite('an instance of an ordinary user', needs('root', 'bubblewrap', 'kernel', 'open checkout'), () => {
  test('keeps its owner in all files, also of commands and a server that root starts', async (t) => {
    const { serve, svc, root } = await attackInstance(t, 'an ordinary user')
    const asRoot = (...args: string[]) => {
      const env = { PATH: process.env.PATH, SVC_DATA_DIR: dirname(root), WEB_LISTEN: '127.0.0.1:0' }
      const done = spawnSync(process.execPath, [SVC, ...args], { env, encoding: 'utf8' })
      assert.equal(done.status, 0, `svc ${args.join(' ')}: ${done.stderr}`)
    }
    asRoot('group', 'demo', 'add', 'sandbox:late', 'late')
    asRoot('settings', 'demo', 'set', 'KEEP_TURNS', '2h')
    asRoot('backup', 'demo', join(tempDir(t), 'backup'))
    asRoot('create', 'second')
    const served = await serve({ asRoot: true })
    assert.equal((await served.ask('team', 'id -u; echo new > file; cat file')).text, '65533\nnew')
    assert.equal((await served.askAsVisitor('other', 'echo seen')).text, 'seen')
    const find = ['-uid', '0', '!', '-type', 's', '-printf', '%P\n']
    assert.equal(execFileSync('find', [dirname(root), ...find], { encoding: 'utf8' }), '')
    await served.stop()
    const again = await serve()
    assert.equal((await again.ask('team', 'cat file')).text, 'new')
    await again.stop()
    await svc('doctor', 'demo')
  })
})

suite('a workspace that root gave to another user', needs('root', 'bubblewrap', 'kernel', 'open checkout'), () => {
  test('makes its messages wait with the reason, until svc doctor --fix as root repairs it', async (t) => {
    const { serve, store, root, home } = await attackInstance(t, 'an ordinary user')
    const served = await serve()
    assert.equal((await served.ask('team', 'echo before > file; cat file')).text, 'before')
    for (const path of [home('team'), join(home('team'), 'file')]) chownSync(path, 60_000, 60_000)
    const answer = served.ask('team', 'echo after > file; cat file')
    const waiting = () =>
      store((db) => db.prepare("select attempts, postponed, reason from turns where state = 'retrying'").get())
    await until(() => Number(waiting()?.postponed) >= 1)
    assert.equal(waiting()?.attempts, 0)
    assert.match(
      String(waiting()?.reason),
      /^the workspace of team cannot be (written|read): it belongs to uid 60000, and svc runs as uid 65533; sudo SVC_DATA_DIR=\S+ \S+\/bin\/svc\.js doctor demo --fix repairs it$/,
    )
    const env = { PATH: process.env.PATH, SVC_DATA_DIR: dirname(root) }
    const fixed = spawnSync(process.execPath, [SVC, 'doctor', 'demo', '--fix'], { env, encoding: 'utf8' })
    assert.match(fixed.stdout, /owners: fixed: give \S+\/groups\/team to uid 65533/)
    assert.deepEqual([(await answer).status, (await answer).text], ['success', 'after'])
    await served.stop()
  })
})
