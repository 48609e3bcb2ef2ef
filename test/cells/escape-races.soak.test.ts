// Race attacks: while the host works in a workspace, an agent exchanges directories with links to the outside.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { attackHost, ENV_SECRET, FailedAttack, forEachUser, openFifoGate } from '../support/attack.ts'
import { type AttackInstance, attackInstance, type ServedInstance } from '../support/attack-instance.ts'
import { numberOf, perl } from '../support/attack-programs.ts'
import { contentsOf } from '../support/entry-swapper.ts'
import { until } from '../support/until.ts'

const EXCHANGES_MIN = 5_000
const STARTS = 100
const TOOL_CALLS = 250

const AT_FDCWD = -100
const RENAME_EXCHANGE = 2

/** Perl that exchanges `child` and `trap` until a file `stop` exists and prints the count; opens the FIFO `gate` when running. */
const EXCHANGING = `
  my ($a, $b, $count) = ('child', 'trap', 0);
  until ($count >= ${EXCHANGES_MIN} && $count % 1000 == 0 && -e 'stop') {
    syscall(${numberOf('renameat2')}, ${AT_FDCWD}, $a, ${AT_FDCWD}, $b, ${RENAME_EXCHANGE}) == 0 or die "exchange: $!";
    if (++$count == 1000) { open my $gate, '<', 'gate'; <$gate> }
  }
  rename 'trap', 'child' if -l 'child' && unlink 'child';
  print $count`

forEachUser('a workspace exchanged with a link', [], (user) => {
  const host = attackHost(user)

  test(`is mounted correctly or not at all in ${STARTS} starts`, async () => {
    const { attack, home, root } = host()
    writeFileSync(join(home('team/child'), 'marker'), 'of the child')
    symlinkSync(root, join(home('team'), 'trap'))
    const gate = openFifoGate(join(home('team'), 'gate'))
    const exchanging = attack(perl(EXCHANGING))
    await Promise.race([gate.reached(), exchanging])
    await gate.open()
    const seen = new Map<string, number>()
    for (let start = 0; start < STARTS; start++) {
      const command = [
        '/bin/sh',
        '-c',
        'cat marker .env groups/other/secret 2>/dev/null; ls -A | grep -cxE "groups|.env"; true',
      ]
      const outcome = await attack(command, { folder: 'team/child' }).catch((error) => {
        assert.ok(error instanceof FailedAttack, String(error))
        return error.message
      })
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
    }
    writeFileSync(join(home('team'), 'stop'), '')
    const exchanges = Number(await exchanging)
    rmSync(join(home('team'), 'stop'))
    // svc refuses to open a link, and bubblewrap fails when the path is another directory than the open one.
    const refusals = [
      'the workspace of team/child is a symbolic link or not a directory',
      'its cell could not be set up',
    ]
    const others = [...seen.keys()].filter((outcome) => !refusals.some((refusal) => outcome.startsWith(refusal)))
    assert.deepEqual(others, ['of the child0'])
    assert.ok(seen.has('the workspace of team/child is a symbolic link or not a directory'))
    assert.ok(exchanges >= EXCHANGES_MIN, String(exchanges))
    assert.match(readFileSync(join(root, '.env'), 'utf8'), new RegExp(ENV_SECRET))
  })
})

/** Python that sets and reads the work file of its folder with its tools and prints the number of each outcome. */
const WORKING = `
import collections, json, socket
link = socket.socket(socket.AF_UNIX)
link.connect('/run/ipc/gated.sock')
answers = link.makefile()
def ask(id, method, params):
    link.sendall((json.dumps({'jsonrpc': '2.0', 'id': id, 'method': method, 'params': params}) + chr(10)).encode())
    return json.loads(answers.readline())
client = {'protocolVersion': '2025-06-18', 'capabilities': {}, 'clientInfo': {'name': 'x', 'version': '0'}}
ask(0, 'initialize', client)
seen = collections.Counter()
def call(id, name, arguments):
    result = ask(id, 'tools/call', {'name': name, 'arguments': arguments}).get('result', {})
    text = result.get('content', [{}])[0].get('text', '')
    seen[name + ' ' + ('refused' if result.get('isError') else json.loads(text).get('content', '') if name == 'get_work' else 'done')] += 1
for id in range(1, ${TOOL_CALLS + 1}):
    call(id, 'set_work', {'content': 'mine'})
    call(-id, 'get_work', {})
print(json.dumps(seen))
`

forEachUser('the work file of a workspace exchanged with a link', ['python'], (user) => {
  const endings: (() => void | Promise<void>)[] = []
  let instance: AttackInstance
  let served: ServedInstance
  before(async () => {
    instance = await attackInstance({ after: (work) => void endings.unshift(work) }, user)
    served = await instance.serve()
  })
  after(async () => {
    await served?.stop()
    for (const work of endings) await work()
  })

  test('is never written or read outside of the workspace by tools', async () => {
    const { home, root } = instance
    // Through a link the host would write to the work file of `other` and show it to `team/child`.
    const outside = home('other')
    // The last change of owners after the start.
    await until(() => statSync(outside).uid !== 0)
    writeFileSync(join(outside, 'work.md'), 'theirs')
    const before = contentsOf(outside)
    symlinkSync(outside, join(home('team'), 'trap'))
    writeFileSync(join(home('team/child'), 'working.py'), WORKING)
    writeFileSync(join(home('team'), 'exchanging.pl'), EXCHANGING)
    const gate = openFifoGate(join(home('team'), 'gate'))
    // The run of the child starts first and waits, because its workspace must be in place at its start.
    const childGate = openFifoGate(join(home('team/child'), 'gate'))
    const working = served.ask('team/child', 'cat gate > /dev/null; exec python3 working.py')
    await childGate.reached()
    const exchanging = served.ask('team', 'exec perl exchanging.pl')
    await gate.reached()
    await gate.open()
    await childGate.open()
    const { text, raw } = await working
    writeFileSync(join(home('team'), 'stop'), '')
    const exchanges = Number((await exchanging).text)
    const seen: Record<string, number> = JSON.parse(text || assert.fail(raw))
    const possible = ['set_work done', 'set_work refused', 'get_work mine', 'get_work refused', 'get_work ']
    assert.deepEqual(
      Object.keys(seen).filter((outcome) => !possible.includes(outcome)),
      [],
    )
    assert.ok((seen['set_work done'] ?? 0) > 0 && (seen['set_work refused'] ?? 0) > 0, text)
    assert.ok((seen['get_work mine'] ?? 0) > 0 && (seen['get_work refused'] ?? 0) > 0, text)
    assert.ok(exchanges >= EXCHANGES_MIN, String(exchanges))
    assert.deepEqual(contentsOf(outside), before)
    assert.equal(existsSync(join(root, 'work.md')), false)
    assert.deepEqual(
      readdirSync(outside).filter((name) => name.startsWith('.tmp-')),
      [],
    )
  })
})
