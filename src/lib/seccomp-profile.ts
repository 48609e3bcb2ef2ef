// Seccomp profiles for container engines (docker and podman).

/**
 * System calls of x86-64, ARM64 and their 32-bit modes, without those that change the machine, its clock, mounts or namespaces,
 * reach into the kernel or other containers, or create sockets that a filter cannot see (`socketcall`, `io_uring_*`).
 */
export const COMMON_CALLS: readonly string[] = `
  _llseek _newselect accept accept4 access adjtimex alarm arch_prctl arm_fadvise64_64 arm_sync_file_range bind
  breakpoint brk cacheflush cachestat capget capset chdir chmod chown chown32 chroot clock_getres clock_getres_time64
  clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 close close_range connect copy_file_range creat
  dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve
  execveat exit exit_group faccessat faccessat2 fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat
  fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr file_getattr file_setattr flistxattr flock fork
  fremovexattr fsetxattr fstat fstat64 fstatat fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex
  futex_requeue futex_time64 futex_wait futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu getcwd
  getdents getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpeername
  getpgid getpgrp getpid getppid getpriority getrandom getresgid getresgid32 getresuid getresuid32 getrlimit getrusage
  getsid getsockname getsockopt gettid gettimeofday getuid getuid32 getxattr getxattrat inotify_add_watch inotify_init
  inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup
  io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset landlock_restrict_self
  lchown lchown32 lgetxattr link linkat listen listmount listxattr listxattrat llistxattr llseek lremovexattr lseek
  lsetxattr lstat lstat64 madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mkdir mkdirat mknod
  mknodat mlock mlock2 mlockall mmap mmap2 modify_ldt mprotect mq_getsetattr mq_notify mq_open mq_timedreceive
  mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync
  munlock munlockall munmap name_to_handle_at nanosleep newfstatat nice oldfstat oldlstat oldolduname oldstat olduname
  open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll
  ppoll_time64 prctl pread64 preadv preadv2 prlimit64 process_mrelease process_vm_readv process_vm_writev pselect6
  pselect6_time64 ptrace pwrite64 pwritev pwritev2 read readahead readdir readlink readlinkat readv recv recvfrom
  recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr removexattrat rename renameat renameat2
  restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
  rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
  sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64
  sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop
  semtimedop semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list set_thread_area
  set_tid_address set_tls setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 setitimer
  setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit
  setsid setsockopt setuid setuid32 setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaction sigaltstack
  signal signalfd signalfd4 sigpending sigprocmask sigreturn sigsuspend splice stat stat64 statfs statfs64 statmount
  statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs sysinfo tee tgkill time timer_create
  timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create
  timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask
  uname unlink unlinkat utime utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write writev`
  .trim()
  .split(/\s+/)

interface ArgumentCondition {
  readonly index: number
  readonly value: number
  readonly valueTwo?: number
  readonly op: 'SCMP_CMP_EQ' | 'SCMP_CMP_MASKED_EQ'
}

export interface SeccompRule {
  readonly names: readonly string[]
  readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO'
  readonly args?: readonly ArgumentCondition[]
  readonly errnoRet?: number
}

/** In `clone`: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NEW_NAMESPACE = 0x7e02_0000

/** A process or thread in the same namespaces. */
export const CLONE_RULE: SeccompRule = {
  names: ['clone'],
  action: 'SCMP_ACT_ALLOW',
  args: [{ index: 0, value: NEW_NAMESPACE, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }],
}

/** PER_LINUX, PER_LINUX32, both with UNAME26, and the query. */
export const PERSONALITY_RULES: readonly SeccompRule[] = [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff].map((value) =>
  allowFirst('personality', value),
)

/**
 * Allows by equality, never "all but one": a filter compares 64 bits of the argument while the kernel uses 32, so a number that
 * differs above them would pass as another one.
 */
export function allowFirst(name: string, value: number): SeccompRule {
  return { names: [name], action: 'SCMP_ACT_ALLOW', args: [{ index: 0, value, op: 'SCMP_CMP_EQ' }] }
}
