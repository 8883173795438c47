/* A connection whose bytes come back, used by signals' handlers too, whenever they come: signals ADDRESS PORT ROUNDS. Each round sends
 * a block of 'm', looks at what comes back many times, and reads it; handlers send an 'h'. It forks meanwhile. For tests/run/run.sh. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 8000, LOOKS = 100, FORKS = 200 };

static int fd, epoll;
static volatile int sent, wrong;

/* In handlers, one of which may come within another. */
static void add(volatile int *count)
{
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static void use(void)
{
    struct epoll_event event;
    char byte;

    if (send(fd, "h", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        add(&sent);
    else if (errno != EAGAIN) /* What a slow peer has not taken fills the buffer. */
        add(&wrong);
    recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    epoll_wait(epoll, &event, 1, 0);
}

static void told_more(int signal, siginfo_t *info, void *context)
{
    int before = errno;

    /* A timer's, with the place that it has interrupted. */
    if (signal != SIGALRM || info->si_signo != SIGALRM || info->si_code != SI_KERNEL || context == NULL)
        add(&wrong);
    use();
    errno = before;
}

static void told_less(int signal)
{
    int before = errno;

    if (signal != SIGVTALRM)
        add(&wrong);
    use();
    errno = before;
}

/* Reads until as many of the handlers' as were sent are here, and of the blocks' what is left. */
static int read_back(int blocks, int *came)
{
    char in[BLOCK];

    while (blocks > 0 || (blocks < 0 && *came < sent)) {
        ssize_t got = recv(fd, in, sizeof in, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        for (ssize_t n = 0; n < got; n++) {
            *came += in[n] == 'h';
            blocks -= in[n] == 'm';
        }
    }
    return 1;
}

static void repeat(int timer, int micros)
{
    struct itimerval each = {{0, micros}, {0, micros}};

    setitimer(timer, &each, NULL);
}

int main(int count, char **words)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    const struct timeval limit = {.tv_sec = 20};
    struct sigaction action = {.sa_sigaction = told_more, .sa_flags = SA_SIGINFO | SA_RESTART}, set;
    char out[BLOCK], in[BLOCK];
    int came = 0;

    if (count != 4 || inet_pton(AF_INET, words[1], &to.sin_addr) != 1)
        return 2;
    to.sin_port = htons(atoi(words[2]));
    fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        perror("connect");
        return 1;
    }
    epoll = epoll_create1(0);
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN}) != 0)
        return 1;
    memset(out, 'm', sizeof out);
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGALRM, NULL, &set);
    if (set.sa_sigaction != told_more || (set.sa_flags & (SA_SIGINFO | SA_RESTART | SA_NODEFER)) != (SA_SIGINFO | SA_RESTART))
        add(&wrong);
    signal(SIGVTALRM, told_less);
    sigaction(SIGVTALRM, NULL, &set);
    if (set.sa_handler != told_less || signal(SIGVTALRM, told_less) != told_less)
        add(&wrong);
    repeat(ITIMER_REAL, 97);
    repeat(ITIMER_VIRTUAL, 1000);
    for (int rounds = atoi(words[3]); rounds > 0; rounds--) {
        for (size_t done = 0; done < sizeof out;) {
            ssize_t now = send(fd, out + done, sizeof out - done, MSG_NOSIGNAL);

            if (now < 0 && errno != EINTR)
                return 1;
            done += now > 0 ? now : 0;
        }
        for (int n = 0; n < LOOKS; n++)
            recv(fd, in, sizeof in, MSG_PEEK | MSG_DONTWAIT);
        if (!read_back(sizeof out, &came))
            return 1;
    }
    for (int forks = 0; forks < FORKS; forks++) {
        pid_t child = fork();

        if (child == 0)
            _exit(0);
        while (child < 0 || (waitpid(child, NULL, 0) < 0 && errno == EINTR))
            if (child < 0)
                return 1;
    }
    repeat(ITIMER_REAL, 0);
    repeat(ITIMER_VIRTUAL, 0);
    if (!read_back(-1, &came))
        return 1;
    /* No signal is left blocked. */
    sigprocmask(SIG_SETMASK, NULL, &set.sa_mask);
    wrong += !sigisemptyset(&set.sa_mask);
    printf("%s, %d wrong\n", sent > 0 && came == sent ? "all came" : "some are missing", wrong);
    return 0;
}
