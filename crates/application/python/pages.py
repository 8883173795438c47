#!/usr/bin/env python3
"""Pages of several kinds, made in Python: pages.py FOLDER-OF-THE-MODULE SOCKET. README.md beside this says how to build the module.

    behind the application's path
    /              a kept header, and what was asked
    /kept/N        a page of N bytes that is made once
    /fresh/N       one that is made each time
    /template/N    a kept head and foot, and N fresh bytes between
    /stream/N      N bytes, some 10,000 at a time, without a length
    /broken/N      N bytes of a stream that then fails
    /echo          the request's body
    /variables     the variables of the request
    /status/N      a status and nothing else
    /end           none: the application ends
    /fail          it fails to make one

SIGTERM has it answer what was asked, and end.
"""

import functools
import os
import signal
import sys

sys.path.insert(0, sys.argv[1])

from exos_application_python import Application

LINE_LEN = 64
STREAM_PART = 160 * LINE_LEN
# So all that are kept take a quarter of the pool at most.
KEPT_LEN_MAX = 1 << 18
PAGE_LEN_MAX = 1 << 25

signal.signal(signal.SIGTERM, lambda *_: app.stop(60))
app = Application(sys.argv[2], buffers=1024)
header = app.keep(b"Hello! You asked for ")
PLAIN = [("Content-Type", "text/plain")]


def line_page(kind, whole, length):
    line = f"/{kind}/{whole} is what an application says ".ljust(LINE_LEN - 1, ".").encode() + b"\n"
    return (line * (length // LINE_LEN + 1))[:length]


@functools.lru_cache(maxsize=64)
def kept(length):
    return app.keep(line_page("kept", length, length))


def stream(length, is_broken=False):
    for at in range(0, length, STREAM_PART):
        yield line_page("stream", length, min(STREAM_PART, length - at))
    if is_broken:
        raise RuntimeError("it was told to break off")


def page(request):
    kind, _, number = request.get("PATH_INFO", "").removeprefix("/").partition("/")
    length = min(int(number), PAGE_LEN_MAX) if number.isascii() and number.isdecimal() and len(number) < 10 else 0
    match kind:
        case "":
            return 200, PLAIN, [header, request.get("REQUEST_URI", "nothing").encode("latin-1")]
        case "kept" if length > KEPT_LEN_MAX:
            return 200, PLAIN, [line_page(kind, length, length)]
        case "kept":
            return 200, PLAIN, [kept(length)]
        case "fresh":
            return 200, PLAIN, [line_page(kind, length, length)]
        case "template":
            return 200, PLAIN, [kept(4000), line_page(kind, length, length), kept(4000)]
        case "stream" | "broken":
            return 200, PLAIN, stream(length, kind == "broken")
        case "echo":
            return 200, PLAIN, [request.body]
        case "variables":
            lines = (f"{name}={value}\n" for name, value in request.variables.items())
            return 200, PLAIN, ["".join(lines).encode("latin-1")]
        case "status":
            return length, [], []
        case "end":
            os._exit(0)
        case "fail":
            raise RuntimeError("it was told to fail")
    return 404, [], []


app.serve(page)
