#!/usr/bin/env python3
"""Makes OCI images with the tools that people use: make.py small|large FOLDER [--archive TAR]

No registry: Debian comes from mmdebstrap, layers from umoci, buildah, GNU tar and `handmade.py`. FOLDER/SIZE is an
image layout; its tags:

  base      Debian and `recipe.first`
  changed   + what `recipe.second` did, as `umoci repack` saw it
  inserted  + an opaque directory and a whiteout by `umoci insert`
  derived   base + `buildah run` and `buildah commit`
  made      inserted + a layer of GNU tar + a layer by hand: the one with everything
  sibling   changed + one more file, for two images that share layers
  built     buildah alone: from scratch, add, commit, run, commit

FOLDER/SIZE-plain and FOLDER/SIZE-zstd have `made` with uncompressed and zstd layers. What is there already, made by the
same recipe, is kept. Needs root, and the first time a Debian mirror: DEMO_MIRROR, or mmdebstrap's own.
"""
import argparse
import hashlib
import os
import shutil

import features
import handmade
import recipe
from work import give_back, must_be_root, require, run, workplace

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = {
    "small": ("extract", "busybox-static,base-files,base-passwd,tzdata,libc-bin"),
    "large": ("minbase", "gcc,python3,perl,nodejs,npm,tzdata"),
}
SUITE = "bookworm"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=PACKAGES)
    parser.add_argument("folder")
    parser.add_argument("--archive", help="the Debian root filesystem to use instead of a new one")
    arguments = parser.parse_args()
    must_be_root()
    os.umask(0o022)
    make(arguments.size, os.path.abspath(arguments.folder), arguments.archive)


def make(size, folder, archive=None):
    """Makes what is not there yet, and returns the layout."""
    layout = os.path.join(folder, size)
    stamp = layout + ".made"
    wanted = recipe_digest()
    if os.path.exists(stamp):
        with open(stamp, encoding="ascii") as file:
            if file.read() == wanted:
                return layout
        os.unlink(stamp)
    for old in (layout, layout + "-plain", layout + "-zstd"):
        shutil.rmtree(old, ignore_errors=True)
    with workplace(folder) as place:
        archive = archive or debian(size, folder)
        Maker(size, layout, place).all(archive)
    features.require_all(layout, size)
    with open(stamp, "w", encoding="ascii") as file:
        file.write(wanted)
    give_back(folder)
    return layout


