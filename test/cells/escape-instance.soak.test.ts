// Attacks in a served instance with several folders, their sockets and their runs.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  existsSync,
  globSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import { canRefuseDescriptors } from '../../src/agent-socket/socket-options.ts'
import { processTree } from '../../src/cell/resource-usage.ts'
import { openKeyring } from '../../src/core/secrets/keyring.ts'
import { secretContext } from '../../src/core/secrets/secrets.ts'
import { forEachUser, openFifoGate } from '../support/attack.ts'
import { type AttackInstance, attackInstance, INHERITED_FD, type ServedInstance } from '../support/attack-instance.ts'
import { STUCK } from '../support/attack-programs.ts'
import { needs } from '../support/needs.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const INJECTED = 'x\0--bind\0/\0/tmp/host\0--setenv\0INJECTED\0yes'
/** Without NUL: the store rejects NUL, so that no version can have stored one here. */
const STORED_SESSION = 'x\u0001--bind\u0001/'
const DESCRIPTOR_SECRET = 'svc-secret-of-a-descriptor'

forEachUser('an instance', ['python'], (user) => {
  const endings: (() => void | Promise<void>)[] = []
  const cleanup = { after: (work: () => void | Promise<void>) => void endings.unshift(work) }
  let instance: AttackInstance
  let served: ServedInstance
  /** A directory that every run can read, until a test removes it. */
  let shown = ''

  before(async () => {
    instance = await attackInstance(cleanup, user)
    shown = tempDir(cleanup)
    chmodSync(shown, 0o755)
    const secret = join(tempDir(cleanup), 'secret')
    writeFileSync(secret, DESCRIPTOR_SECRET, { mode: 0o600 })
    const inherited = openSync(secret, 'r')
    mkdirSync(join(instance.root, 'web', 'priv', 'team'), { recursive: true, mode: 0o755 })
    writeFileSync(join(instance.root, 'web', 'priv', 'team', 'page'), 'for the team')
    served = await instance.serve({ inherited, env: { SANDBOX_PATHS: shown } })
    closeSync(inherited)
  })
  after(async () => {
    await served?.stop()
    for (const work of endings) await work()
  })

  test('does not turn stored values of an older version into arguments', async (t) => {
    const { store, setting } = instance
    const keyring = openKeyring(setting('SECRETS_KEY'))
    const now = new Date().toISOString()
    const names = ['INJECTED_SECRET', 'PLAIN_SECRET'].map((key) => ({
      scope_kind: 'folder' as const,
      owner: 'team',
      key,
    }))
    const [bad, good] = names
    assert.ok(bad && good)
    store((db) => {
      const insert = db.prepare(
        'insert into secrets (scope_kind, owner, key, value, created_at) values (?, ?, ?, ?, ?)',
      )
      for (const [name, value] of [
        [bad, INJECTED],
        [good, 'plain'],
      ] as const)
        insert.run(name.scope_kind, name.owner, name.key, keyring.seal(value, secretContext(name)), now)
      db.prepare('update groups set config = ? where folder = ?').run(
        JSON.stringify({ command: ['/bin/echo', INJECTED], model: INJECTED }),
        'team',
      )
      db.prepare(
        `insert into conversations (folder, topic, waiting, session_id, observed_seq, updated_at)
           values ('team', 'stored', 0, ?, 0, ?)`,
      ).run(STORED_SESSION, now)
    })
    t.after(() => store((db) => db.exec(`delete from secrets; update groups set config = null where folder = 'team'`)))
    const look = 'ls -d /tmp/host 2>/dev/null; echo "[$INJECTED][$INJECTED_SECRET][$PLAIN_SECRET][$SVC_SESSION]"'
    const { text } = await served.ask('team', look, 'stored')
    assert.equal(text, '[][][plain][]')
  })

  test('passes no inherited descriptor to an agent', async () => {
    assert.ok(existsSync(`/proc/${served.pid}/fd/${INHERITED_FD}`))
    const program = `exec perl -e '
      for my $fd (3 .. 255) { print "own $fd\n" if -e "/proc/self/fd/$fd" }
      for (glob "/proc/[0-9]*/fd/*") { my $file = readlink; print "$_ $file\n" if $file =~ m{^/(?!dev/null)} }
      print "end"'`
    assert.equal((await served.ask('team', program)).text, 'end')
  })

  test('shows an agent only the socket of its own run', async (t) => {
    const gate = openFifoGate(join(instance.home('other'), 'gate'))
    t.after(() => rmSync(join(instance.home('other'), 'gate')))
    const other = served.ask('other', 'cat gate > /dev/null; echo $SVC_TURN')
    await gate.reached()
    const processes = await processTree(served.pid)
    const findSockets = (): string[] => processes.flatMap((pid) => globSync(join(tmpdir(), `svc-run-${pid}-*`, '*')))
    // The socket of the other run, and possibly the one prepared for the next run.
    const runSockets = findSockets()
    assert.ok([1, 2].includes(runSockets.length), runSockets.join())
    const folderSockets = ['team', 'team/child', 'other', 'main'].map((name) =>
      join(instance.root, 'ipc', name, 'gated.sock'),
    )
    for (const path of folderSockets) assert.ok(existsSync(path), path)
    const paths = [...runSockets, ...folderSockets].flatMap((path) => [path, `/proc/1/root${path}`, `/oldroot${path}`])
    const program = `python3 -c '
import socket
for path in ${JSON.stringify(paths)}:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("connected", path)
    except OSError as error:
        if error.errno not in (2, 13): print(path, error)
socket.socket(socket.AF_UNIX).connect("/run/ipc/gated.sock")
print("own")'`
    assert.equal((await served.ask('team', program)).text, 'own')
    await gate.open()
    assert.equal((await other).status, 'success')
    const left = findSockets()
    assert.ok(left.length <= 1, left.join())
    assert.ok(!runSockets.every((path) => left.includes(path)))
  })

  test('takes no descriptor from an agent, also in the turn of a visitor', async () => {
    const attempt = `
results = [send(tools(), b'{', [stuck()])]
for number in (0, 1, 2):
    try: results.append(send(socket.socket(fileno=os.dup(number)), b'x', [stuck()]))
    except OSError as error: results.append(error.strerror)
print(results)
sys.stdout.flush()
os._exit(0)`
    const program = `cat > /tmp/attack.py <<'END'\n${STUCK}${attempt}\nEND\nexec python3 /tmp/attack.py`
    const refused = canRefuseDescriptors() ? 'Operation not permitted' : 'sent'
    const stream = 'Socket operation on non-socket'
    const expected = `['${refused}', '${stream}', '${stream}', '${stream}']`
    assert.equal((await served.ask('team', program)).text, expected)
    assert.equal((await served.askAsVisitor('team', program)).text, expected)
    assert.equal((await served.ask('other', 'echo > /dev/stderr; echo alive > /dev/stdout')).text.trim(), 'alive')
  })

  test('lets an agent act only for its own turn', async (t) => {
    const gate = openFifoGate(join(instance.home('other'), 'gate'))
    t.after(() => rmSync(join(instance.home('other'), 'gate')))
    const other = served.ask('other', 'echo $SVC_TURN $SVC_FENCE > turn; cat gate > /dev/null; echo finished')
    await gate.reached()
    const forged = `import json, os, socket
turn, fence = ${JSON.stringify(spawnSync('cat', [join(instance.home('other'), 'turn')], { encoding: 'utf8' }).stdout)}.split()
link = socket.socket(socket.AF_UNIX); link.connect("/run/ipc/gated.sock"); answers = link.makefile()
def ask(id, method, params):
    link.sendall((json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + chr(10)).encode())
    return json.loads(answers.readline())
meta = {"svc/turn": turn, "svc/fence": int(fence)}
client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
ask(1, "initialize", {**client, "_meta": meta})
said = ask(2, "tools/call", {"name": "reply", "arguments": {"text": "forged"}, "_meta": meta})
print(said["error"]["message"])`
    writeFileSync(join(instance.home('team'), 'forged.py'), forged)
    const { text, raw } = await served.ask('team', 'python3 forged.py')
    await gate.open()
    const answered = await other
    assert.doesNotMatch(answered.raw, /forged/)
    assert.equal(answered.text, 'finished', raw)
    assert.match(text, /^this socket belongs to the turn /)
  })

  test('does not show the errors of bubblewrap to a visitor', async () => {
    rmSync(shown, { recursive: true })
    const answer = served.ask('team', 'echo started')
    // It is the host's fault, so the message waits.
    await until(() => served.log.join('').includes(shown))
    mkdirSync(shown, { mode: 0o755 })
    const { status, text, raw } = await answer
    assert.deepEqual([status, text], ['success', 'started'])
    assert.doesNotMatch(raw, /cell|bwrap|svc-test-|Can't|No such file/)
  })

  test('hides its files from other users of the machine', needs('root'), async (t) => {
    const { root, home } = instance
    writeFileSync(join(home('team'), 'note'), 'of the team', { mode: 0o644 })
    assert.equal((await served.ask('team', 'echo logged')).text, 'logged')
    const logs = readdirSync(join(root, 'logs', 'team'))
    assert.ok(logs.length > 0)
    const files = [
      ...[join(root, '.env'), join(root, 'store', 'svc.db'), join(home('team'), 'note')],
      ...[join(root, 'web', 'priv', 'team', 'page'), join(root, 'logs', 'team', logs[0] ?? '')],
    ]
    for (const path of files) {
      assert.ok(existsSync(path), path)
      const { stdout, stderr } = runAsOtherUser(t, 'cat', path)
      assert.deepEqual([stdout, /Permission denied/.test(stderr)], ['', true], path)
    }
    for (const name of ['groups', 'logs', 'store', 'ipc', 'web/priv', 'groups/team', 'ipc/team'])
      assert.equal(runAsOtherUser(t, 'ls', join(root, name)).stdout, '', name)
  })
})

/** Runs a program as a user other than those of svc and of the agents. */
function runAsOtherUser(t: TestContext, program: string, ...args: string[]): { stdout: string; stderr: string } {
  return spawnSync(program, args, { uid: 65_532, gid: 65_532, cwd: tempDir(t), encoding: 'utf8' })
}
