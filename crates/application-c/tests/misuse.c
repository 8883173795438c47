/* What the header promises of misuse: misuse SOCKET; of a request that lives, for which it waits: misuse SOCKET live. */
#define _GNU_SOURCE
#include "exos_application.h"

#include <fcntl.h>
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
    const exos_request request = {0, 0, 0};
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

/* What may be said of a request that lives: it is POST, with a body of 3 bytes, and in the end it is answered with 204. */
static int live(const char *socket) {
    const exos_field bad[] = {{"", "x"}, {"a b", "x"}, {"a:", "x"}, {"STATUS", "200"}, {"Content-Length", "1"}, {NULL, "x"}, {"A", NULL}};
    exos_event event;
    const char *name, *value, *body = "abc";
    size_t name_len, len = 7;
    char text[16], *value_long = calloc(1, 40000);
    memset(value_long, 'x', 39999);
    const exos_field too_long = {"A", value_long}, field = {"A", "b"};

    IS(exos_application_open(socket, 2, &app), EXOS_OK);
    while (exos_application_wait(app, -1, &event) != 1) {}
    IS(event.kind, EXOS_REQUEST);
    const exos_request request = event.request;
    while (exos_request_body_is_whole(app, request) == 0) exos_application_wait(app, 1000, &event);

    IS(memcmp(exos_request_variable(app, request, "PATH_INFO", &len), "/live", 5), 0);
    IS(len, 5);
    IS(exos_request_variable(app, request, "NOTHING", &len) == NULL, 1);
    IS(len, 0);
    IS(exos_request_variable(app, request, "PATH_INFO", NULL) == NULL, 1);
    IS(exos_request_variable(app, request, NULL, &len) == NULL, 1);
    IS(exos_request_variable_at(app, request, 0, &name, &name_len, &value, &len), 1);
    IS(name_len, 9);
    IS(exos_request_variable_at(app, request, 0, NULL, &name_len, &value, &len), EXOS_ERROR_ARGUMENT);
    IS(exos_request_variable_at(app, request, 1, &name, &name_len, &value, &len), 0);
    IS(exos_request_read_body(app, request, NULL, 1), EXOS_ERROR_ARGUMENT);
    IS(exos_request_read_body(app, request, text, 0), 0);
    IS(exos_request_read_body(app, request, text, 2), 2);
    IS(exos_request_read_body(app, request, text + 2, 14), 1);
    IS(memcmp(text, body, 3), 0);
    IS(exos_request_read_body(app, request, text, 16), 0);

    for (int status = -1; status < 700; status++)
        if (status < 200 || status > 599) IS(exos_answer_begin(app, request, status, NULL, 0, -1), EXOS_ERROR_ARGUMENT);
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) IS(exos_answer_begin(app, request, 200, &bad[n], 1, -1), EXOS_ERROR_ARGUMENT);
    IS(exos_answer_begin(app, request, 200, NULL, 1, -1), EXOS_ERROR_ARGUMENT);
    IS(exos_answer_begin(app, request, 200, &too_long, 1, -1), EXOS_ERROR_ARGUMENT);
    IS(exos_answer_begin(app, request, 200, &field, 1, -2), EXOS_ERROR_ARGUMENT);
    IS(exos_answer_begin(app, request, 200, &field, 1, 1), EXOS_OK);
    IS(exos_answer_begin(app, request, 200, &field, 1, 1), EXOS_ERROR_ARGUMENT);
    IS(exos_answer_send(app, request, NULL, 1), EXOS_ERROR_ARGUMENT);
    IS(exos_answer_send_piece(app, request, NULL), EXOS_ERROR_ARGUMENT);
    IS(exos_answer_say(app, request, NULL), EXOS_ERROR_ARGUMENT);
    IS(exos_answer_queued(app, request), 0);

    /* All buffers are taken: it is told when they are free again. */
    IS(exos_piece_make(app, value_long, 39999, &piece), EXOS_OK);
    exos_piece *other;
    IS(exos_piece_make(app, value_long, 39999, &other), EXOS_OK);
    char *much = calloc(1, 60000);
    IS(exos_answer_send(app, request, much, 60000), EXOS_ERROR_EXHAUSTED);
    IS(exos_piece_free(piece), EXOS_OK);
    while (exos_application_wait(app, -1, &event) != 1 || event.kind == EXOS_BODY) {}
    IS(event.kind, EXOS_ROOM);
    IS(event.request.number, request.number);
    IS(exos_piece_free(other), EXOS_OK);
    IS(exos_answer_send(app, request, "x", 1), EXOS_OK);
    IS(exos_answer_end(app, request), EXOS_OK);
    IS(exos_answer_end(app, request), EXOS_ERROR_GONE);
    IS(exos_answer_give_up(app, request), EXOS_ERROR_GONE);
    IS(exos_application_stop(app, 60000), EXOS_OK);
    while (exos_application_is_over(app) == 0) IS(exos_application_wait(app, -1, &event) < 0, 0);
    free(much);
    free(value_long);
    return exos_application_close(app);
}

