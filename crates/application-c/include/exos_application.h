/*
 * Pages that a process of its own makes for `exos serve`, over buffers that both share.
 *
 * An application listens at a Unix socket, which `exos serve` asks as its [[site.application]] says. It makes answers of pieces: bytes that
 * were put into its pool once, and go to the server by reference. What it keeps and sends again the server neither copies nor sums again.
 *
 *     const exos_field type = {"Content-Type", "text/plain"};
 *     exos_application *app;
 *     exos_piece *before;
 *     int is_any = exos_application_open("/run/hello.sock", 256, &app);
 *     if (is_any == EXOS_OK) is_any = exos_piece_make(app, "Hello! You asked for ", 21, &before);
 *     while (is_any >= 0 && exos_application_is_over(app) == 0) {
 *         exos_event event;
 *         is_any = exos_application_wait(app, -1, &event);
 *         if (is_any != 1 || event.kind != EXOS_REQUEST) continue;
 *         size_t len;
 *         const char *path = exos_request_variable(app, event.request, "PATH_INFO", &len);
 *         exos_answer_begin(app, event.request, 200, &type, 1, -1);
 *         exos_answer_send_piece(app, event.request, before);
 *         if (path) exos_answer_send(app, event.request, path, len);
 *         exos_answer_end(app, event.request);
 *     }
 *     if (is_any < 0) fprintf(stderr, "%s\n", exos_application_error());
 *
 * (What a client has said is put into a page of HTML escaped, or not at all: this says text/plain.)
 *
 * Functions that return int return a negative error below, or 0 or more where all is well; exos_application_error() has words for the last
 * error of the calling thread. What a call is to put somewhere is NULL there, or 0, when it fails. No call but exos_application_wait waits, and
 * none ends the process, but for want of memory of the process itself: what fails inside is EXOS_ERROR_INTERNAL, and so are all calls about
 * that application from then on, until it is closed.
 *
 * An application belongs to the thread that has opened it, with its requests and pieces; calls of other threads are EXOS_ERROR_THREAD. A program
 * uses several cores by a process, or a thread and a socket, for each. A child of fork(2) may only execute another program or end.
 *
 * Who owns what: an application is closed, and a piece freed, by the program, in any order; a piece that was sent stays valid in the answers that
 * have it. Requests are numbers, and belong to nobody: one whose answer has ended, or that was left, is EXOS_ERROR_GONE. Bytes that a program passes
 * are copied in the call.
 */
#ifndef EXOS_APPLICATION_H
#define EXOS_APPLICATION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What this header is of; exos_application_version() is that of the library. What is added keeps it, what is changed does not. */
#define EXOS_APPLICATION_VERSION 2
int exos_application_version(void);

/* Listens, and answers servers. */
typedef struct exos_application exos_application;

/* Bytes in an application's pool, which do not change. */
typedef struct exos_piece exos_piece;

/* A request of a server's client. None that was left has the numbers of another. */
typedef struct exos_request {
    uint64_t link;
    uint32_t number;
    uint32_t serial;
} exos_request;

/* What happens to a request. */
enum exos_event_kind {
    EXOS_REQUEST = 1, /* It has come. */
    EXOS_BODY = 2,    /* More of its body has. */
    EXOS_ROOM = 3,    /* There is room for more: all content has gone, or a call that was EXOS_ERROR_EXHAUSTED may find buffers now. */
    EXOS_LEFT = 4     /* Nobody wants its answer any more. Once at most, also behind exos_answer_end of what has not gone yet. */
};

typedef struct exos_event {
    int32_t kind;
    exos_request request;
} exos_event;

/*
 * A header field of an answer: its name is a token of HTTP, and not Status or Content-Length, which exos_answer_begin says. Line ends in the value
 * become spaces.
 */
typedef struct exos_field {
    const char *name;
    const char *value;
} exos_field;

enum exos_error {
    EXOS_OK = 0,
    EXOS_ERROR_ARGUMENT = -1,  /* NULL where something has to be, what is beyond its limits, or a second head. */
    EXOS_ERROR_THREAD = -2,    /* Another thread has opened the application. */
    EXOS_ERROR_GONE = -3,      /* The request is over: answered, or left by its client. */
    EXOS_ERROR_EXHAUSTED = -4, /* No buffer of the pool is left: pieces, and answers under way, have them all. Nothing was done. */
    EXOS_ERROR_SYSTEM = -5,    /* The kernel refuses something. */
    EXOS_ERROR_INTERNAL = -6   /* A defect of this library. The application is to be closed. */
};

/* What the last error of this thread was; until its next error. Never NULL. */
const char *exos_application_error(void);

/* --- An application --- */

