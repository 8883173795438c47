"""What the tests' programs in Python have in common: see common.sh."""

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


def wait_until(holds):
    """Whether it holds before patience ends."""
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
