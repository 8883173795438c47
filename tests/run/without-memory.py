#!/usr/bin/env python3
"""A program has the memory of shared sockets once it has to do with a network socket, or is about to lose the right to it, and so have its
forks; one that it starts has to do with them itself. It imports nothing that makes epoll sets, as
`socket` and `subprocess` do."""
import _socket as socket
import ctypes
import errno
import os
import sys
import threading


def has():
    with open("/proc/self/maps") as maps:
        return "/memfd:exos-run" in maps.read()


libc = ctypes.CDLL(None, use_errno=True)


def fails_as_the_kernel_says():
    """An address that cannot be read is the kernel's to refuse."""
    unix = socket.socket(socket.AF_UNIX)
    for call in (libc.bind, libc.connect):
        assert call(unix.fileno(), ctypes.c_void_p(8), 16) == -1 and ctypes.get_errno() == errno.EFAULT, call
    unix.close()


def child(does):
    """Whether a fork has it after that."""
    pid = os.fork()
    if pid == 0:
        does()
        os._exit(0 if has() else 7)
    return {0: True, 7: False}[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]


if len(sys.argv) > 1:
    sys.exit(7 if has() else 0)
assert not has()
socket.socket(socket.AF_UNIX).close()
fails_as_the_kernel_says()
assert os.spawnlp(os.P_WAIT, "true", "true") == 0
assert not has()
assert not child(lambda: None) and child(socket.socket) and child(lambda: os.setgid(os.getgid()))
NUMBERS = {"x86_64": (157, 117, 317), "aarch64": (167, 147, 277)}
PR_SET_NAME, PR_SET_SECCOMP = 15, 22
by_prctl, by_setresuid, by_seccomp = NUMBERS[os.uname().machine]
assert not child(lambda: libc.prctl(PR_SET_NAME, b"name")) and not child(lambda: libc.syscall(by_prctl, PR_SET_NAME, b"name"))
assert child(lambda: libc.prctl(PR_SET_SECCOMP, 2, None)) and child(lambda: libc.syscall(by_prctl, PR_SET_SECCOMP, 2, None))
assert child(lambda: libc.setfsuid(-1)) and child(lambda: libc.setfsgid(-1))
assert child(lambda: libc.syscall(by_setresuid, -1, -1, -1)) and child(lambda: libc.syscall(by_seccomp, 1, 0, None))
assert not has()
# Threads that begin while others fork.
failed = []


def begins():
    socket.socket().close()


def forks():
    if os.spawnlp(os.P_WAIT, "true", "true"):
        failed.append("true")


threads = [threading.Thread(target=forks if n % 2 else begins) for n in range(40)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not failed and has() and child(lambda: None)
fails_as_the_kernel_says()
assert os.spawnl(os.P_WAIT, sys.executable, "python3", __file__, "again") == 0
