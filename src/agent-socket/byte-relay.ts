// A process that copies bytes between the socket that an agent sees and the one of svc, and drops descriptors. For kernels that
// cannot refuse them: what the agent sends then blocks only this process, which belongs to one run.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readEnvironment } from '../lib/environment.ts'
import { refuse } from '../lib/refusal.ts'

/** More are not accepted until one has ended. svc itself accepts eight, and refuses as many at a time. */
const CONNECTIONS_MAX = 16

/** Time for the agent to close its side after svc has closed: svc itself gives one second. */
const LINGER_SECONDS = 2

/**
 * Each connection has a process for each direction, which ends with its input. Arguments: a directory, the name of the
 * socket to open there, and the one to connect to. Names are relative, because paths of sockets are short. The process ends
 * with svc, which holds the other end of its input. 66 is MSG_PEEK and MSG_DONTWAIT: the agent has closed its side if that
 * is ready and has nothing to read.
 */
const PROGRAM = `
my ($directory, $name, $target) = @ARGV;
chdir $directory or die "$directory: $!\\n";
$SIG{PIPE} = 'IGNORE';
socket my $listener, 1, 1, 0 or die "socket: $!\\n";
bind $listener, pack 'Sa*x', 1, $name or die "bind: $!\\n";
listen $listener, 64 or die "listen: $!\\n";
syswrite STDOUT, "ready\\n";
sub copy {
  my ($from, $to, $linger) = @_;
  while (sysread $from, my $bytes, 65536) {
    for (my $at = 0; $at < length $bytes;) { $at += syswrite($to, $bytes, 65536, $at) || exit }
  }
  shutdown $to, 1;
  for (1 .. $linger * 20) {
    my $ready = '';
    vec($ready, fileno $to, 1) = 1;
    last if select $ready, undef, undef, 0.05 and defined recv $to, my $byte, 1, 66 and $byte eq '';
  }
  shutdown $to, 2 if $linger;
  exit;
}
my $processes = 0;
for (;;) {
  my $ready = '';
  vec($ready, 0, 1) = vec($ready, fileno $listener, 1) = 1;
  (select $ready, undef, undef, undef) < 0 and next;
  exit if vec $ready, 0, 1;
  accept my $client, $listener or next;
  socket my $svc, 1, 1, 0 or next;
  connect $svc, pack 'Sa*x', 1, $target or next;
  for my $pair ([$client, $svc, 0], [$svc, $client, ${LINGER_SECONDS}]) {
    my $pid = fork // next;
    copy @$pair if !$pid;
    $processes++;
  }
  close $_ for $client, $svc;
  $processes-- while $processes and waitpid(-1, $processes < 2 * ${CONNECTIONS_MAX}) > 0;
}
`

export class ByteRelay {
  readonly #child: ChildProcess

  private constructor(child: ChildProcess) {
    this.#child = child
  }

  /** Opens the socket `name`, whose connections lead to `target`, both in `directory`. */
  static async open(directory: string, name: string, target: string): Promise<ByteRelay> {
    // A process group of its own.
    const child = spawn('perl', ['-e', PROGRAM, directory, name, target], {
      ...{ detached: true, cwd: '/', env: { PATH: readEnvironment('PATH'), PERL_SKIP_LOCALE_INIT: '1' } },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    const relay = new ByteRelay(child)
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-500)
    })
    const failed = new Promise<false>((resolve) => {
      child.once('error', (error) => {
        stderr = error.message
        resolve(false)
      })
      child.once('close', () => resolve(false))
    })
    const isReady = await Promise.race([once(child.stdout, 'data').then(() => true), failed])
    if (!isReady) refuse('unavailable', `the relay of a tool socket could not be started: ${stderr.trim()}`)
    for (const handle of [child, child.stdin, child.stdout, child.stderr]) Reflect.get(handle, 'unref')?.call(handle)
    return relay
  }

  close(): void {
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, 'SIGKILL')
    } catch {
      // It has already exited.
    }
  }
}
