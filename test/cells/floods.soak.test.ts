// Agents that send as much as they can, while others use the instance.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { forEachUser } from '../support/attack.ts'
import { type AttackInstance, attackInstance, type ServedInstance } from '../support/attack-instance.ts'

const FLOOD_S = 4
/** Of the time in which half of the requests are answered. A flood that is worked off takes several times as long. */
const HEALTH_MEDIAN_MS = 100

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
  my $text = q(${line}) . "\\n";
  while (time < $end) {
    my $written = syswrite($tools, $text x 100);
    if (defined $written) { $count += $written } else { select(undef, undef, undef, 0.001) }
  }
  kill 9, $reader;
  print "flooded\\n";
'`

const PROGRAMS: Readonly<Record<string, string>> = {
  'newlines on stdout': `timeout ${FLOOD_S} yes ''; echo flooded`,
  'newlines on stderr': `timeout ${FLOOD_S} yes '' >&2; echo flooded`,
  'single bytes on stdout': `perl -e '${SOCKET} syswrite(STDOUT, "x") while time < $end; print "\\nflooded\\n"'`,
  'requests for the list of tools': floodOf('{"jsonrpc":"2.0","id":1,"method":"tools/list"}'),
  notifications: floodOf('{"jsonrpc":"2.0","method":"notifications/x"}'),
  'malformed lines': floodOf('{"jsonrpc":'),
  'submissions of the turn': floodOf('{"jsonrpc":"2.0","id":1,"method":"submit_turn","params":{"turn_id":"x"}}'),
  connections: `perl -e '${SOCKET} connection() while time < $end; print "flooded\\n"'`,
}

forEachUser('an instance with a flood of', [], (user) => {
  const endings: (() => void | Promise<void>)[] = []
  const cleanup = { after: (work: () => void | Promise<void>) => void endings.unshift(work) }
  let instance: AttackInstance
  let served: ServedInstance

  before(async () => {
    instance = await attackInstance(cleanup, user)
    served = await instance.serve()
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

  for (const [what, program] of Object.entries(PROGRAMS)) {
    test(`${what} answers other requests meanwhile`, async (t) => {
      const flooding = served.askAsVisitor('team', program)
      const times = (await healthDuring(flooding)).sort((a, b) => a - b)
      const [median = Number.POSITIVE_INFINITY, longest] = [times[times.length >> 1], times.at(-1)]
      t.diagnostic(`${times.length} requests, median ${median.toFixed(1)} ms, longest ${longest?.toFixed(1)} ms`)
      const { status, raw } = await flooding
      assert.equal(status, 'success', raw.slice(-500))
      assert.ok(median < HEALTH_MEDIAN_MS, `half of the requests took longer than ${median} ms`)
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
