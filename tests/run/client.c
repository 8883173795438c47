/* A client that connects and says what its descriptor is: client ADDRESS PORT. For tests/run/run.sh, by several C libraries. With
 * BY_ITSELF it asks the kernel past its C library whether it can write; that alone is a library with LIBRARY, for one with BY_LIBRARY. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef BY_LIBRARY
long can_write(int fd);
#elif defined BY_ITSELF || defined LIBRARY
#ifndef LIBRARY
static
#endif
long can_write(int fd)
{
    struct pollfd asked = {.fd = fd, .events = POLLOUT};
    long ready;
    __asm__ volatile("movl $7, %%eax; syscall" : "=a"(ready) : "D"(&asked), "S"(1L), "d"(1000L) : "rcx", "r11", "memory");
    return ready == 1 && asked.revents == POLLOUT;
}
#else
#define can_write(fd) 1
#endif

#ifndef LIBRARY
int main(int count, char **words)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char path[64], link[128] = "";
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (count != 3 || inet_pton(AF_INET, words[1], &to.sin_addr) != 1)
        return 2;
    to.sin_port = htons(atoi(words[2]));
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        perror("connect");
        return 1;
    }
    if (!can_write(fd))
        return 3;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, link, sizeof link - 1) < 0)
        return 1;
    puts(link);
    return 0;
}
#endif
