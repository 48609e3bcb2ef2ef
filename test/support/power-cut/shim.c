// A disk that can lose its power. Loaded before the C library (LD_PRELOAD), it lets every write below POWER_CUT_DIR
// through and mirrors it to the same place below POWER_CUT_SHADOW only when a process syncs the file. Kill all processes at any
// moment, and the shadow is what a disk holds that lost everything it was not told to keep.
//
//   POWER_CUT_LAZY=-wal      a sync of a file with this ending says yes and keeps nothing, until the file without the
//                            ending is written: what SQLite's synchronous=NORMAL does.
//   POWER_CUT_FAIL=-wal:37   the 37th sync of files with this ending fails with EIO, and what it was to keep is lost. All
//                            later ones fail too, in every process.
//   POWER_CUT_SLOW=50        each sync takes 50 ms longer.
//
// Files are known by path, not by inode: a new log may get the inode of a journal that was just removed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define PATH_BYTES 4096

// What was done to a file since it was last synced, in the order of a journal: a write, or one of these in `from`.
struct record {
  off_t from;
  off_t to;
};
enum { CUT = -1 /* to this length */, FAILED = -2 /* a sync, and so do all later ones */ };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *dir, *shadow, *lazy;
static char fail_ending[64];
static long fail_at, slow_ms;
static atomic_long syncs;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_unlink)(const char *);
static int (*real_rename)(const char *, const char *);
static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);

static void setup(void) {
  real_write = dlsym(RTLD_NEXT, "write");
  real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
  real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
  real_fsync = dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  real_unlink = dlsym(RTLD_NEXT, "unlink");
  real_rename = dlsym(RTLD_NEXT, "rename");
  real_open = dlsym(RTLD_NEXT, "open64");
  real_openat = dlsym(RTLD_NEXT, "openat64");
  dir = getenv("POWER_CUT_DIR");
  shadow = getenv("POWER_CUT_SHADOW");
  lazy = getenv("POWER_CUT_LAZY");
  const char *fail = getenv("POWER_CUT_FAIL");
  if (fail) sscanf(fail, "%63[^:]:%ld", fail_ending, &fail_at);
  const char *slow = getenv("POWER_CUT_SLOW");
  if (slow) slow_ms = atol(slow);
}

// A shim that goes on without its shadow would prove nothing, so it takes the process with it.
static void give_up(const char *what, const char *path) {
  fprintf(stderr, "power-cut shim: %s %s: %s\n", what, path, strerror(errno));
  abort();
}

static int ends_with(const char *path, const char *ending) {
  size_t all = strlen(path), end = strlen(ending);
  return all >= end && strcmp(path + all - end, ending) == 0;
}

// The shared-memory file of a log is rebuilt after a crash; nobody syncs it.
static int is_watched(const char *path) {
  if (!dir || !shadow || !path) return 0;
  size_t length = strlen(dir);
  return strncmp(path, dir, length) == 0 && path[length] == '/' && !ends_with(path, "-shm");
}

// Where an open file lies; 0 when it is none of ours, or has no name any more.
static int path_of(int fd, char path[PATH_BYTES]) {
  pthread_once(&once, setup);
  if (!dir || fd < 3) return 0;
  int before = errno;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_BYTES - 1);
  errno = before;
  if (length <= 0) return 0;
  path[length] = 0;
  return is_watched(path) && !ends_with(path, " (deleted)");
}

static void shadow_of(const char *path, char there[PATH_BYTES]) {
  if (snprintf(there, PATH_BYTES, "%s%s", shadow, path + strlen(dir)) >= PATH_BYTES) give_up("too long", path);
}

static void make_parents(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
  }
}