def recipe_digest():
    """Of all that decides what the images are like."""
    digest = hashlib.sha256()
    for name in ("make.py", "recipe.py", "handmade.py", "features.py"):
        with open(os.path.join(HERE, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def debian(size, folder):
    """The archive of a Debian root filesystem, made once."""
    variant, packages = PACKAGES[size]
    archive = os.path.join(folder, size + ".tar")
    if not os.path.exists(archive):
        print("images: making a root filesystem of Debian %s" % SUITE, flush=True)
        mirror = [os.environ["DEMO_MIRROR"]] if os.environ.get("DEMO_MIRROR") else []
        run("mmdebstrap", "--quiet", "--mode=root", "--format=tar", "--variant=" + variant, "--include=" + packages,
            SUITE, archive + ".new", *mirror)
        os.rename(archive + ".new", archive)
    return archive


class Maker:
    """Makes the images of one size."""

    def __init__(self, size, layout, place):
        self.big = size == "large"
        self.layout, self.place = layout, place
        storage = os.path.join(place, "storage")
        self.buildah_options = ["--root", storage, "--runroot", os.path.join(place, "run"), "--storage-driver", "vfs"]

    def all(self, archive):
        print("images: making %s" % self.layout, flush=True)
        run("umoci", "init", "--layout", self.layout)
        run("umoci", "new", "--image", self.image("base"))
        self.repack("base", "base", lambda root: self.fill(root, archive))
        self.repack("base", "changed", lambda root: recipe.second(root, self.big))
        self.insert()
        self.derive()
        self.add_layers()
        self.build(archive)
        run("umoci", "gc", "--layout", self.layout)
        self.other_compressions()

    def image(self, tag):
        return "%s:%s" % (self.layout, tag)

    def path(self, name):
        return os.path.join(self.place, name)

    def fill(self, root, archive):
        run("tar", "--extract", "--file", archive, "--directory", root, "--numeric-owner", "--preserve-permissions",
            "--xattrs", "--xattrs-include=*")
        recipe.first(root, self.big)

    def repack(self, old, new, change):
        bundle = self.path("bundle")
        run("umoci", "unpack", "--image", self.image(old), bundle)
        change(os.path.join(bundle, "rootfs"))
        run("umoci", "repack", "--image", self.image(new), bundle)
        shutil.rmtree(bundle)

    def insert(self):
        tree = recipe.Tree(self.place, 4)
        tree.many("visible", 6)
        tree.file("one", 500)
        run("umoci", "insert", "--image", self.image("changed"), "--tag", "inserted", "--opaque", self.path("visible"),
            "/srv/t/hidden")
        run("umoci", "insert", "--image", self.image("inserted"), "--whiteout", "/srv/t/untouched/f7")
        run("umoci", "insert", "--image", self.image("changed"), "--tag", "sibling", self.path("one"), "/srv/t/one")

    def buildah(self, *words):
        return run("buildah", *self.buildah_options, *words).decode().strip()

    def in_container(self, container, script):
        shell = ["/bin/sh"] if self.big else ["/bin/busybox", "sh"]
        self.buildah("run", "--isolation", "chroot", "--user", "0:0", container, "--", *shell, "-euc", script)

    def derive(self):
        """A layer of buildah's on top of umoci's. On `changed` it fails: whiteouts below what is no directory."""
        container = self.buildah("from", "oci:" + self.image("base"))
        box = "" if self.big else "/bin/busybox "
        self.in_container(container, CHANGES.replace("BOX ", box))
        self.buildah("commit", "--disable-compression=false", "--format", "oci", "--rm", container,
                     "oci:" + self.image("derived"))
        self.buildah("rmi", "--all", "--force")

    def add_layers(self):
        tar = self.path("layer.tar")
        handmade.gnu_layer(self.path("tar"), tar, self.big)
        run("umoci", "raw", "add-layer", "--image", self.image("inserted"), "--tag", "made", tar)
        handmade.last_layer(tar)
        run("umoci", "raw", "add-layer", "--image", self.image("made"), tar)
        shutil.rmtree(self.path("tar"))
        os.unlink(tar)

    def build(self, archive):
        """An image that buildah made alone, of three layers."""
        tar = self.path("add.tar")
        shutil.copyfile(archive, tar)
        container = self.buildah("from", "scratch")
        self.buildah("add", container, tar, "/")
        os.unlink(tar)
        box = "" if self.big else "/bin/busybox "
        steps = [None, BUILD_1, BUILD_2]
        for number, step in enumerate(steps):
            if step:
                self.in_container(container, step.replace("BOX ", box))
            last = number == len(steps) - 1
            # Only a commit to the storage can be built upon.
            where = "oci:" + self.image("built") if last else "step%d" % number
            self.buildah("commit", "--disable-compression=false", "--format", "oci", "--rm", container, where)
            if not last:
                container = self.buildah("from", "--pull-never", "localhost/step%d" % number)
        self.buildah("rmi", "--all", "--force")

    def other_compressions(self):
        flat = self.path("flat")
        run("skopeo", "copy", "--quiet", "--dest-decompress", "oci:" + self.image("made"), "dir:" + flat)
        for name, options in (("plain", ["--dest-oci-accept-uncompressed-layers"]),
                              ("zstd", ["--dest-compress-format", "zstd"])):
            layout = "%s-%s" % (self.layout, name)
            run("skopeo", "copy", "--quiet", *options, "dir:" + flat, "oci:%s:made" % layout)
        require(os.path.isdir(layout), "skopeo made no %s", layout)


# Run by a shell in the image; BOX stands before what a shell does not do itself.
CHANGES = """
cd /srv/t
BOX rm -r again; BOX mkdir again; echo again >again/file
BOX mv untouched/deep renamed
BOX ln links/kept-0 links/by-buildah
BOX chmod 4711 large
BOX chown 12:34 names
BOX ln -s ../real links/to-real
BOX rm -r types/dir-dir; echo x >types/dir-dir
BOX touch -d '2001-02-03 04:05:06' empty
"""
BUILD_1 = """
BOX mkdir -p /srv/b/one /srv/b/two /srv/b/three
cd /srv/b
for i in 1 2 3 4 5 6 7 8 9; do echo $i >one/$i; echo $i >two/$i; echo $i >three/$i; done
BOX ln one/1 one/linked; BOX ln one/1 two/linked; BOX ln -s one to-one
BOX chmod 2750 two; BOX chown 1000:2000 three
BOX rm -r /usr/share/zoneinfo/Asia
"""
BUILD_2 = """
cd /srv/b
BOX rm -r one; BOX mkdir one; echo new >one/1
BOX rm -r three; echo file >three
BOX rm to-one; BOX mkdir to-one; echo dir >to-one/file
BOX rm two/linked two/3
BOX mkfifo fifo
"""


if __name__ == "__main__":
    main()