/*
 * Listens at a Unix socket, with a pool of `buffers` buffers of 64 KiB, 2 to 16384: room for all that is kept, and for all that is under way. A
 * socket that an application has left that has ended is replaced. Ignores SIGPIPE, unless the program handles it.
 */
int exos_application_open(const char *socket, uint32_t buffers, exos_application **out);

/* Takes a Unix socket that listens, such as one of systemd's. It is the application's from then on; if this fails it is closed. */
int exos_application_open_fd(int fd, uint32_t buffers, exos_application **out);

/* Ends all that is under way and frees the application; NULL is fine. */
int exos_application_close(exos_application *app);

/*
 * Sends what was said, and waits until something happens to a request, for timeout_ms milliseconds at most, or for good (-1). 1 with an event;
 * 0 when the time has passed, when a signal came, and sometimes early. An error is for good: the application is over.
 */
int exos_application_wait(exos_application *app, int timeout_ms, exos_event *out);

/*
 * For a program that has a loop of its own: it calls exos_application_wait(app, 0, …) until that returns 0, and then polls this descriptor
 * for reading among its own, for at most as long as exos_application_poll_timeout says, in milliseconds as poll(2) has them (-1: for good).
 */
int exos_application_fd(exos_application *app);
int exos_application_poll_timeout(exos_application *app, int *timeout_ms);

/*
 * Stops in order: servers ask nothing more, and what is asked may still be answered, for at_most_ms milliseconds at most. Another application may
 * listen at the socket at once. exos_application_stop_on does so when a descriptor is readable, which is the application's from then on, and is
 * closed if this fails.
 */
int exos_application_stop(exos_application *app, uint32_t at_most_ms);
int exos_application_stop_on(exos_application *app, int fd, uint32_t at_most_ms);

/* 1 when it has stopped and all that was asked is over, or it cannot go on; also for NULL. */
int exos_application_is_over(const exos_application *app);

/* --- A request --- */

/*
 * A variable of CGI/1.1 (RFC 3875), such as "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING" or "HTTP_HOST"; NULL when there is none, or the
 * request is over. It is not ended by a zero, and valid until the next wait, or the end of the request's answer.
 */
const char *exos_request_variable(const exos_application *app, exos_request request, const char *name, size_t *len);

/* All variables in order, from index 0 on: 1 with the next, 0 behind the last. */
int exos_request_variable_at(const exos_application *app, exos_request request, size_t index, const char **name, size_t *name_len,
                             const char **value, size_t *value_len);

/* Takes what has come of the body, len bytes at most, and returns how many. EXOS_BODY tells when there is more. */
int64_t exos_request_read_body(exos_application *app, exos_request request, char *out, size_t len);

/* 1 when no more of the body comes than was not read yet. */
int exos_request_body_is_whole(const exos_application *app, exos_request request);

/* --- Pieces --- */

/* Copies bytes into the pool, once. More than the whole pool holds is EXOS_ERROR_ARGUMENT. */
int exos_piece_make(exos_application *app, const char *bytes, size_t len, exos_piece **out);

/* Frees a piece; its bytes stay as long as answers have them. NULL is fine. */
int exos_piece_free(exos_piece *piece);

/* Bytes of a piece. */
size_t exos_piece_len(const exos_piece *piece);

/* --- An answer --- */

/*
 * Begins an answer, once: its status, 200 to 599, `count` header fields, of 32 KiB together, and the length of its content, or -1 where it ends
 * with exos_answer_end.
 */
int exos_answer_begin(exos_application *app, exos_request request, int status, const exos_field *fields, size_t count, int64_t length);

/* Sends a piece that is kept and will be sent again: by reference, and servers remember it with its sums. */
int exos_answer_send_piece(exos_application *app, exos_request request, const exos_piece *piece);

/*
 * Sends bytes that were made for this answer, by a copy into the pool: all, or nothing where that is EXOS_ERROR_EXHAUSTED. Then EXOS_ROOM tells of
 * the request when buffers are free again.
 */
int exos_answer_send(exos_application *app, exos_request request, const char *bytes, size_t len);

/* Bytes of content that wait here, since the client takes no more; 0 of a request that is over. A long answer is sent when EXOS_ROOM tells. */
int64_t exos_answer_queued(const exos_application *app, exos_request request);

/* The answer is whole. */
int exos_answer_end(exos_application *app, exos_request request);

/* The answer does not become whole: one whose head has gone is cut off, and the client hears of it; any other is 500. */
int exos_answer_give_up(exos_application *app, exos_request request);

/* Says a line about a request to the server's operator. */
int exos_answer_say(exos_application *app, exos_request request, const char *line);

#ifdef __cplusplus
}
#endif

#endif
