// Programs of agents that send as much as they can for a few seconds.
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'

export const FLOOD_S = 4

/** Perl with `connection`, which connects to the tool socket, and the time at which the flood ends. Images have no modules. */
export const SOCKET = `
  sub connection { my $tools; socket($tools, 1, 1, 0); connect($tools, pack("Sa*x", 1, $ENV{SVC_SOCKET})) ? $tools : undef }
  my $end = time + ${FLOOD_S};
`

/** Writes a line for as long as the flood lasts; another process reads the responses. */
const floodOf = (line: string): string => `perl -e '${SOCKET}
  my $tools = connection() or die;
  my $reader = fork;
  if (!$reader) { 1 while sysread($tools, my $read, 65536); exit }
  my $count = 0;
  # F_SETFL, O_NONBLOCK
  fcntl($tools, 4, 2048);
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

export const FLOODS: Readonly<Record<string, Flood>> = {
  'newlines on stdout': {
    program: `perl -e '${SOCKET} syswrite(STDOUT, "\\n" x 8192) while time < $end; print "flooded\\n"'`,
    folder: 'team',
    error: TOO_LONG,
  },
  'newlines on stderr': {
    program: `perl -e '${SOCKET} syswrite(STDERR, "\\n" x 8192) while time < $end; print "flooded\\n"'`,
    folder: 'other',
    error: TOO_LONG,
  },
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

/** Times of requests for `/health` while the work goes on. */
export async function healthDuring(url: string, work: Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  let isOver = false
  const ended = work.finally(() => {
    isOver = true
  })
  while (!isOver) {
    const started = performance.now()
    assert.equal((await fetch(`${url}/health`)).status, 200)
    times.push(performance.now() - started)
    await pause(10)
  }
  await ended
  return times
}
