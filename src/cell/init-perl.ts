// Parts of the first program in a sandbox, which is written in Perl: every Debian has it, and it starts in 2 ms (Node: 40 ms)
// without a compiler.

/** Written to the status descriptor when the sandbox is ready. An error follows if the program cannot be executed. */
export const READY_MARK = 'r'

/** Port of the proxy inside the sandbox. */
export const PROXY_PORT = 3128

/** Numbers of system calls on x64 and arm64. */
const CALLS = {
  dup3: [292, 24],
  prctl: [157, 167],
  prlimit: [302, 261],
  recvmsg: [47, 212],
  sendmsg: [46, 211],
  setsid: [112, 157],
  sigmask: [14, 135],
  signalfd: [289, 74],
} as const

export type CallNumbers = Readonly<Record<keyof typeof CALLS, number>>

/** Undefined on an unsupported architecture. */
export function callNumbers(arch: string = process.arch): CallNumbers | undefined {
  if (arch !== 'x64' && arch !== 'arm64') return undefined
  const column = arch === 'x64' ? 0 : 1
  return Object.fromEntries(Object.entries(CALLS).map(([name, numbers]) => [name, numbers[column]])) as CallNumbers
}

/** As `INIT_PARTS` reads them from `$numbers`. */
export function callsText(calls: CallNumbers): string {
  return Object.entries(calls)
    .map(([name, number]) => `${name}=${number}`)
    .join(',')
}

/** Hard and soft limits by resource number, as `set_limits` reads them. */
export function limitsText(limits: ReadonlyMap<number, number>): string {
  return [...limits].map(([resource, value]) => `${resource}=${value}`).join(',')
}

/**
 * Perl starts with an empty environment and sets the variables of the run itself: PERL5OPT or LD_PRELOAD would run code of
 * the agent in the init program, before the limits and with every inherited descriptor open.
 */
export function environmentText(env: Readonly<Record<string, string>>): string {
  return Object.entries(env)
    .map(([name, value]) => `${name}=${value}\0`)
    .join('')
}

/**
 * Needs `$numbers`, `$status` and `%call`. Hands the proxy's listener to svc, sets limits and executes the agent's program. The
 * message that passes the descriptor is a struct msghdr with one byte of text and a struct cmsghdr (20 bytes, SOL_SOCKET,
 * SCM_RIGHTS). Before, the limit of open files (7) is raised: the kernel compares it with the number of descriptors that all
 * processes of this user have in flight, so that other runs could use it up. In a container that is used again, svc may not
 * have closed the previous listener yet (98 is EADDRINUSE).
 *
 * Numbers: prctl 4 is PR_SET_DUMPABLE, without which nobody may open /proc/<pid>/mem; SIGCHLD is 17, so bit 16; 0x80800 are
 * SFD_CLOEXEC and SFD_NONBLOCK.
 */
export const INIT_PARTS = `
%call = map { my ($name, $number) = split /=/; ($name, $number + 0) } split /,/, $numbers;
sub fail { syswrite $status, "$_[0]: $!"; exit 126 }
sub hide_memory { syscall $call{prctl}, 4, 0, 0, 0, 0 }
sub watch_children {
  my $set = pack 'Q', 1 << 16;
  syscall $call{sigmask}, 0, $set, 0, 8;
  my $signals = syscall $call{signalfd}, -1, $set, 8, 0x80800;
  open my $events, '<&=', $signals or fail 'signals';
  ($signals, $events);
}
sub unwatch_children {
  my $none = pack 'Q', 0;
  syscall $call{sigmask}, 2, $none, 0, 8;
}
sub set_limits {
  for (split /,/, $_[0]) {
    my ($resource, $limit) = split /=/;
    my $now = pack 'QQ', 0, 0;
    syscall $call{prlimit}, 0, $resource + 0, 0, $now;
    my $hard = (unpack 'QQ', $now)[1];
    my $value = $hard < $limit ? $hard : $limit;
    my $pair = pack 'QQ', $value, $value;
    syscall($call{prlimit}, 0, $resource + 0, $pair, 0) == 0 or fail "limit $resource";
  }
}
sub hand_over_listener {
  my ($port, $handover) = @_;
  my $files = pack 'QQ', 0, 0;
  syscall $call{prlimit}, 0, 7, 0, $files;
  $files = pack 'QQ', ((unpack 'QQ', $files)[1]) x 2;
  syscall $call{prlimit}, 0, 7, $files, 0;
  socket my $listener, 2, 1, 0 or fail 'socket';
  setsockopt $listener, 1, 2, 1;
  my $address = pack 'SnC4x8', 2, $port, 127, 0, 0, 1;
  my $tries = 2000;
  until (bind $listener, $address and listen $listener, 1024) {
    $! == 98 and $tries-- or fail 'bind';
    select undef, undef, undef, 0.002;
  }
  my $text = 'L';
  my $vector = pack 'PQ', $text, 1;
  my $control = pack 'Qllll', 20, 1, 1, fileno $listener, 0;
  my $message = pack 'QLx4PQPQlx4', 0, 0, $vector, 1, $control, 24, 0;
  syscall($call{sendmsg}, $handover + 0, $message, 0) == 1 or fail 'hand over';
}
sub run_program {
  my ($environment, @command) = @_;
  %ENV = (PWD => $ENV{PWD});
  for (split /\\0/, $environment) {
    my ($name, $value) = split /=/, $_, 2;
    $ENV{$name} = $value;
  }
  syswrite $status, '${READY_MARK}';
  exec { $command[0] } @command;
  syswrite $status, "$!";
  exit 127;
}
`
