#!/usr/bin/env python3
"""The site that tests/serve/browser.sh shows to a browser, and what is checked of the visit.

    browser.py make FOLDER                     writes the site and its configurations
    browser.py judge FOLDER ORIGIN CARRIER CODING...
                                               reads what the visit left there: the server's access.log (JSON),
                                               the browser's net.json and browser.err; prints "ok NAME" and
                                               "not ok NAME: why" lines, and ends with 1 when one was not ok

The page says itself what it saw: it asks for /said.txt with that as query. CARRIER is what the browser calls the protocol: http/1.1, h2, h3.
"""

import collections
import json
import os
import random
import struct
import sys
import urllib.parse

from common import failed, say

IMAGES, SCRIPTS, STYLES = 48, 8, 8
RATE, SECONDS = 44100, 120
# The page plays from each of these seconds: far enough apart that what a browser has read ahead does not do.
SEEKS = [0, 100, 50]
DOCUMENTS = [f"/app/{kind % n}" for kind, count in
             (("image%d.svg", IMAGES), ("script%d.js", SCRIPTS), ("style%d.css", STYLES)) for n in range(1, count + 1)]
# As the log has them.
PROTOCOLS = {"http/1.1": "HTTP/1.1", "h2": "HTTP/2.0", "h3": "HTTP/3.0"}
# What the browser notes where it sends a request, by each of them.
SENDS = [f"HTTP_TRANSACTION_{by}SEND_REQUEST_HEADERS" for by in ("", "HTTP2_", "QUIC_")]
# X25519MLKEM768 (draft-ietf-tls-ecdhe-mlkem).
HYBRID = 0x11EC
CODINGS = {"br": ".br", "zstd": ".zst", "gzip": ".gz"}

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>many</title>
%(styles)s
%(marks)s
%(images)s
<audio id="film" preload="metadata" muted src="/film.wav"></audio>
%(scripts)s
<script>
const seen = { visits: Number(sessionStorage.visits || 0) + 1, seconds: [] };
sessionStorage.visits = seen.visits;
const moment = (what, name) => new Promise(done => what.addEventListener(name, done, { once: true }));
// Plays from a second of the film until half a second of it has passed.
async function play(film, second) {
    film.currentTime = second;
    await film.play();
    while (film.currentTime < second + 0.5 || film.seeking) await moment(film, "timeupdate");
    film.pause();
    seen.seconds.push(second);
}
async function look() {
    seen.images = [...document.images].filter(i => i.complete && i.naturalWidth == 9).length;
    seen.styles = [...document.querySelectorAll("i")].filter((mark, n) => getComputedStyle(mark).width == n + 1 + "px").length;
    seen.scripts = window.scripts;
    const film = document.getElementById("film");
    if (seen.visits == 1) for (const second of %(seeks)s) await play(film, second);
    seen.length = film.duration;
    // What is only asked about, at the reload, has none.
    if (seen.visits == 1) seen.carrier = performance.getEntriesByType("navigation")[0].nextHopProtocol;
}
function say(error) {
    if (error) seen.error = String(error);
    return fetch("/said.txt?" + encodeURIComponent(JSON.stringify(seen)));
}
onload = () => look().then(() => say(), say).then(() => seen.visits == 1 && !seen.error && location.reload());
</script>
"""

# What is under /app is asked about at every visit; what is not, a browser may keep for a while.
CONFIGURATION = """[[site]]
root = "site"
[[site.fields]]
path = "/app/*"
set = { Cache-Control = "no-cache" }
"""
# Over TLS; the certificate is made elsewhere.
ENCRYPTED = """[tls]
port = 443
http3 = true
%s
[[site.certificate]]
file = "pem"
key = "key"
""" % CONFIGURATION


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def film():
    """A WAV file: 16 bits, two channels, noise that is the same in each run."""
    second = random.Random(1).randbytes(RATE * 4)
    data = second * SECONDS
    form = struct.pack("<HHIIHH", 1, 2, RATE, RATE * 4, 4, 16)
    return b"RIFF%sWAVEfmt %s%sdata%s" % (
        struct.pack("<I", 36 + len(data)), struct.pack("<I", 16), form, struct.pack("<I", len(data))) + data


def make(folder):
    site = os.path.join(folder, "site")
    tags = collections.defaultdict(list)
    for n in range(1, IMAGES + 1):
        name = f"/app/image{n}.svg"
        tags["images"].append(f'<img src="{name}" width="9" height="9" alt="">')
        write(site + name, f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9" fill="hsl({n * 7} 60% 60%)"/></svg>\n'.encode())
    for n in range(1, SCRIPTS + 1):
        name = f"/app/script{n}.js"
        tags["scripts"].append(f'<script src="{name}"></script>')
        # The text is checked by the script itself: as many lines as were written.
        lines = "\n".join(f"line {number} of script {n}" for number in range(1500))
        write(site + name, f"if (`{lines}`.split('\\n').length == 1500) window.scripts = (window.scripts || 0) + 1;\n".encode())
    for n in range(1, STYLES + 1):
        name = f"/app/style{n}.css"
        tags["styles"].append(f'<link rel="stylesheet" href="{name}">')
        tags["marks"].append("<i></i>")
        write(site + name, f"{'.unused { color: red }' * 400}\ni:nth-of-type({n}) {{ display: block; width: {n}px }}\n".encode())
    parts = {kind: "\n".join(lines) for kind, lines in tags.items()}
    write(site + "/index.html", (PAGE % dict(parts, seeks=SEEKS)).encode())
    write(site + "/favicon.ico", b"")
    write(site + "/said.txt", b"heard\n")
    write(site + "/film.wav", film())
    write(os.path.join(folder, "serve.toml"), CONFIGURATION.encode())
    write(os.path.join(folder, "encrypted.toml"), ENCRYPTED.encode())


def requests_of(path):
    """(status, path, query, body bytes, protocol) of each line of the access log."""
    with open(path) as file:
        for line in map(json.loads, file):
            _, path, protocol = line["request"].split(" ")
            path, _, query = path.partition("?")
            yield line["status"], path, urllib.parse.unquote(query), line["body_bytes_sent"], protocol


def events_of(path):
    """(name, source, parameters) of each event in Chromium's network log, which has a line for each."""
    with open(path) as file:
        constants = json.loads(file.readline().strip().rstrip(",") + "}")["constants"]
        names = {number: name for name, number in constants["logEventTypes"].items()}
        file.readline()
        for line in file:
            try:
                event = json.loads(line.strip().removesuffix("]}").rstrip(","))
            except ValueError:
                continue  # The browser was ended while it wrote its last line.
            yield names[event["type"]], event["source"]["id"], event.get("params", {})