static int open_shadow(const char *path) {
  char there[PATH_BYTES];
  shadow_of(path, there);
  int fd = real_open(there, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    make_parents(there);
    fd = real_open(there, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  }
  if (fd < 0) give_up("cannot open", there);
  return fd;
}

// The journal of a file, locked until it is closed, for all threads and processes.
static int open_journal(const char *path) {
  char there[PATH_BYTES];
  int length = snprintf(there, sizeof there, "%s.journal", shadow);
  mkdir(there, 0700);
  if (snprintf(there + length, sizeof there - length, "%s", path + strlen(dir)) >= (int)sizeof there - length)
    give_up("too long", path);
  for (char *slash = strchr(there + length + 1, '/'); slash; slash = strchr(slash, '/')) *slash = '%';
  int journal = real_open(there, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (journal < 0) give_up("cannot open", there);
  while (flock(journal, LOCK_EX))
    if (errno != EINTR) give_up("cannot lock", there);
  return journal;
}

static void note(int journal, off_t from, off_t to) {
  struct record record = {from, to};
  if (real_write(journal, &record, sizeof record) != sizeof record) give_up("cannot note", "a write");
}

static void forget(int journal) {
  if (real_ftruncate(journal, 0)) give_up("cannot empty", "a journal");
}

// The records, to be freed.
static struct record *read_journal(int journal, size_t *count) {
  struct stat stat;
  if (fstat(journal, &stat)) give_up("cannot read", "a journal");
  struct record *records = malloc(stat.st_size + 1);
  if (!records || pread(journal, records, stat.st_size, 0) != stat.st_size) give_up("cannot read", "a journal");
  *count = stat.st_size / sizeof *records;
  return records;
}

static int has_failed(int journal) {
  struct record first;
  return pread(journal, &first, sizeof first, 0) == sizeof first && first.from == FAILED;
}

static void copy_range(int from, int to, struct record range, const char *path) {
  char buffer[1 << 16];
  for (off_t at = range.from; at < range.to;) {
    size_t wanted = (size_t)(range.to - at) < sizeof buffer ? (size_t)(range.to - at) : sizeof buffer;
    ssize_t got = pread(from, buffer, wanted, at);
    if (got < 0) give_up("cannot read", path);
    if (got == 0) return; // cut since; the length is set at the end
    if (real_pwrite(to, buffer, (size_t)got, at) != got) give_up("cannot mirror", path);
    at += got;
  }
}

// The shadow of a file becomes what the file is now.
static void keep(const char *path, int journal) {
  int from = real_open(path, O_RDONLY | O_CLOEXEC);
  if (from < 0) return;
  struct stat stat;
  if (fstat(from, &stat) == 0 && S_ISREG(stat.st_mode)) {
    int to = open_shadow(path);
    size_t count;
    struct record *records = read_journal(journal, &count);
    off_t shortest = -1;
    for (size_t i = 0; i < count; i++)
      if (records[i].from == CUT && (shortest < 0 || records[i].to < shortest)) shortest = records[i].to;
    if (shortest >= 0 && real_ftruncate(to, shortest)) give_up("cannot cut", path);
    for (size_t i = 0; i < count; i++)
      if (records[i].from >= 0) copy_range(from, to, records[i], path);
    if (real_ftruncate(to, stat.st_size)) give_up("cannot cut", path);
    free(records);
    close(to);
  }
  close(from);
  forget(journal);
}

static void before_write(const char *path) {
  if (!lazy || ends_with(path, lazy)) return;
  char log[PATH_BYTES];
  if (snprintf(log, sizeof log, "%s%s", path, lazy) >= (int)sizeof log) return;
  int journal = open_journal(log);
  keep(log, journal);
  close(journal);
}

static ssize_t write_through(int fd, const void *bytes, size_t count, off_t offset, int is_placed) {
  char path[PATH_BYTES];
  int is_ours = path_of(fd, path);
  if (!is_ours) return is_placed ? real_pwrite(fd, bytes, count, offset) : real_write(fd, bytes, count);
  int journal = open_journal(path);
  before_write(path);
  ssize_t done = is_placed ? real_pwrite(fd, bytes, count, offset) : real_write(fd, bytes, count);
  int after = errno;
  if (done > 0) {
    // Behind the write, because a file that is opened for appending says only then where it went.
    off_t from = is_placed ? offset : lseek(fd, 0, SEEK_CUR) - done;
    note(journal, from, from + done);
  }
  close(journal);
  errno = after;
  return done;
}

ssize_t write(int fd, const void *bytes, size_t count) { return write_through(fd, bytes, count, 0, 0); }
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { return write_through(fd, bytes, count, at, 1); }
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) { return write_through(fd, bytes, count, at, 1); }

int ftruncate64(int fd, off64_t length) {
  char path[PATH_BYTES];
  if (!path_of(fd, path)) return real_ftruncate(fd, length);
  int journal = open_journal(path);
  before_write(path);
  int answer = real_ftruncate(fd, length);
  int after = errno;
  if (answer == 0) note(journal, CUT, length);
  close(journal);
  errno = after;
  return answer;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int sync_through(int fd, int (*sync)(int)) {
  char path[PATH_BYTES];
  if (!path_of(fd, path)) return sync(fd);
  if (slow_ms) usleep(slow_ms * 1000);
  int journal = open_journal(path);
  int answer, after;
  if (fail_at && ends_with(path, fail_ending) && (++syncs == fail_at || has_failed(journal))) {
    forget(journal);
    note(journal, FAILED, 0);
    answer = -1;
    after = EIO;
  } else {
    answer = sync(fd);
    after = errno;
    if (answer == 0 && !(lazy && ends_with(path, lazy))) keep(path, journal);
  }
  close(journal);
  errno = after;
  return answer;
}

int fsync(int fd) {
  pthread_once(&once, setup);
  return sync_through(fd, real_fsync);
}
int fdatasync(int fd) {
  pthread_once(&once, setup);
  return sync_through(fd, real_fdatasync);
}

int unlink(const char *path) {
  pthread_once(&once, setup);
  if (!is_watched(path)) return real_unlink(path);
  int journal = open_journal(path);
  int answer = real_unlink(path);
  int after = errno;
  if (answer == 0) {
    char there[PATH_BYTES];
    shadow_of(path, there);
    real_unlink(there);
    forget(journal);
  }
  close(journal);
  errno = after;
  return answer;
}

int rename(const char *old, const char *new) {
  pthread_once(&once, setup);
  if (!is_watched(old) || !is_watched(new) || strcmp(old, new) == 0) return real_rename(old, new);
  int moved = open_journal(old), replaced = open_journal(new);
  int answer = real_rename(old, new);
  int after = errno;
  if (answer == 0) {
    char from[PATH_BYTES], to[PATH_BYTES];
    shadow_of(old, from);
    shadow_of(new, to);
    // A name may reach the disk before the content that nobody synced.
    if (real_rename(from, to)) close(open_shadow(new));
    forget(replaced);
    size_t count;
    struct record *records = read_journal(moved, &count);
    for (size_t i = 0; i < count; i++) note(replaced, records[i].from, records[i].to);
    free(records);
    forget(moved);
  }
  close(moved);
  close(replaced);
  errno = after;
  return answer;
}

static int open_through(int at, const char *path, int flags, mode_t mode) {
  pthread_once(&once, setup);
  int fd = real_openat(at, path, flags, mode);
  char real[PATH_BYTES];
  if (fd < 0 || !(flags & O_TRUNC) || !path_of(fd, real)) return fd;
  int journal = open_journal(real);
  note(journal, CUT, 0);
  close(journal);
  return fd;
}

#define MODE(flags)                                          \
  mode_t mode = 0;                                           \
  if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
    va_list rest;                                            \
    va_start(rest, flags);                                   \
    mode = va_arg(rest, mode_t);                             \
    va_end(rest);                                            \
  }

int open(const char *path, int flags, ...) {
  MODE(flags)
  return open_through(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  MODE(flags)
  return open_through(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char *path, int flags, ...) {
  MODE(flags)
  return open_through(at, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...) {
  MODE(flags)
  return open_through(at, path, flags, mode);
}
