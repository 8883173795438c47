/* Threads that each open a connection, fork, and talk by it in both processes: forks ADDRESS PORT THREADS ROUNDS. Without threads children
   are made by clone(2), also in namespaces of their own, and a connection is written to by dprintf(3). For tests/run/run.sh. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sched.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in to = {.sin_family = AF_INET};
static int rounds;
static atomic_int failed;

/* Whether what is written comes back. */
static int talks(int fd, const char *who, long thread, int round)
{
    char out[24] = "", in[24];

    snprintf(out, sizeof out, "%s %ld %d", who, thread, round);
    if (send(fd, out, sizeof out, MSG_NOSIGNAL) == sizeof out && recv(fd, in, sizeof in, MSG_WAITALL) == sizeof in &&
        memcmp(in, out, sizeof in) == 0)
        return 1;
    dprintf(2, "%s: no answer\n", out);
    return 0;
}

static void *run(void *thread)
{
    const struct timeval limit = {.tv_sec = 20};

    for (int round = 0; round < rounds; round++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0), status = 1;
        pid_t child;

        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
            perror("connect"), failed++;
        failed += !talks(fd, "parent", (long)thread, round);
        child = fork();
        if (child == 0)
            _exit(!talks(fd, "child", (long)thread, round));
        failed += waitpid(child, &status, 0) != child || status != 0;
        failed += !talks(fd, "parent again", (long)thread, round);
        close(fd);
    }
    return NULL;
}

/* A child that has the connection alone, in the place of another descriptor. */
struct made {
    int fd, waits[2], way;
};
static int child(void *argument)
{
    struct made *made = argument;
    char byte;

    close(made->waits[1]);
    syscall(SYS_close_range, 700, 800, 0);
    return read(made->waits[0], &byte, 1) != 0 || dup2(made->fd, made->waits[0]) < 0 || close(made->fd) != 0 ||
           !talks(made->waits[0], "made", made->way, 0) || !talks(made->waits[0], "made", made->way, 1);
}

/* One that its parent waits for while another thread of the parent's goes on: it hears of that. */
static int awaited(void *argument)
{
    struct made *made = argument;
    struct pollfd heard = {.fd = made->waits[0], .events = POLLIN};

    return poll(&heard, 1, 10000) != 1;
}

static void *goes_on(void *argument)
{
    struct made *made = argument;
    struct epoll_event event = {.events = EPOLLIN};
    int set;

    usleep(100000);
    set = epoll_create1(0);
    failed += epoll_ctl(set, EPOLL_CTL_ADD, made->fd, &event) != 0 || close(set) != 0 || write(made->waits[1], "", 1) != 1;
    return NULL;
}

/* Another thread is in the middle of the allocator, all the while. */
static void *allocates(void *once)
{
    do {
        void *volatile some = malloc(100000);

        free(some);
    } while (once == NULL);
    return NULL;
}

int __clone(int (*main)(void *), void *stack, int flags, void *argument, ...);

static pid_t make(struct made *made)
{
    static char stack[1 << 18] __attribute__((aligned(16)));
    struct clone_args arguments = {.flags = CLONE_NEWPID, .exit_signal = SIGCHLD};
    pid_t pid = -1;

    switch (made->way) {
    case 0: return clone(child, stack + sizeof stack, SIGCHLD, made);
    case 1: return clone(child, stack + sizeof stack, CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET | SIGCHLD, made);
    case 2: pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL); break;
    case 3: pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); break;
    case 4: pid = syscall(SYS_clone3, &arguments, sizeof arguments); break;
    case 5: return clone(awaited, stack + sizeof stack, CLONE_VFORK | SIGCHLD, made);
    case 6: return __clone(child, stack + sizeof stack, SIGCHLD, made);
    case 7: pid = _Fork(); break;
    }
    if (pid == 0)
        _exit(child(made));
    return pid;
}

/* What is formatted into a connection arrives, also where more is said than registers hold. */
static void formats(void)
{
    const char *wanted = "1 2 3 4 5 6 7 8 0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 end";
    int fd = socket(AF_INET, SOCK_STREAM, 0), len = (int)strlen(wanted);
    const struct timeval limit = {.tv_sec = 20};
    char in[100] = "";

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    failed += connect(fd, (struct sockaddr *)&to, sizeof to) != 0 || !talks(fd, "before", 0, 0);
    failed += dprintf(fd, "%d %d %d %d %d %d %d %d %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %s", 1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5, 4.5,
                      5.5, 6.5, 7.5, 8.5, "end") != len;
    failed += recv(fd, in, len, MSG_WAITALL) != len || strcmp(in, wanted) != 0 || !talks(fd, "after", 0, 0);
    if (failed)
        printf("formatted: %s\n", in);
    close(fd);
}

static void makes(int way)
{
    struct made made = {.fd = socket(AF_INET, SOCK_STREAM, 0), .way = way};
    int status = 1;
    pthread_t thread;
    pid_t pid;

    failed += connect(made.fd, (struct sockaddr *)&to, sizeof to) != 0 || pipe(made.waits) != 0 || !talks(made.fd, "maker", way, 0);
    failed += way == 5 && pthread_create(&thread, NULL, goes_on, &made) != 0;
    pid = make(&made);
    failed += way == 5 && pthread_join(thread, NULL) != 0;
    close(made.fd);
    close(made.waits[0]);
    close(made.waits[1]);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        printf("way %d: %d\n", way, status), failed++;
}

/* A handler makes children, also where it comes in the middle of the allocator. */
static volatile sig_atomic_t handled;
static void handles(int signal)
{
    int status = 1;
    pid_t pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    (void)signal;
    if (pid == 0)
        _exit(syscall(SYS_close_range, 700, 800, 0) != 0);
    failed += waitpid(pid, &status, 0) != pid || status != 0;
    handled++;
}

static void in_handlers(void)
{
    const struct itimerval often = {{.tv_usec = 2000}, {.tv_usec = 2000}}, never = {0};

    signal(SIGALRM, handles);
    setitimer(ITIMER_REAL, &often, NULL);
    while (handled < 100)
        allocates("once");
    setitimer(ITIMER_REAL, &never, NULL);
}

/* What the kernel and the C library would not make is not made. */
static void refuses(void)
{
    failed += syscall(SYS_clone3, 8, sizeof(struct clone_args)) != -1 || errno != EFAULT;
    failed += syscall(SYS_clone3, 8, 8) != -1 || errno != EINVAL;
    failed += clone(NULL, NULL, SIGCHLD, NULL) != -1 || errno != EINVAL;
    if (failed)
        printf("refused otherwise: %d\n", errno);
}

int main(int count, char **words)
{
    pthread_t threads[64], allocator;
    long many = count == 5 ? atoi(words[3]) : -1;

    if (many < 0 || many > 64 || inet_pton(AF_INET, words[1], &to.sin_addr) != 1)
        return 2;
    to.sin_port = htons(atoi(words[2]));
    rounds = atoi(words[4]);
    if (many == 0) {
        formats();
        refuses();
        failed += mallopt(M_ARENA_MAX, 1) != 1 || pthread_create(&allocator, NULL, allocates, NULL) != 0;
        in_handlers();
    }
    for (int way = 0; many == 0 && way < rounds; way++)
        makes(way);
    for (long n = 0; n < many; n++)
        if (pthread_create(&threads[n], NULL, run, (void *)n) != 0)
            return 2;
    for (long n = 0; n < many; n++)
        pthread_join(threads[n], NULL);
    /* Its connections are over by their descriptors being closed, not by its end. */
    puts(failed ? "failed" : "talked");
    fflush(stdout);
    getchar();
    return 0;
}