def judge_reports(requests, carrier):
    said = [json.loads(query) for _, path, query, _, _ in requests if path == "/said.txt"]
    whole = {"images": IMAGES, "styles": STYLES, "scripts": SCRIPTS, "length": SECONDS}
    wanted = [dict(whole, visits=1, seconds=SEEKS, carrier=carrier), dict(whole, visits=2, seconds=[])]
    say("the page sees all that it has, plays, and does so again after a reload", said == wanted, said)


def judge_log(requests, folder, carrier, codings):
    answers = collections.defaultdict(list)
    for status, path, _, length, _ in requests:
        answers[path].append((status, length))
    bad = [(path, status) for status, path, _, _, _ in requests if status not in (200, 206, 304)]
    say("nothing is refused", not bad, bad)
    carriers = collections.Counter(protocol for _, _, _, _, protocol in requests)
    say(f"all is asked by {carrier}", set(carriers) == {PROTOCOLS[carrier]}, carriers)

    def length(path):
        """Of what is to be sent: the smallest of what lies there in a coding that the browser takes."""
        files = [folder + "/site" + path + CODINGS.get(coding, "") for coding in [""] + codings]
        return min((os.path.getsize(file) for file in files if os.path.exists(file)), default=0)

    pages = {path: path for path in DOCUMENTS} | {"/": "/index.html"}
    wrong = {path: answers[path] for path, file in pages.items() if answers[path] != [(200, length(file)), (304, 0)]}
    say(f"each of {len(pages)} documents is sent once, in its smallest coding, and is unchanged at the reload", not wrong, wrong)
    parts = [length for status, length in answers["/film.wav"] if status == 206]
    say("the film is sent in parts", len(parts) >= len(SEEKS) and sum(parts) > 0, answers["/film.wav"])
    return len(parts)


def judge_browser(folder, origin, carrier, codings, parts):
    ours, errors, ranges, connections, accepts, groups = {}, [], 0, collections.Counter(), set(), set()
    for name, source, params in events_of(folder + "/net.json"):
        if params.get("url", "").startswith(origin):
            ours[source] = params["url"]
        # A player breaks off what it does not need any more: ERR_ABORTED.
        error = params.get("net_error", 0)
        if source in ours and error < 0 and not (error == -3 and "/film.wav" in ours[source]):
            errors.append((name, ours[source], error))
        if name == "TCP_CONNECT" and params.get("remote_address") in ("10.10.0.10:80", "10.10.0.10:443"):
            connections["TCP"] += 1
        if name == "SSL_CONNECT" and "key_exchange_group" in params:
            groups.add(params["key_exchange_group"])
        connections["QUIC"] += name == "QUIC_SESSION" and "host" in params
        if name in SENDS and source in ours and "headers" in params:
            fields = {name.lower(): value for name, value in (field.split(": ", 1) for field in params["headers"])}
            ranges += "range" in fields
            if "/app/" in ours[source]:
                accepts.add(fields["accept-encoding"])
    say("no request fails in the browser", len(ours) > 0 and not errors, errors or "it made none")
    say("each part was asked for", ranges >= parts > 0, f"{ranges} asked for, {parts} sent")
    wanted = {"http/1.1": connections["TCP"] >= 4, "h2": 1 <= connections["TCP"] <= 3, "h3": connections["QUIC"] >= 1}
    say("it has several connections" if carrier == "http/1.1" else "it has few connections", wanted[carrier], dict(connections))
    if carrier == "h2":
        say("keys are exchanged by X25519MLKEM768, as BoringSSL has it", groups == {HYBRID}, groups)
    taken = [set(accept.split(", ")) & set(CODINGS) for accept in accepts]
    say(f"it takes {' '.join(codings)}", taken == [set(codings)], accepts)
    with open(folder + "/browser.err", errors="replace") as file:
        console = [line for line in file if "CONSOLE" in line]
    say("nothing in its console", not console, console)


def judge(folder, origin, carrier, *codings):
    requests = list(requests_of(folder + "/access.log"))
    judge_reports(requests, carrier)
    parts = judge_log(requests, folder, carrier, list(codings))
    judge_browser(folder, origin, carrier, codings, parts)
    return failed()


command, *arguments = sys.argv[1:]
sys.exit({"make": make, "judge": judge}[command](*arguments))
