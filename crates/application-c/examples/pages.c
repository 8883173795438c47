/*
 * Pages of several kinds, made in C; what crates/application/examples/pages.rs is in Rust. From the folder of the project:
 *
 *     cargo build -p exos-application-c
 *     cc -O2 -o pages crates/application-c/examples/pages.c -Icrates/application-c/include -Ltarget/debug -lexos_application_c -Wl,-rpath,$PWD/target/debug
 *     ./pages /run/pages.sock
 *
 * and "[[site.application]]" in docs/serve.md for how `exos serve` asks it.
 *
 *     behind the application's path | answer
 *     /kept/N       a page of N bytes that is made once
 *     /fresh/N      one that is made each time
 *     /template/N   a kept head and foot, and N fresh bytes between
 *     /stream/N     N bytes, some 10,000 at a time, without a length
 *     /broken/N     N bytes of a stream that is then given up
 *     /echo         the request's body
 *     /variables    the variables of the request
 *     /status/N     a status and nothing else
 *     /never        none
 *     /end          none: the application ends
 *     /fail         it fails to make one
 *
 * SIGTERM has it answer what was asked, and end.
 */
#define _GNU_SOURCE
#include "exos_application.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

enum {
    LINE_LEN = 64,
    STREAM_PART = 160 * LINE_LEN,
    PAGE_LEN_MAX = 1 << 26,
    KEPT_MAX = 64,
    KEPT_LEN_MAX = 1 << 18, /* So all that are kept take a quarter of the pool at most. */
    WORK_MAX = 4096,
    BUFFERS = 1024,
    STOP_MS = 60000,
};

/* A page that is kept. */
struct kept {
    size_t len;
    exos_piece *piece;
};

/* An answer that is made bit by bit: what is left of a stream, or of a body that is echoed. */
struct work {
    enum { NONE, STREAM, BROKEN, ECHO } what;
    exos_request request;
    size_t len, left;
    /* What was read of a body and found no buffer. */
    char *unsent;
    size_t unsent_len;
};

static exos_application *app;
static struct kept kept[KEPT_MAX];
static size_t kept_count;
static struct work works[WORK_MAX];

/* A page of this many bytes: each line names the page, so none is another page's. */
static char *page(const char *what, size_t whole, size_t len) {
    char line[LINE_LEN + 1], *bytes = malloc(len + 1);
    if (!bytes) abort();
    int said = snprintf(line, sizeof line, "/%s/%zu is what an application says ", what, whole);
    memset(line + said, '.', LINE_LEN - 1 - said);
    line[LINE_LEN - 1] = '\n';
    for (size_t at = 0; at < len; at += LINE_LEN) memcpy(bytes + at, line, len - at < LINE_LEN ? len - at : LINE_LEN);
    return bytes;
}

/* The answer's length, and text/plain. */
static int begin(exos_request request, int64_t length) {
    const exos_field type = {"Content-Type", "text/plain"};
    return exos_answer_begin(app, request, 200, &type, 1, length);
}

static int send_fresh(exos_request request, const char *what, size_t whole, size_t len) {
    char *bytes = page(what, whole, len);
    int sent = exos_answer_send(app, request, bytes, len);
    free(bytes);
    return sent;
}

/* Sends a page that is made once. What there is no place for is made each time. */
static int send_kept(exos_request request, size_t len) {
    for (size_t n = 0; n < kept_count; n++)
        if (kept[n].len == len) return exos_answer_send_piece(app, request, kept[n].piece);
    if (kept_count == KEPT_MAX || len > KEPT_LEN_MAX) return send_fresh(request, "kept", len, len);
    char *bytes = page("kept", len, len);
    int made = exos_piece_make(app, bytes, len, &kept[kept_count].piece);
    free(bytes);
    if (made < 0) return made;
    kept[kept_count].len = len;
    return exos_answer_send_piece(app, request, kept[kept_count++].piece);
}

static struct work *work_of(exos_request request) {
    for (struct work *work = works; work < works + WORK_MAX; work++)
        if (work->what != NONE && work->request.link == request.link && work->request.number == request.number) return work;
    return NULL;
}

static void forget(struct work *work) {
    free(work->unsent);
    work->unsent = NULL;
    work->what = NONE;
}

/* Goes on with an echo, as far as the body has come and there is room. */
static int echo(struct work *work) {
    exos_request request = work->request;
    char bytes[16384];
    int64_t count;
    if (work->unsent) {
        int sent = exos_answer_send(app, request, work->unsent, work->unsent_len);
        if (sent < 0) return sent;
        free(work->unsent);
        work->unsent = NULL;
    }
    while ((count = exos_request_read_body(app, request, bytes, sizeof bytes)) > 0) {
        int sent = exos_answer_send(app, request, bytes, (size_t)count);
        if (sent == EXOS_ERROR_EXHAUSTED && (work->unsent = malloc((size_t)count))) {
            memcpy(work->unsent, bytes, work->unsent_len = (size_t)count);
            return sent;
        }
        if (sent < 0) return sent;
    }
    if (count < 0) return (int)count;
    if (exos_request_body_is_whole(app, request) != 1) return EXOS_OK;
    forget(work);
    return exos_answer_end(app, request);
}

