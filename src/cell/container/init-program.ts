// The first process of an agent's container. It reports what is mounted, then runs one program after another for svc. After
// each it kills every other process and removes what the program left in memory, so that nothing of a turn is left for the
// next one. Agents cannot read its memory, nor signal or trace it.
import { callNumbers, callsText, INIT_PARTS } from '../init-perl.ts'

/** In the directory of sockets; removed before the first program starts. */
export const CONTROL_SOCKET = 'control'
/** Directory of sockets inside. */
export const INNER_SOCKETS = '/run/ipc'
/** Where `texts` may be, inside. */
export const INNER_TEXTS = '/run/svc'
/** In memory, and therefore emptied after each program. */
export const MEMORY_DIRECTORIES = ['/tmp', '/var/tmp', INNER_TEXTS] as const

/** Letters that svc sends: run a program (with descriptors), end all processes, kill them. */
export const RUN = 'R'
export const TERMINATE = 'T'
export const KILL = 'K'

/** The command of a container; undefined on an unsupported architecture. `targets` are the mounts to report. */
export function containerCommand(targets: readonly string[]): readonly string[] | undefined {
  const calls = callNumbers()
  if (!calls) return undefined
  return ['perl', '-e', PROGRAM, callsText(calls), ...targets]
}

/**
 * Lines to svc: `m` with device and inode of each mount, `p` with the paths of svc and Node and the directory of svc's code; `u` with processor time in
 * milliseconds and the number of processes killed for memory, once a second; `x` with the wait status and that number when
 * no process is left; then `c` when everything is clean, or `d` if not.
 *
 * 0x40000000 is MSG_CMSG_CLOEXEC, 436 is close_range. The descriptors of a program are its order, its status, its standard
 * input, output and error, and the one over which it passes its listener. The new process reads the order, so that this one
 * never has its secrets. `vec` makes buffers that no constant shares. Engines differ in what they keep in memory, so all such
 * file systems are found and emptied, except below mounts of svc.
 */
