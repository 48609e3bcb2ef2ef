// The first program in a cell, in Perl: it limits itself, opens the listener of the run's way out and hands it to svc, and
// becomes the agent's program. Perl because every Debian has it and it starts in 2 ms, where Node takes 40, and because
// nothing can be compiled here.

/** Descriptors of the init program. */
export const STATUS_FD = 3
export const HANDOVER_FD = 4
export const ENVIRONMENT_FD = 5
/** What it writes to its status descriptor once the cell stands; behind it follows why the program could not be started. */
export const STANDING = 'r'

/** Where proxy variables lead, inside. */
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
  /** Hard and soft limits by the kernel's number of the resource. */
  readonly limits: ReadonlyMap<number, number>
  /** Whether to open a listener and hand it over. */
  readonly listens: boolean
}

/**
 * The text behind `ENVIRONMENT_FD`. Perl starts with an empty environment and sets these variables itself: PERL5OPT or
 * LD_PRELOAD would run code of the agent in the init program, before the limits and with every inherited descriptor open.
 */
export function environmentText(env: Readonly<Record<string, string>>): string {
  return Object.entries(env)
    .map(([name, value]) => `${name}=${value}\0`)
    .join('')
}

/** The command line that runs `argv` below the init program; undefined on a machine whose call numbers are not known. */
export function initCommand(options: InitOptions, argv: readonly string[]): readonly string[] | undefined {
  const calls = CALLS[process.arch]
  if (!calls) return undefined
  const limits = [...options.limits].map(([resource, value]) => `${resource}=${value}`).join(',')
  const port = options.listens ? String(PROXY_PORT) : '0'
  return [options.perl, '-e', PROGRAM, limits, port, String(calls.sendmsg), String(calls.prlimit), ...argv]
}

/**
 * 436 is close_range on every machine. Process 1 is bubblewrap's own: the agent can write to its memory (/proc/1/mem), so it
 * gets the same limits. A message with a descriptor is put together by hand: struct msghdr with one byte of
 * text, and struct cmsghdr (20 bytes, SOL_SOCKET, SCM_RIGHTS).
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
syswrite $status, '${STANDING}';
exec { $ARGV[0] } @ARGV;
syswrite $status, "$!";
exit 127;
`
