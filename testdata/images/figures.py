#!/usr/bin/env python3
"""Measures the conversion of the large image: figures.py PROGRAM FOLDER [SIZE]

From uncompressed, gzip and zstd layers: time, memory, sizes. Fails when a conversion needs more memory than promised.
"""
import argparse
import os
import re

import make
from layout import layer_tar, manifest
from work import must_be_root, require, run, workplace

PROMISED_KIB = 300 * 1024
LAYERS = (("none", "-plain"), ("gzip", ""), ("zstd", "-zstd"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("size", nargs="?", choices=make.PACKAGES, default="large")
    arguments = parser.parse_args()
    must_be_root()
    folder = os.path.abspath(arguments.folder)
    layout = make.make(arguments.size, folder)
    program = os.path.abspath(arguments.program)
    print("layers   wall s   user s  sys s  cores  peak MiB  source MiB  microfs MiB")
    with workplace(folder) as place:
        for name, suffix in LAYERS:
            source, out = layout + suffix, os.path.join(place, name)
            report = os.path.join(place, "time")
            run("/usr/bin/time", "-v", "-o", report, program, "convert", "-q", source + ":made", out + ":made")
            wall, user, system, memory = measured(report)
            print("%-6s %8.1f %8.1f %6.1f %6.2f %9.0f %11.1f %12.1f" % (
                name, wall, user, system, (user + system) / wall, memory / 1024,
                size(source) / 2**20, size(out) / 2**20), flush=True)
            require(memory < PROMISED_KIB, "%s layers: %d KiB of memory", name, memory)
    with_content(layout)


def measured(path):
    """Wall, user and system time in seconds, and the largest resident set in KiB."""
    with open(path, encoding="utf-8") as file:
        report = file.read()
    wall = re.search(r"Elapsed .*: (.*)", report)[1]
    seconds = 0.0
    for part in wall.split(":"):
        seconds = seconds * 60 + float(part)
    user = float(re.search(r"User time .*: (.*)", report)[1])
    system = float(re.search(r"System time .*: (.*)", report)[1])
    return seconds, user, system, int(re.search(r"Maximum resident set size .*: (.*)", report)[1])


def size(layout):
    return sum(layer["size"] for layer in manifest(layout, "made")["layers"])


def with_content(layout):
    """How much there is to convert."""
    files = plain = 0
    for descriptor in manifest(layout, "made")["layers"]:
        with layer_tar(layout, descriptor) as archive:
            for entry in archive:
                files += 1
                plain += entry.size
    print("%d entries, %.1f MiB of content with the holes" % (files, plain / 2**20))


if __name__ == "__main__":
    main()
