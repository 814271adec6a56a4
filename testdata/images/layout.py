"""OCI image layouts, read by the image specification and nothing else."""
import contextlib
import hashlib
import json
import os
import subprocess
import tarfile

REF_NAME = "org.opencontainers.image.ref.name"


def blob_path(layout, digest):
    algorithm, name = digest.split(":")
    return os.path.join(layout, "blobs", algorithm, name)


def blob(layout, descriptor):
    """The bytes of a blob, whose size and digest must be right."""
    with open(blob_path(layout, descriptor["digest"]), "rb") as file:
        data = file.read()
    assert len(data) == descriptor["size"], descriptor
    assert "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"], descriptor
    return data


def index(layout):
    with open(os.path.join(layout, "index.json"), "rb") as file:
        return json.load(file)


def tags(layout):
    """The descriptor of each tag."""
    found = {}
    for entry in index(layout)["manifests"]:
        name = entry.get("annotations", {}).get(REF_NAME)
        if name is not None:
            assert name not in found, "two images are tagged %s" % name
            found[name] = entry
    return found


def manifest(layout, tag):
    return json.loads(blob(layout, tags(layout)[tag]))


def config(layout, tag):
    return json.loads(blob(layout, manifest(layout, tag)["config"]))


def reachable(layout):
    """Digest and size of every blob that an image of the layout needs."""
    found = {}
    for entry in index(layout)["manifests"]:
        image = json.loads(blob(layout, entry))
        for descriptor in [entry, image["config"], *image["layers"]]:
            found[descriptor["digest"]] = descriptor["size"]
    return found


def stored(layout):
    """Digest and size of every file below `blobs`."""
    found = {}
    for algorithm in os.listdir(os.path.join(layout, "blobs")):
        for entry in os.scandir(os.path.join(layout, "blobs", algorithm)):
            found["%s:%s" % (algorithm, entry.name)] = entry.stat(follow_symlinks=False).st_size
    return found


def file_digest(path):
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


class Padded:
    """A stream with zeros after its end: `umoci insert` ends its archives with the last byte of the last file."""

    def __init__(self, stream):
        self.stream, self.left = stream, 1024

    def read(self, size):
        data = self.stream.read(size)
        if not data:
            data = bytes(min(size, self.left))
            self.left -= len(data)
        return data


@contextlib.contextmanager
def layer_tar(layout, descriptor):
    """A source layer's tar archive, opened to be read once from front to end."""
    path = blob_path(layout, descriptor["digest"])
    kind = descriptor["mediaType"].rpartition("+")[2]
    tool = {"gzip": "gzip", "zstd": "zstd"}.get(kind, "cat")
    with open(path, "rb") as blob_file:
        command = [tool] if tool == "cat" else [tool, "-dc"]
        with subprocess.Popen(command, stdin=blob_file, stdout=subprocess.PIPE) as process:
            with tarfile.open(fileobj=Padded(process.stdout), mode="r|") as archive:
                yield archive
            while process.stdout.read(1 << 20):
                pass
    assert process.returncode == 0, path
