/* A client that connects and says what its descriptor is: client ADDRESS PORT. For tests/run/run.sh, by several C libraries. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

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
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, link, sizeof link - 1) < 0)
        return 1;
    puts(link);
    return 0;
}
