#!/usr/bin/env python3
"""Files that change while a web server serves them, and clients that fetch them; see changing.sh.

    changing.py FOLDER URL FETCHES SEED

Writes documents into FOLDER, which the server at URL serves, and fetches them there while it changes them: each
response must be a whole version of its document, or a part of one, with the entity tag of that version. Prints "ok
NAME" or "not ok NAME: why" lines; ends with 1 when one was not ok.
"""

import collections
import hashlib
import http.client
import os
import random
import sys
import threading
import time
import urllib.parse

from common import PATIENCE, failed, say

FOLDER, URL, FETCHES, SEED = sys.argv[1], urllib.parse.urlparse(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
DOCUMENTS, READERS = 40, 32


def content_of(document, version):
    """A version's bytes: of random length, mostly short, sometimes long, and unlike those of any other."""
    chosen = random.Random(f"{SEED} {document} {version}")
    length = chosen.randrange(1 << chosen.randrange(19 if chosen.random() < 0.95 else 22))
    return f"{document} {version}\n".encode() + chosen.randbytes(length)


class Author(threading.Thread):
    """Changes documents in the ways in which people and programs do, until it is told to stop."""

    def __init__(self):
        super().__init__(daemon=True)
        self.random = random.Random(SEED)
        # The number of each document's newest version.
        self.newest = [0] * DOCUMENTS
        # What a response may be: the hashes of all versions, known before they are written.
        self.versions = collections.defaultdict(dict)
        # What a file was while it was written for so long that it may be taken for finished.
        self.unfinished = set()
        self.ways = collections.Counter()
        self.stopping = threading.Event()
        self.reader = Reader("the author's", self)
        for document in range(DOCUMENTS):
            self.rename(document, self.next(document))

    def next(self, document):
        version = self.newest[document] + 1
        content = content_of(document, version)
        self.versions[document][hashlib.sha256(content).digest()] = version
        self.newest[document] = version
        return content

    def path(self, document):
        return os.path.join(FOLDER, f"{document}.bin")

    def rename(self, document, content):
        """As careful programs do: a whole file takes the place of the other."""
        with open(self.path(document) + ".new", "wb") as file:
            file.write(content)
        os.rename(self.path(document) + ".new", self.path(document))

    def in_place(self, document, content):
        """As others do: the file is emptied and filled again, in some steps.

        Not before the version that it has is served: a file that is emptied in the moment in which it is read because it
        came to its name may be served empty until its writer closes it ("When a file is read" in
        docs/internals/store.md).
        """
        self.wait_until_served(document, self.newest[document] - 1)
        began, step = time.monotonic(), max(1, len(content) // 3)
        with open(self.path(document), "wb", buffering=0) as file:
            for at in range(0, len(content), step):
                file.write(content[at:at + step])
                time.sleep(self.random.random() * 0.01)
        # The server takes a file for finished that has been the same for a second, though nobody has closed it: that
        # happens to an author who waits for a processor.
        if time.monotonic() - began > 0.8:
            self.unfinished |= {hashlib.sha256(content[:at]).digest() for at in range(0, len(content), step)}

    def wait_until_served(self, document, version):
        until = time.monotonic() + PATIENCE
        while self.reader.version_of(document) != version and time.monotonic() < until:
            time.sleep(0.001)

    def link(self, document, content):
        """As a release that is switched over: a link to another file."""
        target = f"{document}-{self.newest[document]}"
        with open(os.path.join(os.path.dirname(FOLDER), "releases", target), "wb") as file:
            file.write(content)
        # Links that lead outside are not served; this one is a second name of the file.
        os.link(os.path.join(os.path.dirname(FOLDER), "releases", target), self.path(document) + ".new")
        os.rename(self.path(document) + ".new", self.path(document))

    def run(self):
        while not self.stopping.is_set():
            document = self.random.randrange(DOCUMENTS)
            way = self.random.choice([self.rename, self.in_place, self.link])
            way(document, self.next(document))
            self.ways[way.__name__] += 1
            time.sleep(self.random.random() * 0.02)


class Reader(threading.Thread):
    """Fetches documents over a connection that stands, or over new ones."""

    def __init__(self, number, author):
        super().__init__(daemon=True)
        self.random = random.Random(f"{SEED} reader {number}")
        self.author = author
        # The hash of what came, and what is wrong with it.
        self.wrong = []
        self.fetched = self.parts = self.reconnections = 0
        self.tags = {}
        self.connection = None

    def request(self, path, fields):
        """A response; once again where the connection was over, as it may be when it has idled."""
        for _ in range(5):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection(URL.hostname, URL.port or 80, timeout=PATIENCE)
                self.connection.request("GET", path, headers=fields)
                response = self.connection.getresponse()
                return response, response.read()
            except (OSError, http.client.HTTPException):
                self.connection.close()
                self.connection = None
                self.reconnections += 1
        raise OSError(f"{path} cannot be had")

    def version_of(self, document):
        """The version of a document that is served, None where it is none of them."""
        _, body = self.request(f"/{document}.bin", {})
        return self.author.versions[document].get(hashlib.sha256(body).digest())

    def fetch(self):
        document = self.random.randrange(DOCUMENTS)
        close = {"Connection": "close"} if self.random.random() < 0.2 else {}
        response, body = self.request(f"/{document}.bin", close)
        if close:
            self.connection.close()
            self.connection = None
        tag, digest = response.headers["ETag"], hashlib.sha256(body).digest()
        version = self.author.versions[document].get(digest)
        self.fetched += 1
        if response.status != 200 or version is None:
            self.wrong.append((digest, f"{response.status} for {document}.bin: {len(body)} bytes beginning with {body[:12]}"))
        elif self.tags.setdefault((document, tag), version) != version:
            self.wrong.append((None, f"{document}.bin has the tag {tag} in two versions"))
        elif len(body) > 2 and self.random.random() < 0.3:
            self.fetch_part(document, tag, version, len(body))

    def fetch_part(self, document, tag, version, length):
        """Some of the same version, if it is still the newest, as a download that is resumed."""
        first = self.random.randrange(length)
        last = min(length - 1, first + self.random.randrange(20000))
        fields = {"Range": f"bytes={first}-{last}", "If-Range": tag}
        response, body = self.request(f"/{document}.bin", fields)
        if response.status == 206:
            self.parts += 1
            if response.headers["ETag"] != tag or body != content_of(document, version)[first:last + 1]:
                self.wrong.append((None, f"{document}.bin: bytes {first} to {last} are not those of version {version}"))
        elif response.status != 200 or hashlib.sha256(body).digest() not in self.author.versions[document]:
            digest = hashlib.sha256(body).digest()
            self.wrong.append((digest, f"{response.status} for a part of {document}.bin, {len(body)} bytes"))

    def run(self):
        try:
            # As many as are asked for, and until enough has changed, on a machine that does other things too.
            while self.fetched < FETCHES // READERS or sum(self.author.ways.values()) < 4 * DOCUMENTS:
                self.fetch()
                if len(self.wrong) >= 5:
                    break
        except Exception as error:
            self.wrong.append((None, repr(error)))


def settled(author):
    """The documents of which the newest version is not what is served, when there was time for it."""
    reader = Reader(READERS, author)
    until = time.monotonic() + PATIENCE
    old = set(range(DOCUMENTS))
    while old and time.monotonic() < until:
        for document in sorted(old):
            if reader.version_of(document) == author.newest[document]:
                old.discard(document)
        time.sleep(0.1)
    return old


def main():
    author = Author()
    old = settled(author)
    say("all documents are served", not old, sorted(old))
    author.start()
    readers = [Reader(number, author) for number in range(READERS)]
    began = time.monotonic()
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    seconds = time.monotonic() - began
    author.stopping.set()
    author.join()
    wrong = [what for reader in readers for digest, what in reader.wrong if digest not in author.unfinished]
    fetched, parts = sum(reader.fetched for reader in readers), sum(reader.parts for reader in readers)
    tags = len({tag for reader in readers for tag in reader.tags})
    again = sum(reader.reconnections for reader in readers)
    say("each response is a whole version of its document", not wrong, wrong[:5])
    # Each way of changing a document was taken, and what was fetched changed between fetches.
    say("documents change meanwhile", len(author.ways) == 3 and tags > 1.5 * DOCUMENTS, f"{author.ways}, {tags} versions seen")
    say("parts of documents are those of their version", parts > 0, parts)
    old = settled(author)
    say("the last version of each document is served", not old, sorted(old))
    print(f"# {fetched} documents and {parts} parts in {seconds:.1f} s, {sum(author.ways.values())} changes, "
          f"{tags} versions seen, {again} connections that were over")
    return failed()


sys.exit(main())
