/* A wall clock that can be shifted for chosen processes: a library for LD_PRELOAD.
 *
 * The processes read a wall clock that is off by the seconds in a file that they all map. The environment variable CLOCK_FILE
 * names the file, which is created if it does not exist and holds one int64. Only the wall clock is shifted, as when somebody
 * sets a machine's clock; clocks that count from the start of the machine run on evenly. Deadlines that a process computed from
 * the shifted clock are shifted back where it waits for them: otherwise a jump of an hour would block the waiter for an hour,
 * which a jump of the kernel's clock does not do either.
 *
 *   cc -O2 -shared -fPIC -o clock.so clock.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none = 0;
static volatile const int64_t *offset = &none;

/* No machine has been up for thirty years, so a later time than this is one of the wall clock. */
#define WALL_CLOCK 1000000000L

__attribute__((constructor)) static void map(void) {
	const char *path = getenv("CLOCK_FILE");
	int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
	if (file < 0)
		return;
	if (lseek(file, 0, SEEK_END) >= (off_t)sizeof none || ftruncate(file, sizeof none) == 0) {
		void *mapped = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
		if (mapped != MAP_FAILED)
			offset = mapped;
	}
	close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
	static int (*real)(clockid_t, struct timespec *);
	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int result = real(clock, now);
	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += *offset;
	return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
	struct timespec precise;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *to) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (to)
		*to = now.tv_sec;
	return now.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
	return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

static const struct timespec *unshift(const struct timespec *deadline, struct timespec *scratch) {
	if (!deadline || deadline->tv_sec < WALL_CLOCK)
		return deadline;
	*scratch = *deadline;
	scratch->tv_sec -= *offset;
	return scratch;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
			   const struct timespec *restrict deadline) {
	static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	struct timespec scratch;
	if (!real) /* dlvsym: glibc also has an older version with another struct */
		real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))
			dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
	return real(cond, mutex, unshift(deadline, &scratch));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline) {
	static int (*real)(pthread_mutex_t *, const struct timespec *);
	struct timespec scratch;
	if (!real)
		real = (int (*)(pthread_mutex_t *, const struct timespec *))dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
	return real(mutex, unshift(deadline, &scratch));
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict deadline) {
	static int (*real)(sem_t *, const struct timespec *);
	struct timespec scratch;
	if (!real)
		real = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
	return real(sem, unshift(deadline, &scratch));
}
