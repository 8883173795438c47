"""What random clients do, all of it drawn from a seed; see random-traffic.py."""

import random

# How often each is drawn.
KINDS = {"small": 30, "page": 25, "fresh": 8, "stale": 4, "changing": 40, "other": 10, "head": 8, "conditional": 8, "part": 4, "middle": 4, "none": 4, "post": 2, "long": 2, "old": 4, "bad": 2}


# Bytes of page-100.txt and the others: with their heads most of them fit a response of one segment.
PAGES = (100, 400, 700, 1000, 1100, 1300)
# Where a request says the entity tag of a page.
TAG = b"ENTITY-TAG-OF-%d"
# Of a document whose versions differ.
CHANGING = b"GET /changing.txt "


def noise_of(draw):
    """What a browser says besides: no two say the same."""
    agents = [b"Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%d.0", b"Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/%d.0.%d Safari/537.36"]
    lines = [
        b"User-Agent: " + draw.choice(agents) % (draw.randrange(60, 150), draw.randrange(10)),
        b"Accept: text/html,application/xhtml+xml,*/*;q=0.8",
        b"Accept-Language: " + draw.choice([b"en", b"de-DE,de;q=0.7", b"fr"]),
        b"Referer: http://x/page-%d.txt?%d" % (draw.choice(PAGES), draw.randrange(1000)),
        b"Cookie: session=%x; theme=%s" % (draw.getrandbits(draw.choice([16, 128, 1024])), draw.choice([b"dark", b"light"])),
        b"Sec-Fetch-Mode: navigate",
        b"Upgrade-Insecure-Requests: 1",
        b"DNT: 1",
    ]
    lines = [line for line in lines if draw.random() < 0.7]
    draw.shuffle(lines)
    return b"".join(line + b"\r\n" for line in lines)


def request_of(kind, closes, draw):
    """A request as bytes, whether it is for a head alone, and whether its response is the last."""
    bytes_ = draw.choice(PAGES)
    page = b"GET /page-%d.txt HTTP/1.1\r\nHost: x\r\n" % bytes_ + noise_of(draw)
    last = b"Connection: close\r\n" if closes else b""
    host = b"Host: x\r\n"
    get = {
        "small": b"GET /small.txt HTTP/1.1\r\n" + host,
        "page": page,
        "fresh": page + b"If-None-Match: " + TAG % bytes_ + b"\r\n",
        "stale": page + b'If-None-Match: W/"other", "0123"\r\n',
        "changing": CHANGING + b"HTTP/1.1\r\n" + host,
        "other": b"GET /other.txt HTTP/1.1\r\n" + host + b"User-Agent: random\r\nAccept: */*\r\n",
        "head": b"HEAD /small.txt HTTP/1.1\r\n" + host,
        "conditional": b"GET /small.txt HTTP/1.1\r\n" + host + b"If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n",
        "part": b"GET /small.txt HTTP/1.1\r\n" + host + b"Range: bytes=2-4\r\n",
        "middle": b"GET /middle.bin HTTP/1.1\r\n" + host,
        "none": b"GET /none HTTP/1.1\r\n" + host,
        "post": b"POST /small.txt HTTP/1.1\r\n" + host + b"Content-Length: 5\r\n",
        "long": b"GET /small.txt HTTP/1.1\r\n" + host + b"X-Long: " + b"y" * 1100 + b"\r\n",
        "old": b"GET /small.txt HTTP/1.0\r\n",
        "bad": b"GET /small.txt HTTP/1.1\r\nno field\r\n",
    }[kind]
    body = b"12345" if kind == "post" else b""
    return get + last + b"\r\n" + body, kind == "head", closes or kind in ("old", "bad")


class Plan:
    """What a client does, but for the wire."""

    def __init__(self, seed, number, tags):
        draw = random.Random(f"{seed} {number}")
        self.options = draw.choices(["linux", "apple", "bare", "windows", "short"], [45, 15, 20, 15, 5])[0]
        self.requests, self.heads = [], []
        count = draw.choices([1, 2, 3, 6, 12], [30, 20, 20, 20, 10])[0]
        for at in range(count):
            closes = at == count - 1 and draw.random() < 0.5
            kind = draw.choices(list(KINDS), KINDS.values())[0]
            text, is_head, is_last = request_of(kind, closes, draw)
            for bytes_, tag in tags.items():
                text = text.replace(TAG % bytes_ + b"\r\n", tag + b"\r\n")
            self.requests.append(text)
            self.heads.append(is_head)
            if is_last:
                break
        self.server_ends = is_last
        # How many responses it waits for before it sends the next request: all, or it sends all at once, or something between.
        self.ahead = draw.choices([0, 1, 100], [60, 20, 20])[0]
        self.cuts = draw.choices(["requests", "random", "merged"], [65, 20, 15])[0]
        self.resets_after = draw.randrange(len(self.requests) + 1) if draw.random() < 0.15 else None
        self.fin_rides = draw.random() < 0.3
        self.window = draw.choices([65535, 3000, 300], [85, 10, 5])[0]
        self.is_bad_wire = draw.random() < 0.6
        self.probes = draw.random() < 0.1
        self.seed = draw.random()
        self.six = draw.random() < 0.5
        # From one end to the other, of a wire that is not bad: there every segment arrives, in order.
        self.delay = 0 if self.is_bad_wire else draw.choice([0, 0.01, 0.02])
