// Agents that send as much as they can, while others use the instance.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { forEachUser } from '../support/attack.ts'
import { type AttackInstance, attackInstance, type ServedInstance } from '../support/attack-instance.ts'
import { svcProcesses } from '../support/svc-processes.ts'

const FLOOD_S = 4
/** Of `/proc/<pid>/stat`, on every Linux. */
const TICKS_PER_SECOND = 100
/** A busy machine delays requests too; a flood that is worked off delays them until its end. */
const HEALTH_MAX_MS = 2000
/** Processor time of svc per second of a flood, with the requests of this test. Working off a flood takes nearly all of it. */
const BUSY_MAX = 0.7

/** Perl with `connection`, which connects to the tool socket, and the time at which the flood ends. */
const SOCKET = `
  use IO::Socket::UNIX;
  use Time::HiRes qw(time);
  sub connection { IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $ENV{SVC_SOCKET}) }
  my $end = time + ${FLOOD_S};
`

/** Writes a line for as long as the flood lasts; another process reads the responses. */
const floodOf = (line: string): string => `perl -e '${SOCKET}
  my $tools = connection() or die;
  my $reader = fork;
  if (!$reader) { 1 while sysread($tools, my $read, 65536); exit }
  my $count = 0;
  $tools->blocking(0);
  my $text = join "", map { my $line = q(${line}); $line =~ s/ID/$_/; "$line\\n" } 1 .. 100;
  while (time < $end) {
    my $written = syswrite($tools, $text);
    if (defined $written) { $count += $written } else { select(undef, undef, undef, 0.001) }
  }
  kill 9, $reader;
  print "flooded\\n";
'`

const TOO_LONG = 'the answer is too long to be sent'

interface Flood {
  readonly program: string
  /** A failed turn of each folder: after more of them it would pause. */
  readonly folder?: string
  readonly error?: string
}

const FLOODS: Readonly<Record<string, Flood>> = {
  'newlines on stdout': { program: `timeout ${FLOOD_S} yes ''; echo flooded`, folder: 'team', error: TOO_LONG },
  'newlines on stderr': { program: `timeout ${FLOOD_S} yes '' >&2; echo flooded`, folder: 'other', error: TOO_LONG },
  'single bytes on stdout': {
    program: `perl -e '${SOCKET} syswrite(STDOUT, "x") while time < $end; print "\\nflooded\\n"'`,
    folder: 'team/child',
    error: TOO_LONG,
  },
  'requests for the list of tools': { program: floodOf('{"jsonrpc":"2.0","id":ID,"method":"tools/list"}') },
  notifications: { program: floodOf('{"jsonrpc":"2.0","method":"notifications/x"}') },
  'malformed lines': { program: floodOf('{"jsonrpc":') },
  'submissions of the turn': {
    program: floodOf('{"jsonrpc":"2.0","id":ID,"method":"submit_turn","params":{"turn_id":"x"}}'),
  },
  connections: { program: `perl -e '${SOCKET} connection() while time < $end; print "flooded\\n"'` },
}

forEachUser('an instance with a flood of', [], (user) => {
  const endings: (() => void | Promise<void>)[] = []
  const cleanup = { after: (work: () => void | Promise<void>) => void endings.unshift(work) }
  let instance: AttackInstance
  let served: ServedInstance

  before(async () => {
    instance = await attackInstance(cleanup, user)
    served = await instance.serve()
    // The first turn takes longer.
    await served.askAsVisitor('team', 'echo ready')
  })
  after(async () => {
    await served?.stop()
    for (const work of endings) await work()
  })

  /** Times of requests for `/health` while the work goes on. */
  async function healthDuring(work: Promise<unknown>): Promise<number[]> {
    const times: number[] = []
    let isOver = false
    const ended = work.finally(() => {
      isOver = true
    })
    while (!isOver) {
      const started = performance.now()
      assert.equal((await fetch(`${served.url}/health`)).status, 200)
      times.push(performance.now() - started)
      await pause(10)
    }
    await ended
    return times
  }

  /** Of the front and the runner. */
  const processorSeconds = (): number => svcProcesses(served.pid).reduce((sum, { pid }) => sum + processorTime(pid), 0)

  for (const [what, { program, folder = 'team', error }] of Object.entries(FLOODS)) {
    test(`${what} answers other requests and has little work`, async (t) => {
      const before = processorSeconds()
      const flooding = served.askAsVisitor(folder, program)
      const longest = Math.max(...(await healthDuring(flooding)))
      const busy = (processorSeconds() - before) / FLOOD_S
      t.diagnostic(`longest request ${longest.toFixed(0)} ms, ${(100 * busy).toFixed(0)} % of a processor`)
      const { status, raw } = await flooding
      assert.equal(status, error ? 'failed' : 'success', raw.slice(-500))
      if (error) assert.ok(raw.includes(error), raw.slice(-500))
      assert.ok(longest < HEALTH_MAX_MS, `a request took ${longest} ms`)
      // Node always accepts connections; only what follows can wait.
      if (what !== 'connections') assert.ok(busy < BUSY_MAX, `svc used ${busy} of a processor`)
    })
  }

  test('requests records the turn that is submitted behind them', async () => {
    const { text } = await served.askAsVisitor(
      'team',
      `perl -e '${SOCKET}
        my $tools = connection() or die;
        my $submit = qq({"jsonrpc":"2.0","id":"end","method":"submit_turn","params":{"turn_id":"$ENV{SVC_TURN}","result":"recorded"}}\\n);
        print $tools qq({"jsonrpc":"2.0","id":$_,"method":"ping"}\\n) for 1 .. 2500;
        print $tools $submit;
        $tools->flush;
        while (<$tools>) { last if /"end"/ }
        exit 1;
      '`,
    )
    assert.match(text, /recorded/)
  })
})

function processorTime(pid: number): number {
  const [, fields = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const [user, system] = fields.split(' ').slice(11, 13).map(Number)
  return ((user ?? Number.NaN) + (system ?? Number.NaN)) / TICKS_PER_SECOND
}
