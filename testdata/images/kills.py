#!/usr/bin/env python3
"""Kills converts and gc at random instants on one layout: kills.py PROGRAM FOLDER

Two images that share layers are converted, over and over, while gc runs in a loop; each is killed by SIGKILL until each
of the three was hit MICROFS_KILLS times (10). After each round the layout must be whole: every tag has its old or its
new manifest, all that it needs is there, `microfs check`, skopeo and umoci agree, and no blob is torn. In the end gc
leaves nothing but what the images need, and both converts succeed. MICROFS_SEED repeats a run, but for what the
kernel's scheduler adds. FOLDER as for make.py, which is called. Needs root.
"""
import argparse
import collections
import itertools
import os
import random
import signal
import subprocess
import threading
import time

import make
from layout import tags
from valid import require_clean, require_valid
from work import must_be_root, require, run, workplace

# Tag in the layout -> image of make.py. `keep` is converted once and must never be touched.
IMAGES = {"one": "made", "two": "sibling"}
KEPT = "derived"
OPTIONS = (("-b", "128K", "-c", "zstd:9"), ("-b", "4K", "-c", "none"), ("-b", "1M", "-c", "zstd:1", "-j", "1"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    arguments = parser.parse_args()
    must_be_root()
    os.umask(0o022)
    kills = int(os.environ.get("MICROFS_KILLS") or 10)
    seed = int(os.environ.get("MICROFS_SEED") or random.SystemRandom().randrange(2**32))
    print("kills: MICROFS_SEED=%d MICROFS_KILLS=%d" % (seed, kills), flush=True)
    folder = os.path.abspath(arguments.folder)
    source = make.make("small", folder)
    with workplace(folder) as place:
        Killing(os.path.abspath(arguments.program), source, place, random.Random(seed)).all(kills)


class Killing:
    """One layout and all that happens to it."""

    def __init__(self, program, source, place, chance):
        self.program, self.source, self.chance = program, source, chance
        self.layout = os.path.join(place, "layout")
        self.reference = os.path.join(place, "reference")
        self.targets = {}
        # How long a program runs when nothing happens to it, in seconds.
        self.usual = {}
        self.hits, self.survived = collections.Counter(), collections.Counter()

    def convert(self, tag, options, layout):
        image = "%s:%s" % (self.source, KEPT if tag == "keep" else IMAGES[tag])
        return [self.program, "convert", "-q", *options, image, "%s:%s" % (layout, tag)]

    def prepare(self):
        """What each conversion gives when nobody disturbs it."""
        for options, tag in itertools.product(OPTIONS, IMAGES):
            layout = "%s-%d" % (self.reference, len(self.targets))
            for again in (False, True):
                begun = time.monotonic()
                run(*self.convert(tag, options, layout))
                self.usual[tag, options, again] = time.monotonic() - begun
            self.targets[tag, options] = tags(layout)[tag]["digest"]
        run(*self.convert("keep", OPTIONS[0], self.layout))
        begun = time.monotonic()
        run(self.program, "gc", self.layout)
        self.usual["gc"] = time.monotonic() - begun

    def all(self, kills):
        self.prepare()
        now = {"keep": tags(self.layout)["keep"]["digest"]}
        options, rounds = OPTIONS[0], 0
        while any(self.hits[name] < kills for name in (*IMAGES, "gc")):
            rounds += 1
            require(rounds <= 20 * kills, "in %d rounds only %s hits", rounds, dict(self.hits))
            for tag in IMAGES:
                # All its blobs are garbage from here on, until the conversion claims them again.
                if tag in now and self.chance.random() < 0.4:
                    run(self.program, "untag", "%s:%s" % (self.layout, tag))
                    del now[tag]
            # With the same options again all layers may be there, and the convert is over in a moment.
            if self.chance.random() < 0.6:
                options = self.chance.choice(OPTIONS)
            finished = self.round(options, now)
            wanted = {"keep": {now["keep"]}}
            for tag in IMAGES:
                target = self.targets[tag, options]
                wanted[tag] = {target} if tag in finished else {target, now.get(tag)}
            now = require_valid(self.program, self.layout, wanted)
        self.end(now)
        print("kills: %d rounds; hit: %s; done before the kill: %s" % (rounds, dict(self.hits), dict(self.survived)))

    def round(self, options, now):
        """Lets all work and be killed; the tags whose convert was faster, or was spared."""
        finished, errors = set(), []
        working = threading.Event()
        plans = {tag: self.chance.random() if self.chance.random() < 0.75 else None for tag in IMAGES}
        seed = self.chance.random()

        def guarded(work, *arguments):
            try:
                work(*arguments)
            except BaseException as error:  # pylint: disable=broad-except
                errors.append(error)

        def convert(tag):
            again = now.get(tag) == self.targets[tag, options]
            usual = self.usual[tag, options, again]
            # Long enough to be through at times.
            delay = None if plans[tag] is None else plans[tag] * 1.2 * usual
            began = time.monotonic()
            if not self.killed(tag, self.convert(tag, options, self.layout), delay):
                finished.add(tag)
                # The machine is shared with the other programs.
                self.usual[tag, options, again] = (usual + time.monotonic() - began) / 2

        def collect():
            chance = random.Random(seed)
            while not working.is_set():
                delay = chance.random() * 1.2 * self.usual["gc"] if chance.random() < 0.5 else None
                self.killed("gc", [self.program, "gc", self.layout], delay)

        converts = [threading.Thread(target=guarded, args=(convert, tag)) for tag in IMAGES]
        collector = threading.Thread(target=guarded, args=(collect,))
        for thread in (*converts, collector):
            thread.start()
        for thread in converts:
            thread.join()
        working.set()
        collector.join()
        if errors:
            raise errors[0]
        return finished

    def killed(self, name, command, delay):
        """Whether a program was still running when its time was over."""
        with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            try:
                output, _ = process.communicate(timeout=delay)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            except BaseException:
                process.kill()
                raise
        if process.returncode == -signal.SIGKILL:
            self.hits[name] += 1
            return True
        require(process.returncode == 0, "%s: exit code %d: %s", command, process.returncode, output)
        self.survived[name] += delay is not None
        return False

    def end(self, now):
        """Afterwards all is as if nothing had happened."""
        run(self.program, "gc", self.layout)
        require_clean(self.layout)
        wanted = {"keep": {now["keep"]}}
        for tag in IMAGES:
            run(*self.convert(tag, OPTIONS[0], self.layout))
            wanted[tag] = {self.targets[tag, OPTIONS[0]]}
        require_valid(self.program, self.layout, wanted)
        run(self.program, "gc", self.layout)
        require_clean(self.layout)


if __name__ == "__main__":
    main()