/* Goes on with an answer that is made bit by bit. What finds no buffer is done once more when EXOS_ROOM tells. */
static int go_on(struct work *work) {
    exos_request request = work->request;
    if (work->what == ECHO) return echo(work);
    while (work->left > 0 && exos_answer_queued(app, request) < STREAM_PART) {
        size_t part = work->left < STREAM_PART ? work->left : STREAM_PART;
        int sent = send_fresh(request, "stream", work->len, part);
        if (sent < 0) return sent;
        work->left -= part;
    }
    if (work->left > 0 || (work->what == BROKEN && exos_answer_queued(app, request) > 0)) return EXOS_OK;
    int is_broken = work->what == BROKEN;
    forget(work);
    return is_broken ? exos_answer_give_up(app, request) : exos_answer_end(app, request);
}

static int begin_work(exos_request request, int what, size_t len) {
    for (struct work *work = works; work < works + WORK_MAX; work++) {
        if (work->what != NONE) continue;
        *work = (struct work){what, request, len, len, NULL, 0};
        begin(request, -1);
        return go_on(work);
    }
    exos_answer_begin(app, request, 503, NULL, 0, 0);
    return exos_answer_end(app, request);
}

static int send_variables(exos_request request) {
    const char *name, *value;
    size_t name_len, value_len;
    begin(request, -1);
    for (size_t n = 0; exos_request_variable_at(app, request, n, &name, &name_len, &value, &value_len) == 1; n++) {
        exos_answer_send(app, request, name, name_len);
        exos_answer_send(app, request, "=", 1);
        exos_answer_send(app, request, value, value_len);
        exos_answer_send(app, request, "\n", 1);
    }
    return exos_answer_end(app, request);
}

/* Answers a request, or begins to; an error where that cannot be. */
static int answer(exos_request request) {
    size_t path_len = 0, len;
    char text[256], *what = text, *number;
    const char *path = exos_request_variable(app, request, "PATH_INFO", &path_len);
    snprintf(text, sizeof text, "%.*s", (int)path_len, path ? path : "");
    if (*what == '/') what++;
    if ((number = strchr(what, '/'))) *number++ = 0;
    len = number ? strtoull(number, NULL, 10) : 0;
    if (len > PAGE_LEN_MAX) len = PAGE_LEN_MAX;
    int done = EXOS_OK;
    if (!strcmp(what, "kept")) {
        begin(request, (int64_t)len);
        done = send_kept(request, len);
    } else if (!strcmp(what, "fresh")) {
        begin(request, (int64_t)len);
        done = send_fresh(request, what, len, len);
    } else if (!strcmp(what, "template")) {
        begin(request, (int64_t)len + 8000);
        done = send_kept(request, 4000);
        if (done >= 0) done = send_fresh(request, what, len, len);
        if (done >= 0) done = send_kept(request, 4000);
    } else if (!strcmp(what, "stream")) {
        return begin_work(request, STREAM, len);
    } else if (!strcmp(what, "broken")) {
        return begin_work(request, BROKEN, len);
    } else if (!strcmp(what, "echo")) {
        return begin_work(request, ECHO, 0);
    } else if (!strcmp(what, "variables")) {
        return send_variables(request);
    } else if (!strcmp(what, "status")) {
        exos_answer_begin(app, request, len < 200 ? 200 : len > 599 ? 599 : (int)len, NULL, 0, -1);
    } else if (!strcmp(what, "never")) {
        return EXOS_OK;
    } else if (!strcmp(what, "end")) {
        exit(0);
    } else if (!strcmp(what, "fail")) {
        exos_answer_say(app, request, "it was told to fail");
        exos_answer_begin(app, request, 500, NULL, 0, -1);
    } else {
        exos_answer_begin(app, request, 404, NULL, 0, -1);
    }
    return done < 0 ? done : exos_answer_end(app, request);
}

static void happened(const exos_event *event) {
    struct work *work = event->kind == EXOS_REQUEST ? NULL : work_of(event->request);
    int done = EXOS_OK;
    if (event->kind == EXOS_REQUEST)
        done = answer(event->request);
    else if (work && event->kind == EXOS_LEFT)
        forget(work);
    else if (work)
        done = go_on(work);
    if (done >= 0 || done == EXOS_ERROR_GONE) return;
    work = work_of(event->request);
    /* One that is made bit by bit goes on when there are buffers again. */
    if (work && done == EXOS_ERROR_EXHAUSTED) return;
    exos_answer_say(app, event->request, exos_application_error());
    exos_answer_give_up(app, event->request);
    if (work) forget(work);
}

static void must(int done) {
    if (done >= 0) return;
    fprintf(stderr, "pages: %s\n", exos_application_error());
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "pages: write where to listen, as /run/pages.sock\n");
        return 2;
    }
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    must(exos_application_open(argv[1], BUFFERS, &app));
    must(exos_application_stop_on(app, signalfd(-1, &term, SFD_CLOEXEC), STOP_MS));
    while (exos_application_is_over(app) == 0) {
        exos_event event;
        int is_any = exos_application_wait(app, -1, &event);
        must(is_any);
        if (is_any) happened(&event);
    }
    for (size_t n = 0; n < kept_count; n++) exos_piece_free(kept[n].piece);
    return exos_application_close(app);
}
