// Attacks with descriptors: what an agent sends over its streams and sockets, and what they show of the machine.
import assert from 'node:assert/strict'
import { readdirSync, readlinkSync, rmSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { canRefuseDescriptors } from '../../src/agent-socket/socket-options.ts'
import {
  type AttackHost,
  agentUidOf,
  attackHost,
  forEachUser,
  openAttackHost,
  openFifoGate,
} from '../support/attack.ts'
import { LINGER_SECONDS, python, STUCK } from '../support/attack-programs.ts'
import { processesWith } from '../support/processes.ts'
import { until } from '../support/until.ts'

const NOT_A_SOCKET = 'Socket operation on non-socket'

/**
 * Runs a program that sends descriptors and prints a line. svc is suspended meanwhile, so that it has their last copy. Then
 * it must do other work.
 */
async function attackSuspended(t: TestContext, host: AttackHost, prepare: string, send: string): Promise<string> {
  const { attack, home, pid } = host
  const gates = ['first', 'second'].map((name) => {
    t.after(() => rmSync(join(home(), name)))
    return openFifoGate(join(home(), name))
  })
  const steps = [
    STUCK,
    prepare,
    "open('first').read()",
    send,
    'sys.stdout.flush()',
    "open('second').read()",
    'os._exit(0)',
  ]
  const attacking = attack(python(steps.join('\n')))
  const [first, second] = gates
  assert.ok(first && second)
  await first.reached()
  process.kill(pid, 'SIGSTOP')
  await first.open()
  await second.reached()
  process.kill(pid, 'SIGCONT')
  const alive = await attack('echo alive', { folder: 'other' }).catch(String)
  await second.open()
  const output = await attacking
  assert.equal(alive, 'alive')
  assert.ok(host.stallMs() < (LINGER_SECONDS * 1000) / 2, `svc stood still for ${host.stallMs()} ms`)
  return output
}

forEachUser('standard streams', ['python'], (user) => {
  const host = attackHost(user)

  test('are pipes of the agent, over which no descriptor can be sent', async (t) => {
    const attempt = `
import stat
results = set()
for number, each in enumerate(sockets):
    info = os.fstat(number)
    results.add(f'{stat.S_ISFIFO(info.st_mode)} {info.st_uid}')
    try: results.add(send(socket.socket(fileno=os.dup(number)), b'x', [each]))
    except OSError as error: results.add(error.strerror)
print(sorted(results))`
    const output = await attackSuspended(t, host(), 'sockets = [stuck() for _ in range(3)]', attempt)
    assert.equal(output, `['${NOT_A_SOCKET}', 'True ${agentUidOf(user)}']`)
  })

  test('can be opened by name', async () => {
    const named = 'echo one > /dev/stdout; echo two > /dev/stderr; echo three > /proc/self/fd/2; echo four > /dev/fd/1'
    assert.equal(await host().attack(named), 'one\ntwo\nthree\nfour')
    assert.equal(await host().attack(['/bin/sh', '-c', 'cat /dev/stdin | head -c 6']), 'attack')
  })

  test('show neither interfaces nor abstract sockets of the machine', async () => {
    const program = `
import fcntl, os, socket
for number in (0, 1, 2):
    try: print(fcntl.ioctl(number, 0x8912, bytes(16)))
    except OSError as error: print(error.strerror)
    try: print(socket.socket(fileno=os.dup(number)).family)
    except OSError as error: print(error.strerror)
print([name for _, name in socket.if_nameindex()])`
    const lines = (await host().attack(python(program))).split('\n')
    const each = ['Inappropriate ioctl for device', NOT_A_SOCKET]
    assert.deepEqual(lines, [...each, ...each, ...each, "['lo']"])
    assert.ok(Object.keys(networkInterfaces()).length > 0)
  })
})

for (const isRelayed of [false, true])
  forEachUser(isRelayed ? 'the tool socket on an older kernel' : 'the tool socket', ['python'], (user) => {
    const host = attackHost(user, {}, { isRelayed })
    const answer = isRelayed || !canRefuseDescriptors() ? 'sent' : 'Operation not permitted'

    test('is not blocked by sockets whose close waits', async (t) => {
      const prepare = 'link, file = tools(), stuck()'
      assert.equal(await attackSuspended(t, host(), prepare, `print(send(link, b'{"half', [file]))`), answer)
    })

    test('is not blocked by connections that end with unread descriptors', async (t) => {
      const prepare = 'links = [tools() for _ in range(8)]; files = [stuck() for _ in range(16)]'
      const attempt = `
results = {send(link, b'x' * 1000, [files.pop(), files.pop()]) for link in links}
for link in links: link.close()
print(results)`
      assert.equal(await attackSuspended(t, host(), prepare, attempt), `{'${answer}'}`)
    })

    if (isRelayed)
      test('has no process left when svc was killed', async (t) => {
        const other = await openAttackHost(t, user, {}, { isRelayed })
        const gate = openFifoGate(join(other.home(), 'gate'))
        const attacking = other.attack(python(`${STUCK}\nlinks = [tools() for _ in range(3)]\nopen('gate').read()`))
        await gate.reached()
        await until(() => processesWith(other.root).length === 1 + 1 + 2 * 3)
        process.kill(other.pid, 'SIGKILL')
        await assert.rejects(attacking)
        await until(() => processesWith(other.root).length === 0)
        await gate.open()
      })

    test('takes no part of thousands of descriptors', async (t) => {
      const attempt = `print({send(tools(), b'x', [open('/dev/null') for _ in range(200)]) for _ in range(20)})`
      assert.equal(await attackSuspended(t, host(), '', attempt), `{'${answer}'}`)
      const left = readdirSync(`/proc/${host().pid}/fd`).map((fd) => linkOf(`/proc/${host().pid}/fd/${fd}`))
      assert.ok(left.filter((path) => path === '/dev/null').length < 10)
    })
  })

forEachUser('descriptors in flight', ['python'], (user) => {
  const host = attackHost(user, { AGENT_MAX_FILES: '256' })

  test('of one folder do not keep the runs of others from starting', async (t) => {
    const attempt = `
result = 'sent'
while result == 'sent':
    pair = socket.socketpair()
    kept.extend(pair)
    result = send(pair[0], b'x', [open('/dev/null') for _ in range(50)])
print(result)`
    assert.equal(await attackSuspended(t, host(), '', attempt), 'Too many references: cannot splice')
  })
})

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}
