// The first program in a sandbox of bubblewrap: it sets limits, opens the proxy listener, passes it to svc and executes the
// agent's program.
import { callNumbers, INIT_PARTS, limitsText, PROXY_PORT } from '../init-perl.ts'

/** Descriptors of the init program. */
export const STATUS_FD = 3
export const HANDOVER_FD = 4
export const ENVIRONMENT_FD = 5

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
  const numbers = [calls.sendmsg, calls.prlimit].map(String)
  return [options.perl, '-e', PROGRAM, limitsText(options.limits), port, ...numbers, ...argv]
}

/**
 * 436 is close_range on every architecture. Process 1 belongs to bubblewrap; it gets the same limits, because the agent can
 * write to its memory (/proc/1/mem).
 */
const PROGRAM = `
my ($limits, $port, $sendmsg, $prlimit) = splice @ARGV, 0, 4;
open our $status, '>&=', ${STATUS_FD} or exit 126;
${INIT_PARTS}
my $environment = '';
open my $variables, '<&=', ${ENVIRONMENT_FD} or fail 'environment';
1 while sysread $variables, $environment, 65536, length $environment;
syscall 436, ${HANDOVER_FD + 1}, 0xffffffff, 0;
set_limits $prlimit, $limits, 1, 0;
hand_over_listener $sendmsg, $port, ${HANDOVER_FD} if $port;
syscall 436, ${HANDOVER_FD}, ${HANDOVER_FD}, 0;
run_program $environment, @ARGV;
`
