#!/usr/bin/env python3
"""Kills microfs before each system call that changes a layout: everycall.py PROGRAM FOLDER [--all]

strace sends the SIGKILL, so each point of convert, tag, untag and gc is met: before the first renameat, the second, ...
until the program ends unharmed. After each the layout must be whole, gc must clear it up, and the same command, said
again, must do its work. --all adds the calls that only open files and write data. Needs root, as make.py does.
"""
import argparse
import os
import shutil
import signal
import subprocess

from handmade import Layer
from layout import tags
from valid import require_clean, require_valid
from work import must_be_root, require, run, workplace

CHANGING = ("renameat", "renameat2", "unlinkat", "mkdirat", "linkat", "fsync", "fdatasync", "flock", "ftruncate")
MORE = ("openat", "write", "pwrite64", "copy_file_range", "close")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    must_be_root()
    os.umask(0o022)
    with workplace(os.path.abspath(arguments.folder)) as place:
        points = EveryCall(os.path.abspath(arguments.program), place).all(CHANGING + MORE * arguments.all)
    print("everycall: killed at " + ", ".join("%d points of %s" % (number, name) for name, number in points.items()))


class EveryCall:
    """A layout with images and some garbage, copied for each kill."""

    def __init__(self, program, place):
        self.program, self.place = program, place
        self.source = os.path.join(place, "source")
        self.initial = os.path.join(place, "initial")
        self.layout = os.path.join(place, "layout")

    def prepare(self):
        """Three small images with a layer in common, `old`, `new` and `other`, and what their conversions are."""
        run("umoci", "init", "--layout", self.source)
        run("umoci", "new", "--image", self.source + ":empty")
        for number, (base, tag) in enumerate((("empty", "old"), ("old", "new"), ("old", "other"))):
            tar = os.path.join(self.place, "layer.tar")
            layer = Layer(tar)
            layer.add("file%d" % number, data=b"content %d" % number * 5000)
            layer.archive.close()
            run("umoci", "raw", "add-layer", "--image", "%s:%s" % (self.source, base), "--tag", tag, tar)
        for tag in ("old", "new", "other"):
            self.microfs("convert", "-q", "%s:%s" % (self.source, tag), "%s:%s" % (self.initial, tag))
        digests = [tags(self.initial)[tag]["digest"] for tag in ("old", "new", "other")]
        # `kept` and `moved` are the old image; of the new one only the blobs are left.
        for tag in ("kept", "moved"):
            self.microfs("tag", self.initial + ":old", tag)
        for tag in ("old", "new"):
            self.microfs("untag", "%s:%s" % (self.initial, tag))
        return digests

    def microfs(self, *words):
        return run(self.program, *words)

    def all(self, calls):
        old, new, other = self.prepare()
        moved = self.layout + ":moved"
        commands = {
            # Name -> command, and which image `moved` is afterwards.
            "convert": (["convert", "-q", "-j", "1", self.source + ":new", moved], new),
            "convert to a new layout": (["convert", "-q", "-j", "1", self.source + ":new", moved], new),
            "tag": (["tag", self.layout + ":other", "moved"], other),
            "untag": (["untag", moved], None),
            "gc": (["gc", self.layout], old),
        }
        points = {}
        for name, (command, result) in commands.items():
            fresh = name == "convert to a new layout"
            before = {} if fresh else {"kept": {old}, "moved": {old}, "other": {other}}
            points[name] = sum(self.each(call, command, fresh, before, result) for call in calls)
            require(points[name] > 3, "%s was killed at %d points only", name, points[name])
        return points

    def each(self, call, command, fresh, before, result):
        """Kills a command before its first, second, ... call; how often there was one."""
        number = 0
        while True:
            shutil.rmtree(self.layout, ignore_errors=True)
            if not fresh:
                shutil.copytree(self.initial, self.layout)
            if not self.killed(command, call, number + 1):
                return number
            number += 1
            self.recover(command, before, result)

    def killed(self, command, call, number):
        """Whether strace killed the program before call `number` of this name in a thread."""
        # An unknown call of this architecture is no error: it has none such.
        trace = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", "trace=?" + call,
                 "-e", "inject=?%s:signal=SIGKILL:when=%d" % (call, number)]
        done = subprocess.run([*trace, self.program, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        # strace ends as the program did.
        if done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):
            return True
        require(done.returncode == 0, "%s: exit code %d: %s", command, done.returncode, done.stdout)
        return False

    def recover(self, command, before, result):
        """Nothing is lost; gc clears up; the command works."""
        after = {tag: digests for tag, digests in before.items() if tag != "moved"}
        if result is not None:
            after["moved"] = {result}
        either = {tag: set(digests) for tag, digests in before.items()}
        either["moved"] = before.get("moved", {None}) | {result}
        if os.path.exists(os.path.join(self.layout, "oci-layout")):
            now = require_valid(self.program, self.layout, either)
            self.microfs("gc", self.layout)
            require_clean(self.layout)
            require(require_valid(self.program, self.layout, either) == now, "gc changed a tag")
            if command[0] == "untag" and "moved" not in now:
                return
        else:
            require(not before, "oci-layout is gone")
        self.microfs(*command)
        require_valid(self.program, self.layout, after)


if __name__ == "__main__":
    main()
