"""What the tests' programs in Python have in common: see common.sh."""

import os
import signal
import sys
import time

# What must happen comes within this many seconds, whatever else the machine does.
PATIENCE = 60
failures = 0


def say(name, good, why=""):
    global failures
    failures += not good
    print(f"ok {name}" if good else f"not ok {name}: {why}", flush=True)


def failed():
    """Whether anything that was said was not good."""
    return failures > 0


def wait_until(holds, patience=PATIENCE):
    """Whether it holds before patience ends."""
    until = time.monotonic() + patience
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def asleep(thread):
    """Whether it waits, and not for Python, which it would not do for so long without a turn."""
    def seen():
        with open(f"/proc/self/task/{thread}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return lines["State"].split()[0], lines["voluntary_ctxt_switches"]
    try:
        before = seen()
        time.sleep(0.05)
        return before[0] == "S" and before == seen()
    except (FileNotFoundError, ProcessLookupError):  # It has ended.
        return False


def statistics_of(pid, path):
    """What the counters of a server are now, which appends a line of statistics to the file for each SIGUSR1."""
    import json  # Most programs do not need it, and it takes as long as they do.
    before = os.path.getsize(path)
    os.kill(pid, signal.SIGUSR1)
    for _ in range(PATIENCE * 50):
        time.sleep(0.02)
        with open(path) as file:
            file.seek(before)
            text = file.read()
        if text.endswith("\n"):
            report = json.loads(text.splitlines()[-1])
            gauges = {name: report[name] for name in ("connections", "time_wait_connections", "proxy_tunnels_open") if name in report}
            return report["counters"] | gauges
    sys.exit(f"not ok {os.path.basename(sys.argv[0])}: the server gives no statistics")
