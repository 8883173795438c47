/* Threads that each open a connection, fork, and talk by it in both processes: forks ADDRESS PORT THREADS ROUNDS. For tests/run/run.sh. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

int main(int count, char **words)
{
    pthread_t threads[64];
    long many = count == 5 ? atoi(words[3]) : 0;

    if (many < 1 || many > 64 || inet_pton(AF_INET, words[1], &to.sin_addr) != 1)
        return 2;
    to.sin_port = htons(atoi(words[2]));
    rounds = atoi(words[4]);
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
