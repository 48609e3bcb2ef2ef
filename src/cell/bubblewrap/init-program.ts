// Process 1 of a sandbox of bubblewrap: it opens the proxy listener, passes it to svc, sets limits, starts the agent's program
// and reaps processes. When the program exits, or svc ends, it exits, and the kernel kills every other process in the sandbox.
// Agents cannot read or write its memory, nor signal or trace it.
import { callNumbers, callsText, INIT_PARTS, limitsText, PROXY_PORT } from '../init-perl.ts'

/** Descriptors of the init program. */
export const STATUS_FD = 3
const HANDOVER_FD = 4
const ENVIRONMENT_FD = 5
const CONTROL_FD = 6

export interface InitOptions {
  readonly perl: string
  /** Hard and soft limits by resource number. */
  readonly limits: ReadonlyMap<number, number>
  /** Whether to open a listener and pass it to svc. */
  readonly opensListener: boolean
}

/** The command line that runs `argv` through the init program; undefined on an unsupported architecture. */
export function initCommand(options: InitOptions, argv: readonly string[]): readonly string[] | undefined {
  const calls = callNumbers()
  if (!calls) return undefined
  const port = options.opensListener ? String(PROXY_PORT) : '0'
  return [options.perl, '-e', PROGRAM, callsText(calls), limitsText(options.limits), port, ...argv]
}

/**
 * 436 is close_range on every architecture. The listener is passed on before the limits are set. The new process reads the
 * environment, so that this one never has its secrets. Any byte on the control descriptor asks to terminate all processes;
 * its end means that svc has ended.
 */
const PROGRAM = `
my ($numbers, $limits, $port, @command) = @ARGV;
our ($status, %call);
open $status, '>&=', ${STATUS_FD} or exit 126;
${INIT_PARTS}
$0 = 'svc-init';
syscall 436, ${CONTROL_FD + 1}, 0xffffffff, 0;
open my $control, '<&=', ${CONTROL_FD} or fail 'control';
hide_memory;
my ($signals, $events) = watch_children;
hand_over_listener $port, ${HANDOVER_FD} if $port;
syscall 436, ${HANDOVER_FD}, ${HANDOVER_FD}, 0;
set_limits $limits;
my $main = fork // fail 'fork';
if (!$main) {
  unwatch_children;
  my $environment = '';
  open my $variables, '<&=', ${ENVIRONMENT_FD} or fail 'environment';
  1 while sysread $variables, $environment, 65536, length $environment;
  run_program $environment, @command;
}
syscall 436, 0, ${ENVIRONMENT_FD}, 0;
for (;;) {
  my $ready = '';
  vec($ready, ${CONTROL_FD}, 1) = 1;
  vec($ready, $signals, 1) = 1;
  (select $ready, undef, undef, undef) < 0 and next;
  if (vec $ready, ${CONTROL_FD}, 1) {
    sysread $control, my $text, 64 or exit 1;
    kill TERM => -1;
  }
  sysread $events, my $read, 1024 if vec $ready, $signals, 1;
  while ((my $pid = waitpid -1, 1) > 0) {
    exit($? & 127 ? 128 + ($? & 127) : $? >> 8) if $pid == $main;
  }
}
`
