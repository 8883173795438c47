"""Hands a file cache files of a file system that does not answer when one is closed: a program's (FUSE), mounted at a folder in this namespace. Until it
is ended.

    unanswered.py SOCKET FOLDER UID
"""
import array
import ctypes
import os
import signal
import socket
import struct
import sys
import time

path, folder, uid = sys.argv[1], sys.argv[2], int(sys.argv[3])
LOOKUP, GETATTR, OPEN, FLUSH, INIT, OPENDIR = 1, 3, 14, 25, 26, 27
# linux/fuse.h: struct fuse_in_header and fuse_out_header, fuse_attr, and what INIT answers.
IN, OUT, ATTRIBUTES, STARTED = "<IIQQ", "<IiQ", "<6Q10I", "<IIIIHHIIHH8I"


def attributes(node):
    mode = 0o40755 if node == 1 else 0o100644
    return struct.pack(ATTRIBUTES, node, 100, 1, 0, 0, 0, 0, 0, 0, mode, 1, uid, uid, 0, 4096, 0)


def answer(operation, node):
    if operation == INIT:
        return struct.pack(STARTED, 7, 31, 0, 0, 8, 8, 65536, 1, 0, 0, *[0] * 8)
    if operation == LOOKUP:
        return struct.pack("<QQQQII", 2, 0, 3600, 3600, 0, 0) + attributes(2)
    if operation == GETATTR:
        return struct.pack("<QII", 3600, 0, 0) + attributes(node)
    if operation in (OPEN, OPENDIR):
        return struct.pack("<QII", 1, 0, 0)
    return None


def serve(device):
    asked = set()
    while True:
        message = os.read(device, 1 << 18)
        _, operation, request, node = struct.unpack_from(IN, message)
        if operation == FLUSH:
            asked.add(request)
            print("to be closed:", len(asked), flush=True)
            continue
        content = answer(operation, node)
        if content is not None:
            os.write(device, struct.pack(OUT, 16 + len(content), 0, request) + content)


def hand_over():
    # Else it would wait for itself when it ends.
    os.close(device)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    file = os.open(folder + "/file", os.O_RDONLY)
    kept = []
    for copies in (1, 3):
        service = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        service.connect(path)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file] * copies))]
        service.sendmsg([struct.pack("<4Q", 1, 0, 0, 0)], rights)
        kept.append(service)
    time.sleep(3600)


device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id={uid},group_id={uid}"
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"unanswered", folder.encode(), b"fuse.unanswered", 6, options.encode()):
    sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
children = []
for work in (lambda: serve(device), hand_over):
    children.append(os.fork())
    if not children[-1]:
        work()
        os._exit(1)
os.close(device)


def end(*_):
    for child in children:
        os.kill(child, signal.SIGKILL)
    os._exit(0)


signal.signal(signal.SIGTERM, end)
signal.pause()