int main(int argc, char **argv) {
    const exos_request request = {12, 34, 56};
    const exos_field field = {"A", "b"};
    exos_application *second = NULL;
    exos_event event;
    exos_piece *other = NULL;
    size_t len = 7;
    int timeout = 7;
    char text[16];
    struct sigaction pipe_action;

    if (argc == 3) return live(argv[1]);
    if (argc != 2) return 2;
    IS(exos_application_error() == NULL, 0);
    IS(strlen(exos_application_error()), 0);

    /* Before there is an application. */
    app = (exos_application *)text;
    IS(exos_application_open(NULL, 64, &app), EXOS_ERROR_ARGUMENT);
    app = (exos_application *)text;
    IS(exos_application_open(argv[1], 1, &app), EXOS_ERROR_ARGUMENT);
    IS(app == NULL, 1);
    IS(exos_application_open(argv[1], 64, NULL), EXOS_ERROR_ARGUMENT);
    IS(exos_application_open(argv[1], 1, &app), EXOS_ERROR_ARGUMENT);
    IS(exos_application_open(argv[1], 1 << 30, &app), EXOS_ERROR_ARGUMENT);
    IS(exos_application_open("/no/such/folder/socket", 64, &app), EXOS_ERROR_SYSTEM);
    IS(strstr(exos_application_error(), "cannot listen") != NULL, 1);
    IS(exos_application_open_fd(-1, 64, &app), EXOS_ERROR_ARGUMENT);
    IS(exos_application_close(NULL), EXOS_OK);
    IS(exos_application_is_over(NULL), 1);
    IS(exos_application_wait(NULL, 0, &event), EXOS_ERROR_ARGUMENT);
    IS(exos_application_poll_timeout(NULL, &timeout), EXOS_ERROR_ARGUMENT);
    IS(exos_application_version(), EXOS_APPLICATION_VERSION);
    IS(exos_piece_free(NULL), EXOS_OK);
    IS(exos_piece_len(NULL), 0);

    IS(exos_application_open(argv[1], 2, &app), EXOS_OK);
    IS(exos_application_open(argv[1], 2, &second), EXOS_ERROR_SYSTEM);
    IS(sigaction(SIGPIPE, NULL, &pipe_action), 0);
    IS(pipe_action.sa_handler == SIG_IGN, 1);
    IS(exos_application_wait(app, 0, NULL), EXOS_ERROR_ARGUMENT);
    IS(exos_application_wait(app, 1, &event), 0);
    IS(exos_application_poll_timeout(app, NULL), EXOS_ERROR_ARGUMENT);
    IS(exos_application_poll_timeout(app, &timeout), EXOS_OK);
    IS(timeout, -1);
    IS(exos_application_stop_on(app, open("/dev/null", O_RDONLY), 0), EXOS_ERROR_SYSTEM);
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
    IS(exos_piece_make(app, much, 3 << 16, &piece), EXOS_ERROR_ARGUMENT);
    IS(exos_piece_make(app, much, 2 << 16, &piece), EXOS_OK);
    IS(exos_piece_len(piece), 2 << 16);
    IS(exos_piece_make(app, much, 1, &other), EXOS_ERROR_EXHAUSTED);
    IS(other == NULL, 1);
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

    /* A socket that does not listen, which is closed. */
    IS(exos_application_open_fd(ends[1], 2, &app), EXOS_ERROR_SYSTEM);
    IS(app == NULL, 1);
    IS(close(ends[1]), -1);
    unlink(argv[1]);
    return 0;
}