const PROGRAM = `
my ($numbers, @targets) = @ARGV;
our ($status, %call);
${INIT_PARTS}
my $path = $ENV{PATH};
%ENV = ();
$0 = 'svc-init';
my (%mounts, @memory);
open my $table, '<', '/proc/self/mountinfo' or exit 1;
while (<$table>) {
  my ($left, $right) = split / - /;
  my $point = (split ' ', $left)[4];
  $mounts{$point} = 1;
  next if $right !~ /^(tmpfs|ramfs|mqueue) / or !-w $point;
  push @memory, $point if !grep { index("$point/", "$_/") == 0 } @targets, '/home', '/etc', '${INNER_SOCKETS}';
}
close $table;
hide_memory;
socket my $svc, 1, 1, 0 or exit 1;
connect $svc, pack 'Sa*x', 1, '${INNER_SOCKETS}/${CONTROL_SOCKET}' or exit 1;
my $tell = sub { syswrite $svc, join("\\t", @_) . "\\n" };
my $program = sub {
  my ($at) = grep { -f && -x _ } map { "$_/$_[0]" } split /:/, $path;
  for (1 .. 8) {
    my $link = readlink($at // '') // last;
    $at = $link =~ m{^/} ? $link : ($at =~ s{[^/]*$}{}r) . $link;
  }
  $at // '';
};
$tell->('m', map { my @found = stat; @found ? "$found[0]:$found[1]" : '-' } @targets);
my $svc_path = $program->('svc');
$tell->('p', $svc_path, $program->('node'), -d ($svc_path =~ s{[^/]*/[^/]*$}{src}r) ? 'src' : 'dist');
my ($signals, $events) = watch_children;

my $value = sub {
  my ($pattern, @paths) = @_;
  for (@paths) {
    open my $file, '<', $_ or next;
    while (my $line = <$file>) { return $1 if $line =~ $pattern }
  }
  0;
};
my $processor_ms = sub {
  my $micros = $value->(qr/^usage_usec (\\d+)/, '/sys/fs/cgroup/cpu.stat');
  int(($micros ? $micros : $value->(qr/^(\\d+)/, '/sys/fs/cgroup/cpuacct/cpuacct.usage', '/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage') / 1000) / 1000);
};
my $memory_kills = sub {
  $value->(qr/^oom_kill (\\d+)/, '/sys/fs/cgroup/memory.events', '/sys/fs/cgroup/memory/memory.oom_control');
};

sub receive {
  my ($text, $control) = ('', '');
  vec($text, 63, 8) = 0;
  vec($control, 63, 8) = 0;
  my $vector = pack 'PQ', $text, 64;
  my $message = pack 'QLx4PQPQlx4', 0, 0, $vector, 1, $control, 64, 0;
  my $count = syscall $call{recvmsg}, $_[0], $message, 0x40000000;
  return if $count <= 0;
  my ($length) = unpack 'Q', $control;
  my @descriptors = (unpack 'x40Q', $message) >= 16 ? unpack 'x16l' . (($length - 16) / 4), $control : ();
  (substr($text, 0, $count), @descriptors);
}

sub run {
  my ($order, $report, $in, $out, $err, $handover) = @_;
  open $status, '>&=', $report or exit 126;
  open my $fields, '<&=', $order or fail 'order';
  syscall $call{prctl}, 4, 1, 0, 0, 0;
  if (open my $score, '>', '/proc/self/oom_score_adj') { syswrite $score, '500' }
  unwatch_children;
  syscall $call{setsid};
  my $text = '';
  1 while sysread $fields, $text, 65536, length $text;
  my ($limits, $port, $home, $arguments, $variables, $texts, @rest) = split /\\0/, $text, -1;
  pop @rest;
  my @command = splice @rest, 0, $arguments;
  my $environment = join "\\0", splice @rest, 0, $variables;
  while (@rest) {
    my ($path, $content) = splice @rest, 0, 2;
    my $made = '';
    $made .= "/$_", mkdir $made for grep { length } split m{/}, $path =~ s{/[^/]*$}{}r;
    open my $file, '>', $path or fail $path;
    print $file $content;
    close $file or fail $path;
    chmod 0444, $path;
  }
  my $number = 0;
  for ($in, $out, $err) { syscall $call{dup3}, $_, $number++, 0 }
  hand_over_listener $port, $handover if $port;
  set_limits $limits;
  chdir $home or fail $home;
  $ENV{PWD} = $home;
  run_program $environment, @command;
}

sub clear {
  my ($directory) = @_;
  opendir my $entries, $directory or return 1;
  my $left = 0;
  for (readdir $entries) {
    next if $_ eq '.' or $_ eq '..';
    my $path = "$directory/$_";
    next if $mounts{$path};
    if (lstat $path and -d _) {
      chmod 0700, $path;
      clear($path) && grep { index($_, "$path/") == 0 } keys %mounts and next;
      rmdir $path or $left++;
    } else {
      unlink $path or $left++;
    }
  }
  !$left;
}

sub clear_queues {
  my $left = 0;
  for my $kind ('shm', 'msg', 'sem') {
    open my $file, '<', "/proc/sysvipc/$kind" or next;
    <$file>;
    while (my $line = <$file>) {
      my ($id) = $line =~ /^\\s*-?\\d+\\s+(\\d+)/ or next;
      ($kind eq 'shm' ? shmctl $id, 0, 0 : $kind eq 'msg' ? msgctl $id, 0, 0 : semctl $id, 0, 0, 0) or $left++;
    }
  }
  !$left;
}

my ($main, $result, $processor_start, $kills_start, $told);
for (;;) {
  my $ready = '';
  vec($ready, fileno $svc, 1) = 1;
  vec($ready, $signals, 1) = 1;
  (select $ready, undef, undef, $main ? 1 : undef) < 0 and next;
  if (vec $ready, fileno $svc, 1) {
    my ($text, @descriptors) = receive fileno $svc;
    exit if !defined $text;
    kill TERM => -1 if $main and $text =~ /${TERMINATE}/;
    kill KILL => -1 if $main and $text =~ /${KILL}/;
    if ($text =~ /${RUN}/) {
      ($processor_start, $kills_start, $told, $result) = ($processor_ms->(), $memory_kills->(), time, undef);
      $main = fork // -1;
      run @descriptors if $main == 0;
      if ($main < 0) {
        my $fault = $!;
        open $status, '>&=', splice @descriptors, 1, 1;
        syswrite $status, "fork: $fault";
        close $status;
        $result = 126 << 8;
      }
      for (@descriptors) { syscall 436, $_, $_, 0 }
    }
  }
  if (vec $ready, $signals, 1) {
    sysread $events, my $read, 1024;
  }
  while ((my $pid = waitpid -1, 1) > 0) { $result = $? if $main and $pid == $main }
  next if !$main;
  if (!defined $result) {
    $tell->('u', $processor_ms->() - $processor_start, $memory_kills->() - $kills_start) if $told != time;
    $told = time;
    next;
  }
  kill KILL => -1;
  1 while waitpid(-1, 0) > 0;
  $tell->('x', $result, $memory_kills->() - $kills_start);
  $main = undef;
  my $is_clean = clear_queues();
  for (@memory) { $is_clean = 0 if !clear $_ }
  $tell->($is_clean ? 'c' : 'd');
}
`
