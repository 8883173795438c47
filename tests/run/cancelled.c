/* Threads that are cancelled while they wait for sockets: cancelled ADDRESS PORT. By the connection what is sent comes back, before and
 * afterwards. For tests/run/run.sh. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int fd, listener, set, cleaned;

static void clean(void *arg)
{
    (void)arg;
    cleaned++;
}

static void *wait_in(void *call)
{
    struct pollfd asked = {.fd = fd, .events = POLLIN};
    struct epoll_event event;
    struct iovec part = {&event, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    char byte;

    pthread_cleanup_push(clean, NULL);
    switch (*(const char *)call) {
    case 'r': recv(fd, &byte, 1, 0); break;
    case 'R': read(fd, &byte, 1); break;
    case 'm': recvmsg(fd, &message, 0); break;
    case 'a': accept(listener, NULL, NULL); break;
    case 'p': poll(&asked, 1, -1); break;
    case 'n': for (asked.events = POLLOUT;;) poll(&asked, 1, -1);
    case 'e': epoll_wait(set, &event, 1, -1); break;
    }
    pthread_cleanup_pop(0);
    return NULL;
}

/* Whether a thread that waits in this call, or makes it all the time, is cancelled there, be it before it waits. */
static int is_cancelled(const char *call, int pause)
{
    struct timespec until, in = {.tv_nsec = pause};
    pthread_t thread;
    void *result = NULL;
    int before = cleaned;

    if (pthread_create(&thread, NULL, wait_in, (void *)call) != 0)
        return 0;
    nanosleep(&in, NULL);
    pthread_cancel(thread);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    return pthread_timedjoin_np(thread, &result, &until) == 0 && result == PTHREAD_CANCELED && cleaned == before + 1;
}

int main(int count, char **words)
{
    static const char *const calls[] = {"recv", "Read", "msg", "accept", "poll", "none: poll finds it ready", "epoll_wait"};
    struct sockaddr_in to = {.sin_family = AF_INET}, any = {.sin_family = AF_INET, .sin_port = htons(9450)};
    struct epoll_event event = {.events = EPOLLIN};
    const struct timeval limit = {.tv_sec = 20};
    char byte = 0;

    if (count != 3 || inet_pton(AF_INET, words[1], &to.sin_addr) != 1)
        return 2;
    to.sin_port = htons(atoi(words[2]));
    fd = socket(AF_INET, SOCK_STREAM, 0);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    set = epoll_create1(0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0 || bind(listener, (struct sockaddr *)&any, sizeof any) != 0 ||
        listen(listener, 5) != 0 || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) {
        perror("sockets");
        return 1;
    }
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++)
        for (int pause = 0; pause < 200000000; pause += 50000000)
            if (!is_cancelled(calls[n], pause)) {
                printf("not cancelled in %s\n", calls[n]);
                fflush(stdout);
                _exit(1);
            }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (send(fd, "x", 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1 || byte != 'x')
        return 1;
    puts("cancelled everywhere");
    return 0;
}
