"""Running programs, and a place to work in that is gone afterwards."""
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile


def run(*command, allowed=(0,), **options):
    """Runs a command, fails loudly unless it exits with one of `allowed`, and returns what it printed."""
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(
        [os.fspath(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if done.returncode not in allowed:
        sys.stderr.buffer.write(done.stdout + done.stderr)
        raise SystemExit("exit code %d: %s" % (done.returncode, " ".join(map(str, command))))
    return done.stdout


def require(condition, message, *arguments):
    """An assertion that -O does not remove."""
    if not condition:
        raise SystemExit("FAILED: " + (message % arguments if arguments else message))


def must_be_root():
    require(os.geteuid() == 0, "only root can make and compare all kinds of files")


def stop(number, _frame):
    # As an exception, so that all clean-up runs.
    raise SystemExit(128 + number)


@contextlib.contextmanager
def workplace(parent):
    """A new directory below `parent`. On any exit what is mounted in it is taken down, and it is removed.

    What a killed program left there goes first.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    os.makedirs(parent, exist_ok=True)
    for entry in os.scandir(parent):
        if entry.name.startswith("work-") and (lock := locked(entry.path)) is not None:
            remove(entry.path)
            os.close(lock)
    place = os.path.realpath(tempfile.mkdtemp(prefix="work-", dir=parent))
    lock = locked(place)
    try:
        yield place
    finally:
        remove(place)
        os.close(lock)


def locked(path):
    """A descriptor of a directory that nobody else has locked, or nothing."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def remove(place):
    for path in reversed(mounts_below(place)):
        subprocess.run(["umount", "-l", path], check=False)
    # Never through a mount that could not be taken down.
    left = mounts_below(place)
    require(not left, "still mounted: %s", left)
    shutil.rmtree(place)


def mounts_below(place):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return [path for path in (line.split()[4] for line in table) if path.startswith(place + "/")]


def give_back(path):
    """Lets the user who called sudo remove what was made."""
    if "SUDO_UID" in os.environ:
        run("chown", "-R", "--no-dereference", "%s:%s" % (os.environ["SUDO_UID"], os.environ["SUDO_GID"]), path)
