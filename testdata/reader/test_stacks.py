"""Random stacks that the program in MICROFS_BIN converts from tar layers: its own view against this reader's.

SEED=N makes all stacks from seed N; STACKS=N makes so many."""
import hashlib
import io
import json
import os
import random
import stat
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

from layer import KINDS, REGULAR, SYMLINK
from microfs_reader import Layer, Stack, check, list_stack

BIN = os.environ.get("MICROFS_BIN")
SEED = int(os.environ.get("SEED", 1))
STACKS = int(os.environ.get("STACKS", 150))
NAMES = ["a", "b", "c", "d"]


def some_path(rng, depth=3):
    return "/".join(rng.choice(NAMES) for _ in range(rng.randint(1, depth)))


def some_layer(rng):
    """A tar archive with anything that a layer may have, also what makes little sense."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        names = []
        for _ in range(rng.randint(1, 8)):
            path = some_path(rng)
            member = tarfile.TarInfo(path)
            member.mode, member.mtime = rng.choice([0o755, 0o644, 0o600]), rng.randint(0, 99)
            member.uid = rng.randint(0, 2)
            sort = rng.choice(["file"] * 4 + ["directory"] * 3 + ["link"] * 3 + ["hard", "whiteout", "whiteout", "opaque"])
            data = b""
            if sort == "file":
                data = bytes(rng.choice(b"xyz") for _ in range(rng.randint(0, 20)))
            elif sort == "directory":
                member.type = tarfile.DIRTYPE
            elif sort == "link":
                member.type = tarfile.SYMTYPE
                up = rng.choice(["", "", "/", "../", "./"])
                member.linkname = up + some_path(rng, 2)
            elif sort == "hard":
                member.type = tarfile.LNKTYPE
                member.linkname = rng.choice(names) if names and rng.random() < 0.5 else some_path(rng)
            elif sort == "whiteout":
                head, _, name = path.rpartition("/")
                member.name = f"{head}/.wh.{name}" if head else f".wh.{name}"
            else:
                member.name = f"{path}/.wh..wh..opq"
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
            names.append(path)
    return raw.getvalue()


def listing(layer):
    """What a failure shows of a layer."""
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        members = [f"{member.name} {member.type.decode()} {member.linkname}".rstrip() for member in archive]
    return "\nlayer: " + ", ".join(members)


class Source:
    """An OCI layout with tar layers."""

    def __init__(self, folder, layers):
        self.folder = Path(folder)
        (self.folder / "blobs/sha256").mkdir(parents=True)
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        descriptors = [self.add(layer, "application/vnd.oci.image.layer.v1.tar") for layer in layers]
        rootfs = {"type": "layers", "diff_ids": [descriptor["digest"] for descriptor in descriptors]}
        config = self.add_json({"os": "linux", "architecture": "amd64", "config": {}, "rootfs": rootfs},
                               "application/vnd.oci.image.config.v1+json")
        manifest = self.add_json({"schemaVersion": 2, "config": config, "layers": descriptors},
                                 "application/vnd.oci.image.manifest.v1+json")
        manifest["annotations"] = {"org.opencontainers.image.ref.name": "t"}
        index = {"schemaVersion": 2, "manifests": [manifest]}
        (self.folder / "index.json").write_text(json.dumps(index))

    def add(self, data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (self.folder / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    def add_json(self, value, kind):
        return self.add(json.dumps(value).encode(), kind)


def unescape(text):
    return text.encode().decode("unicode_escape").encode("latin-1")


def of_dump(text):
    """Path -> (kind, permissions, uid, links, time, target or content) of composefs-dump text."""
    found, inodes = {}, {}
    for line in text.splitlines():
        path, size, mode, links, uid, _, _, mtime, payload, content, *_ = line.split(" ")
        if mode.startswith("@"):
            found[path] = found[payload]
            continue
        mode = int(mode, 8)
        kind = KINDS[stat.S_IFMT(mode)]
        value = None
        if kind == SYMLINK:
            value = unescape(payload)
        elif kind == REGULAR:
            value = b"" if content == "-" and size == "0" else unescape(content)
        inodes[path] = (kind, stat.S_IMODE(mode), int(uid), int(links), int(mtime.split(".")[0]), value)
        found[path] = inodes[path]
    return found


def of_reader(stack):
    found = {}
    for entry in list_stack(stack):
        value = None
        if entry.kind == SYMLINK:
            value = entry.target
        elif entry.kind == REGULAR:
            value = entry.sha256
        path = "/" + b"/".join(entry.path).decode()
        found[path] = (entry.kind, entry.permissions, entry.uid, entry.links, entry.mtime[0], value)
    return found


@unittest.skipUnless(BIN or os.environ.get("CI"), "MICROFS_BIN is not set")
class Stacks(unittest.TestCase):
    def setUp(self):
        if not BIN:
            raise AssertionError("CI is set and MICROFS_BIN is not")

    def test_random_stacks_are_seen_alike(self):
        seen = 0
        for number in range(STACKS):
            with self.subTest(f"SEED={SEED}, stack {number}"), tempfile.TemporaryDirectory() as scratch:
                rng = random.Random(f"{SEED} {number}")
                layers = [some_layer(rng) for _ in range(rng.randint(1, 4))]
                seen += self.one(Path(scratch), layers)
        self.assertGreater(seen, STACKS // 3, "most stacks must be converted")

    def one(self, scratch, layers):
        Source(scratch / "source", layers)
        out = scratch / "out"
        done = subprocess.run([BIN, "convert", "-q", f"{scratch}/source:t", f"{out}:t", "--platform", "linux/amd64"],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            # Links that lead nowhere or in circles, and nothing else.
            self.assertRegex(done.stderr, "hard link|too many symbolic links")
            return 0
        dump = subprocess.run([BIN, "dump", "--platform", "linux/amd64", f"{out}:t"],
                              capture_output=True, text=True, check=True)
        index = json.loads((out / "index.json").read_text())
        blob = lambda digest: (out / "blobs" / digest.replace(":", "/")).read_bytes()
        manifest = json.loads(blob(index["manifests"][0]["digest"]))
        opened = [Layer(blob(layer["digest"])) for layer in manifest["layers"]]
        for layer in opened:
            check(layer)
        ours, theirs = of_reader(Stack(opened)), of_dump(dump.stdout)
        for path, value in theirs.items():
            if value[0] == REGULAR:
                theirs[path] = (*value[:-1], hashlib.sha256(value[-1]).hexdigest())
        paths = sorted(path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path))
        different = "".join(f"\n{path}: {ours.get(path)} here, {theirs.get(path)} there" for path in paths)
        self.assertEqual(different, "", "".join(map(listing, layers)))
        return 1


if __name__ == "__main__":
    unittest.main()
