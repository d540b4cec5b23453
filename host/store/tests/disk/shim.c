/* Stands between a program and its disk (LD_PRELOAD): writes down what it does to the files below a folder, and lets one
 * of the calls fail.
 *
 *   DISK_ROOT   the folder
 *   DISK_TRACE  where to write it down; see trace.rs for the form
 *   DISK_FAULT  CALL:FIRST:COUNT:ERRNO, CALL one of open, write, sync, rename, unlink: the FIRST-th such call and the
 *               following ones, COUNT in all, fail so. Of a write half is done before, as a disk does that fills up
 *   DISK_COUNTS where to write at the end how many of each there were, a line each
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { OPEN, WRITE, SYNC, RENAME, UNLINK, CALLS };
static const char *const CALL_NAMES[CALLS] = {"open", "write", "sync", "rename", "unlink"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char root[PATH_MAX];
static size_t root_length;
static int trace = -1;
static uint64_t entries;
static long counts[CALLS];
static int fault_call = -1, fault_errno;
static long fault_first, fault_count;
/* Half of the last write to this file was done: the rest of it fails. */
static char halved[PATH_MAX];

static void start(void) {
    const char *folder = getenv("DISK_ROOT"), *path = getenv("DISK_TRACE"), *fault = getenv("DISK_FAULT");
    if (!folder || !realpath(folder, root)) return;
    root_length = strlen(root);
    if (path) trace = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    char name[16];
    if (fault && sscanf(fault, "%15[a-z]:%ld:%ld:%d", name, &fault_first, &fault_count, &fault_errno) == 4)
        for (int call = 0; call < CALLS; call++)
            if (!strcmp(name, CALL_NAMES[call])) fault_call = call;
}

__attribute__((destructor)) static void stop(void) {
    const char *path = getenv("DISK_COUNTS");
    int fd = path ? syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (fd < 0) return;
    char text[256];
    int length = 0;
    for (int call = 0; call < CALLS; call++)
        length += snprintf(text + length, sizeof text - length, "%s %ld\n", CALL_NAMES[call], counts[call]);
    if (syscall(SYS_write, fd, text, length) != length) abort();
}

static int is_below(const char *path) {
    pthread_once(&once, start);
    return root_length && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

/* Name of an open file; 0 when it isn't below the folder. */
static int name_of(int fd, char *name) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, name, PATH_MAX - 1);
    if (length <= 0) return 0;
    name[length] = 0;
    return is_below(name);
}

/* Whether this call has to fail. The lock is held. */
static int fails(enum call call) {
    long number = ++counts[call];
    if ((int)call != fault_call || number < fault_first || number >= fault_first + fault_count) return 0;
    errno = fault_errno;
    return 1;
}

static void put(const void *data, size_t length) {
    const char *rest = data;
    while (length) {
        ssize_t done = syscall(SYS_write, trace, rest, length);
        if (done <= 0) abort();
        rest += done;
        length -= done;
    }
}

/* Writes an entry; the lock is held. Answers its number. */
static uint64_t note(char kind, const char *path, uint64_t place, const void *data, size_t length) {
    if (trace < 0) return 0;
    uint32_t path_length = strlen(path), data_length = length;
    put(&kind, 1);
    put(&path_length, 4);
    put(path, path_length);
    put(&place, 8);
    put(&data_length, 4);
    put(data, length);
    return entries++;
}

