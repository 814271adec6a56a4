"""Commands, mounts and processes of the tests. All is in namespaces of their own: see run.sh."""
import contextlib
import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

PROGRAM = os.environ["MICROFS_BIN"]
WORK = Path(os.environ["WORK"])
# Begins the names of containers, and so of control groups: run.sh removes those.
NAME = WORK.name

# Seconds in which any single command is done, on a slow machine too.
PATIENCE = 120


def need(**packages):
    """Fails unless every program is there; the values are the Debian packages that have them."""
    for program, package in packages.items():
        program = program.replace("_", "-")
        if shutil.which(program) is None:
            raise RuntimeError(f"the program {program} is missing: install the package {package}")


def texts(words):
    return [os.fspath(word) for word in words]


def run(*words, code=0, **options):
    """Runs a command and gives its standard output; any other exit code fails the test."""
    words = texts(words)
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=PATIENCE, **options)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"{words}: not done in {PATIENCE} s\n{late.stdout}\n{late.stderr}") from None
    out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    if done.returncode != code:
        raise AssertionError(f"{words}: code {done.returncode}, not {code}\n--- output\n{out}\n--- errors\n{err}")
    return out


def refused(*words, code=1, **options):
    """Runs a command that fails and gives its standard error."""
    done = subprocess.run(texts(words), stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, **options)
    if done.returncode != code:
        raise AssertionError(f"{words}: code {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}")
    return done.stderr.decode(errors="replace")


def microfs(*words, **options):
    return run(PROGRAM, *words, **options)


def mounts():
    """Mount points and types of this namespace, oldest first."""
    found = []
    with open("/proc/self/mountinfo", "rb") as lines:
        for line in lines:
            fields = line.split(b" ")
            found.append((fields[4], fields[fields.index(b"-") + 1]))
    return found


def processes():
    """Command lines of all processes, by number; this one and those that end are left out."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat", "rb") as file:
                state = file.read().rsplit(b")", 1)[1].split()[0]
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().replace(b"\0", b" ").decode(errors="replace")
            if state != b"Z":
                found[int(name)] = words
    return found


def wait_until(is_so, what):
    for _ in range(3000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError(f"after 30 s: {what()}")


class Case(unittest.TestCase):
    """A test with a directory of its own, `self.dir`. It ends without mounts and processes of its own."""

    maxDiff = None

    def setUp(self):
        started = time.monotonic()
        self.dir = WORK / self.id().rsplit(".", 1)[1]
        self.dir.mkdir()
        self.addCleanup(lambda: print(f"{time.monotonic() - started:.1f} s ", end="", file=sys.stderr))
        self.addCleanup(shutil.rmtree, self.dir)
        before = mounts()
        self.addCleanup(self.check_nothing_is_left, before, set(processes()))

    def check_nothing_is_left(self, before, running):
        left = mounts()[len(before):]
        # Each is taken down by what made it, if all goes well; never hide a failure behind this one.
        for point, _ in reversed(left):
            subprocess.run(["umount", "-l", point], check=False)
        self.assertEqual(left, [], "mounts are left")

        def fresh():
            return {number: words for number, words in processes().items() if number not in running}
        try:
            wait_until(lambda: not fresh(), lambda: f"processes are left: {fresh()}")
        finally:
            for number in fresh():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, 9)

    @contextlib.contextmanager
    def mounted(self, *options, image, at=None):
        """An image on a directory while in here."""
        at = at or self.dir / "mount"
        at.mkdir(exist_ok=True)
        microfs("mount", *options, image, at)
        try:
            yield at
        except BaseException:
            # The first failure counts.
            subprocess.run([PROGRAM, "umount", "--lazy", at], check=False)
            raise
        microfs("umount", at)
