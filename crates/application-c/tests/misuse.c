/* What the header promises of misuse: misuse SOCKET. */
#define _GNU_SOURCE
#include "exos_application.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(sizeof(exos_request) == 16, "a request");
_Static_assert(sizeof(exos_event) == 24 && offsetof(exos_event, request) == 8, "an event");
_Static_assert(sizeof(exos_field) == 2 * sizeof(char *), "a field");

#define IS(what, wanted) \
    do { \
        long long got = (long long)(what); \
        if (got != (long long)(wanted)) { \
            fprintf(stderr, "line %d: %s is %lld: %s\n", __LINE__, #what, got, exos_application_error()); \
            exit(1); \
        } \
    } while (0)

static exos_application *app;
static exos_piece *piece;

static void *in_another_thread(void *nothing) {
    const exos_request request = {0, 0};
    exos_event event;
    exos_piece *other;
    IS(exos_application_wait(app, 0, &event), EXOS_ERROR_THREAD);
    IS(exos_application_fd(app), EXOS_ERROR_THREAD);
    IS(exos_application_stop(app, 0), EXOS_ERROR_THREAD);
    IS(exos_application_is_over(app), EXOS_ERROR_THREAD);
    IS(exos_application_close(app), EXOS_ERROR_THREAD);
    IS(exos_piece_make(app, "x", 1, &other), EXOS_ERROR_THREAD);
    IS(exos_piece_free(piece), EXOS_ERROR_THREAD);
    IS(exos_piece_len(piece), 0);
    IS(exos_answer_end(app, request), EXOS_ERROR_THREAD);
    IS(strlen(exos_application_error()) > 10, 1);
    return nothing;
}

int main(int argc, char **argv) {
    const exos_request request = {12, 34};
    const exos_field field = {"A", "b"};
    exos_application *second = NULL;
    exos_event event;
    size_t len = 7;
    char text[16];
    struct sigaction pipe_action;

    if (argc != 2) return 2;
    IS(exos_application_error() == NULL, 0);
    IS(strlen(exos_application_error()), 0);

    /* Before there is an application. */
    IS(exos_application_open(NULL, 64, &app), EXOS_ERROR_ARGUMENT);
    IS(exos_application_open(argv[1], 64, NULL), EXOS_ERROR_ARGUMENT);
    IS(exos_application_open(argv[1], 1, &app), EXOS_ERROR_ARGUMENT);
    IS(exos_application_open(argv[1], 1 << 30, &app), EXOS_ERROR_ARGUMENT);
    IS(exos_application_open("/no/such/folder/socket", 64, &app), EXOS_ERROR_SYSTEM);
    IS(strstr(exos_application_error(), "cannot listen") != NULL, 1);
    IS(exos_application_open_fd(-1, 64, &app), EXOS_ERROR_ARGUMENT);
    IS(exos_application_close(NULL), EXOS_OK);
    IS(exos_application_is_over(NULL), 1);
    IS(exos_application_wait(NULL, 0, &event), EXOS_ERROR_ARGUMENT);
    IS(exos_application_poll_timeout(NULL), EXOS_ERROR_ARGUMENT);
    IS(exos_piece_free(NULL), EXOS_OK);
    IS(exos_piece_len(NULL), 0);

    IS(exos_application_open(argv[1], 2, &app), EXOS_OK);
    IS(exos_application_open(argv[1], 2, &second), EXOS_ERROR_SYSTEM);
    IS(sigaction(SIGPIPE, NULL, &pipe_action), 0);
    IS(pipe_action.sa_handler == SIG_IGN, 1);
    IS(exos_application_wait(app, 0, NULL), EXOS_ERROR_ARGUMENT);
    IS(exos_application_wait(app, 1, &event), 0);
    IS(exos_application_poll_timeout(app), -1);
    IS(exos_application_fd(app) > 2, 1);
    IS(exos_application_stop_on(app, -1, 0), EXOS_ERROR_ARGUMENT);
    IS(exos_application_stop_on(app, 9999, 0), EXOS_ERROR_ARGUMENT);

    /* Pieces, and a pool that is full. */
    IS(exos_piece_make(app, NULL, 1, &piece), EXOS_ERROR_ARGUMENT);
    IS(exos_piece_make(app, "x", 1, NULL), EXOS_ERROR_ARGUMENT);
    IS(exos_piece_make(app, "x", (size_t)-1, &piece), EXOS_ERROR_ARGUMENT);
    IS(exos_piece_make(app, NULL, 0, &piece), EXOS_OK);
    IS(exos_piece_len(piece), 0);
    IS(exos_piece_free(piece), EXOS_OK);
    char *much = calloc(3, 1 << 16);
    IS(exos_piece_make(app, much, 3 << 16, &piece), EXOS_ERROR_EXHAUSTED);
    IS(exos_piece_make(app, much, 2 << 16, &piece), EXOS_OK);
    IS(exos_piece_len(piece), 2 << 16);
    free(much);

    /* A request that is none. */
    IS(exos_request_variable(app, request, "A", &len) == NULL, 1);
    IS(exos_request_variable(app, request, NULL, &len) == NULL, 1);
    IS(exos_request_variable(NULL, request, "A", &len) == NULL, 1);
    IS(exos_request_variable_at(app, request, 0, NULL, NULL, NULL, NULL), EXOS_ERROR_GONE);
    IS(exos_request_read_body(app, request, text, sizeof text), EXOS_ERROR_GONE);
    IS(exos_request_body_is_whole(app, request), EXOS_ERROR_GONE);
    IS(exos_answer_begin(app, request, 200, &field, 1, -1), EXOS_ERROR_GONE);
    IS(exos_answer_send_piece(app, request, piece), EXOS_ERROR_GONE);
    IS(exos_answer_send(app, request, "x", 1), EXOS_ERROR_GONE);
    IS(exos_answer_queued(app, request), 0);
    IS(exos_answer_give_up(app, request), EXOS_ERROR_GONE);
    IS(exos_answer_say(app, request, "x"), EXOS_ERROR_GONE);
    IS(exos_answer_end(app, request), EXOS_ERROR_GONE);

    pthread_t thread;
    IS(pthread_create(&thread, NULL, in_another_thread, NULL), 0);
    IS(pthread_join(thread, NULL), 0);

    /* It stops, and is closed before the last piece is freed. */
    int ends[2];
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    IS(exos_application_stop_on(app, ends[0], 1000), EXOS_OK);
    IS(exos_application_is_over(app), 0);
    IS(write(ends[1], "x", 1), 1);
    while (exos_application_is_over(app) == 0) IS(exos_application_wait(app, 1000, &event), 0);
    IS(exos_application_is_over(app), 1);
    IS(exos_application_wait(app, -1, &event), 0);
    IS(exos_application_close(app), EXOS_OK);
    IS(exos_piece_len(piece), 2 << 16);
    IS(exos_piece_free(piece), EXOS_OK);

    /* A socket that is none, which is closed. */
    IS(exos_application_open_fd(ends[1], 2, &app), EXOS_OK);
    IS(exos_application_close(app), EXOS_OK);
    IS(close(ends[1]), -1);
    unlink(argv[1]);
    return 0;
}