static int opened(const char *path, int flags, mode_t mode) {
    if (path[0] != '/' || !is_below(path) || (flags & O_PATH)) return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    pthread_mutex_lock(&lock);
    int fd = -1;
    if (!fails(OPEN)) {
        struct stat about;
        int is_new = (flags & O_CREAT) && stat(path, &about) != 0;
        fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
        int error = errno;
        if (fd >= 0 && is_new) note('C', path, 0, "", 0);
        if (fd >= 0 && !is_new && (flags & O_TRUNC)) note('T', path, 0, "", 0);
        errno = error;
    }
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

#define OPENS(name)                                          \
    int name(const char *path, int flags, ...) {             \
        va_list rest;                                        \
        va_start(rest, flags);                               \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                        \
        return opened(path, flags, mode);                    \
    }
OPENS(open)
OPENS(open64)

static ssize_t written(int fd, const void *data, size_t length, off_t at, int has_place) {
    char name[PATH_MAX];
    if (!name_of(fd, name)) return has_place ? syscall(SYS_pwrite64, fd, data, length, at) : syscall(SYS_write, fd, data, length);
    pthread_mutex_lock(&lock);
    ssize_t done = -1;
    const char *base = strrchr(name, '/');
    int is_mark = base && !strcmp(base, "/acknowledged");
    int is_rest = !is_mark && !strcmp(name, halved), has_failed = 0;
    if (is_rest) {
        halved[0] = 0;
        errno = fault_errno;
        has_failed = 1;
    } else if (!is_mark && fails(WRITE)) {
        if (length > 1) {
            length /= 2;
            strcpy(halved, name);
        } else {
            has_failed = 1;
        }
    }
    if (!has_failed) {
        done = has_place ? syscall(SYS_pwrite64, fd, data, length, at) : syscall(SYS_write, fd, data, length);
        int error = errno;
        if (done > 0) {
            off_t place = has_place ? at : lseek(fd, 0, SEEK_CUR) - done;
            note(is_mark ? 'A' : 'W', name, place, data, done);
        }
        errno = error;
    }
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

ssize_t write(int fd, const void *data, size_t length) { return written(fd, data, length, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return written(fd, data, length, at, 1); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) { return written(fd, data, length, at, 1); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char name[PATH_MAX];
    if (!name_of(fd, name)) return syscall(SYS_writev, fd, parts, count);
    /* A short write is one of the answers that there may be. */
    for (int part = 0; part < count; part++)
        if (parts[part].iov_len) return written(fd, parts[part].iov_base, parts[part].iov_len, 0, 0);
    return 0;
}

/* Then they copy by hand. */
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t length, unsigned flags) {
    (void)in, (void)from, (void)out, (void)to, (void)length, (void)flags;
    errno = EINVAL;
    return -1;
}
ssize_t sendfile(int out, int in, off_t *from, size_t length) {
    (void)in, (void)from, (void)out, (void)length;
    errno = EINVAL;
    return -1;
}
ssize_t sendfile64(int out, int in, off64_t *from, size_t length) {
    (void)in, (void)from, (void)out, (void)length;
    errno = EINVAL;
    return -1;
}

static int synced(int fd, long number) {
    char name[PATH_MAX];
    if (!name_of(fd, name)) return syscall(number, fd);
    /* Others may write meanwhile: only what is there at the beginning is covered. */
    pthread_mutex_lock(&lock);
    uint64_t begun = note('S', name, 0, "", 0);
    int failed = fails(SYNC), error = errno;
    pthread_mutex_unlock(&lock);
    int done = failed ? -1 : syscall(number, fd);
    if (!failed) error = errno;
    pthread_mutex_lock(&lock);
    note(done == 0 ? 'F' : 'f', name, begun, "", 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

#define CHANGES(call, kind, path, data, length, real)        \
    if (!is_below(path)) return real;                        \
    pthread_mutex_lock(&lock);                               \
    int done = -1;                                           \
    if (!fails(call)) {                                      \
        done = real;                                         \
        int error = errno;                                   \
        if (done == 0) note(kind, path, 0, data, length);    \
        errno = error;                                       \
    }                                                        \
    int error = errno;                                       \
    pthread_mutex_unlock(&lock);                             \
    errno = error;                                           \
    return done;

int rename(const char *from, const char *to) {
    CHANGES(RENAME, 'R', from, to, strlen(to), syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0))
}
int unlink(const char *path) { CHANGES(UNLINK, 'U', path, "", 0, syscall(SYS_unlinkat, AT_FDCWD, path, 0)) }

int mkdir(const char *path, mode_t mode) {
    if (!is_below(path)) return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_mkdirat, AT_FDCWD, path, mode), error = errno;
    if (done == 0) note('M', path, 0, "", 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

static int cut(int fd, off_t length) {
    char name[PATH_MAX];
    if (!name_of(fd, name)) return syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_ftruncate, fd, length), error = errno;
    if (done == 0) note('T', name, length, "", 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
int ftruncate(int fd, off_t length) { return cut(fd, length); }
int ftruncate64(int fd, off64_t length) { return cut(fd, length); }
