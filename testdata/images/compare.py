#!/usr/bin/env python3
"""Converts images and compares what microfs makes of them with what umoci does.

  compare.py PROGRAM FOLDER SIZE [--tag TAG]

FOLDER and SIZE as for make.py, which is called. Each image is converted, checked, extracted and mounted; the extracted
and the mounted tree must be what `umoci unpack` makes of the source: names, types, modes, owners, sizes, times to the
nanosecond, hard links, devices, extended attributes, content. The image with everything is also converted from
uncompressed and zstd layers, from a docker archive and from an archived layout, which must give the same blobs. Needs
root.
"""
import argparse
import json
import os
import shutil
import time

import make
from layout import manifest
from trees import data_runs, differences, snapshot
from work import must_be_root, require, run, workplace

TAGS = ("made", "derived", "built", "changed", "sibling")

# Differences that are umoci's own doing: image -> (path, attribute) -> why. Each must occur.
NOT_IN_TAR = "no layer has this directory: umoci makes it and leaves the time of unpacking, microfs gives it time 0"
UMOCI = {
    "made": {
        (b"srv/t", "mtime"): "umoci puts the time back after most changes, not when it makes missing parents in it",
        (b"srv/t/made", "mtime"): NOT_IN_TAR,
        (b"srv/t/made/on", "mtime"): NOT_IN_TAR,
        (b"srv/t/made/on/the", "mtime"): NOT_IN_TAR,
        (b"srv/t/made/on/the/way", "mtime"): NOT_IN_TAR,
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("size", choices=make.PACKAGES)
    parser.add_argument("--tag", action="append", choices=TAGS, help="only these images")
    arguments = parser.parse_args()
    must_be_root()
    os.umask(0o022)
    folder = os.path.abspath(arguments.folder)
    layout = make.make(arguments.size, folder)
    with workplace(folder) as place:
        comparison = Comparison(os.path.abspath(arguments.program), layout, place)
        for tag in arguments.tag or TAGS:
            comparison.image(tag)
        if "made" in (arguments.tag or TAGS):
            comparison.other_forms()
    print("images: all the same")


class Comparison:
    """Compares the images of one layout."""

    def __init__(self, program, layout, place):
        self.program, self.layout, self.place = program, layout, place
        self.out = os.path.join(place, "out")

    def microfs(self, *words):
        return run(self.program, *words)

    def image(self, tag):
        begun = time.monotonic()
        source, image = "%s:%s" % (self.layout, tag), "%s:%s" % (self.out, tag)
        report = json.loads(self.microfs("convert", "--json", source, image))
        require(len(report["layers"]) == len(manifest(self.layout, tag)["layers"]), "%s: %s", tag, report)
        self.microfs("check", "-q", image)
        bundle = os.path.join(self.place, "umoci")
        run("umoci", "unpack", "--image", source, bundle)
        wanted = snapshot(os.path.join(bundle, "rootfs"))
        shutil.rmtree(bundle)
        require(len(wanted) > 1500, "umoci unpacked only %d names", len(wanted))
        extracted = os.path.join(self.place, "extracted")
        self.microfs("extract", "-q", "--strict", image, extracted)
        compare(tag, "extracted", wanted, snapshot(extracted))
        mounted = os.path.join(self.place, "mounted")
        os.makedirs(mounted, exist_ok=True)
        self.microfs("mount", image, mounted)
        compare(tag, "mounted", wanted, snapshot(mounted))
        holes(tag, mounted, extracted)
        self.microfs("umount", mounted)
        shutil.rmtree(extracted)
        print("images: %s: %d names, %.0f s" % (tag, len(wanted), time.monotonic() - begun), flush=True)

    def other_forms(self):
        """Layers are made of archives, however these were compressed and whatever they are in."""
        made = self.layout + ":made"
        docker, tar = os.path.join(self.place, "docker.tar"), os.path.join(self.place, "oci.tar")
        run("skopeo", "copy", "--quiet", "oci:" + made, "docker-archive:%s:example.test/image:made" % docker)
        run("skopeo", "copy", "--quiet", "oci:" + made, "oci-archive:%s:made" % tar)
        wanted = [layer["digest"] for layer in manifest(self.out, "made")["layers"]]
        sources = [self.layout + "-plain:made", self.layout + "-zstd:made", docker, tar + ":made"]
        for number, source in enumerate(sources):
            out = os.path.join(self.place, "other%d" % number)
            self.microfs("convert", "-q", source, out + ":made")
            layers = [layer["digest"] for layer in manifest(out, "made")["layers"]]
            require(layers == wanted, "layers of %s are %s, not %s", source, layers, wanted)
            shutil.rmtree(out)
        print("images: made: the same layers from %d other forms" % len(sources))


def compare(tag, name, wanted, got):
    allowed = UMOCI.get(tag, {})
    found = differences(wanted, got)
    left = [difference for difference in found if difference[:2] not in allowed]
    for path, attribute, old, new in left[:50]:
        print("%s %s: %r: %s is %r, umoci has %r" % (tag, name, path, attribute, new, old))
    require(not left, "%s: %d differences", tag, len(left))
    unused = allowed.keys() - {difference[:2] for difference in found}
    require(not unused, "%s: no longer different, so no longer allowed: %s", tag, sorted(unused))


def holes(tag, mounted, extracted):
    """Holes of files that GNU tar stored as sparse; umoci fills them."""
    if tag != "made":
        return
    expected = {"srv/t/tar/only-a-hole": []}
    for path in ("srv/t/tar/sparse", "srv/t/sparse"):
        count = 9 if "tar" in path else 3
        step = os.stat(os.path.join(mounted, path)).st_size // count
        expected[path] = [(number * step & ~4095, (number * step & ~4095) + 4096) for number in range(count)]
    for path, wanted in expected.items():
        for root in (mounted, extracted):
            runs = data_runs(os.path.join(root, path))
            require(runs == wanted, "%s: data at %s, not at %s", os.path.join(root, path), runs, wanted)


if __name__ == "__main__":
    main()
