// The first program in a sandbox: it sets limits, opens the proxy listener, passes it to svc and executes the agent's
// program. It is written in Perl, which every Debian has and which starts in 2 ms (Node: 40 ms) without a compiler.

/** Descriptors of the init program. */
export const STATUS_FD = 3
export const HANDOVER_FD = 4
export const ENVIRONMENT_FD = 5
/** Written to the status descriptor when the sandbox is ready. An error follows if the program cannot be executed. */
export const READY_MARK = 'r'

/** Port of the proxy inside the sandbox. */
export const PROXY_PORT = 3128

interface CallNumbers {
  readonly sendmsg: number
  readonly prlimit: number
}

const CALLS: Readonly<Record<string, CallNumbers>> = {
  x64: { sendmsg: 46, prlimit: 302 },
  arm64: { sendmsg: 211, prlimit: 261 },
}

export interface InitOptions {
  readonly perl: string
  /** Hard and soft limits by resource number. */
  readonly limits: ReadonlyMap<number, number>
  /** Whether to open a listener and pass it to svc. */
  readonly opensListener: boolean
}

/**
 * The text that is read from `ENVIRONMENT_FD`. Perl starts with an empty environment and sets these variables itself: PERL5OPT or
 * LD_PRELOAD would run code of the agent in the init program, before the limits and with every inherited descriptor open.
 */
export function environmentText(env: Readonly<Record<string, string>>): string {
  return Object.entries(env)
    .map(([name, value]) => `${name}=${value}\0`)
    .join('')
}

/** The command line that runs `argv` through the init program; undefined on an unsupported architecture. */
export function initCommand(options: InitOptions, argv: readonly string[]): readonly string[] | undefined {
  const calls = CALLS[process.arch]
  if (!calls) return undefined
  const limits = [...options.limits].map(([resource, value]) => `${resource}=${value}`).join(',')
  const port = options.opensListener ? String(PROXY_PORT) : '0'
  return [options.perl, '-e', PROGRAM, limits, port, String(calls.sendmsg), String(calls.prlimit), ...argv]
}

/**
 * 436 is close_range on every architecture. Process 1 belongs to bubblewrap; it gets the same limits, because the agent can
 * write to its memory (/proc/1/mem). The message that passes the descriptor is a struct msghdr with one byte of text and a
 * struct cmsghdr (20 bytes, SOL_SOCKET, SCM_RIGHTS).
 */
const PROGRAM = `
my ($limits, $port, $sendmsg, $prlimit) = splice @ARGV, 0, 4;
open my $status, '>&=', ${STATUS_FD} or exit 126;
sub fail { syswrite $status, "$_[0]: $!"; exit 126 }
my $environment = '';
open my $variables, '<&=', ${ENVIRONMENT_FD} or fail 'environment';
1 while sysread $variables, $environment, 65536, length $environment;
syscall 436, ${HANDOVER_FD + 1}, 0xffffffff, 0;
for my $pid (1, 0) {
  for (split /,/, $limits) {
    my ($resource, $limit) = split /=/;
    my $now = pack 'QQ', 0, 0;
    syscall $prlimit + 0, $pid, $resource + 0, 0, $now;
    my $hard = (unpack 'QQ', $now)[1];
    my $value = $hard < $limit ? $hard : $limit;
    my $pair = pack 'QQ', $value, $value;
    syscall($prlimit + 0, $pid, $resource + 0, $pair, 0) == 0 or fail "limit $resource";
  }
}
if ($port) {
  socket my $listener, 2, 1, 0 or fail 'socket';
  bind $listener, pack('SnC4x8', 2, $port, 127, 0, 0, 1) or fail 'bind';
  listen $listener, 1024 or fail 'listen';
  my $text = 'L';
  my $vector = pack 'PQ', $text, 1;
  my $control = pack 'Qllll', 20, 1, 1, fileno $listener, 0;
  my $message = pack 'QLx4PQPQlx4', 0, 0, $vector, 1, $control, 24, 0;
  syscall($sendmsg + 0, ${HANDOVER_FD}, $message, 0) == 1 or fail 'hand over';
}
syscall 436, ${HANDOVER_FD}, ${HANDOVER_FD}, 0;
%ENV = (PWD => $ENV{PWD});
for (split /\\0/, $environment) {
  my ($name, $value) = split /=/, $_, 2;
  $ENV{$name} = $value;
}
syswrite $status, '${READY_MARK}';
exec { $ARGV[0] } @ARGV;
syswrite $status, "$!";
exit 127;
`
