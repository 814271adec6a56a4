"""Whether a layout is whole, by the image specification and by three programs."""
import json
import os

from layout import blob_path, file_digest, index, manifest, reachable, stored, tags
from work import require, run


def require_valid(program, layout, wanted):
    """Checks everything in a layout. `wanted`: for each tag the manifests it may have, None for no tag; no others."""
    with open(os.path.join(layout, "oci-layout"), "rb") as file:
        require(json.load(file) == {"imageLayoutVersion": "1.0.0"}, "oci-layout is another")
    require(index(layout)["schemaVersion"] == 2, "index.json is of another version")
    found = {tag: entry["digest"] for tag, entry in tags(layout).items()}
    for tag, digest in found.items():
        require(digest in wanted.get(tag, ()), "%s is %s, not one of %s", tag, digest, wanted.get(tag))
    for tag, digests in wanted.items():
        require(tag in found or None in digests, "the tag %s is gone", tag)
    # No blob is half written, needed or not; and none that is needed is missing.
    there = stored(layout)
    for digest in there:
        require(file_digest(blob_path(layout, digest)) == digest, "%s has other content", digest)
    for digest, size in reachable(layout).items():
        require(there.get(digest) == size, "%s is lost: %s instead of %d bytes", digest, there.get(digest), size)
    for tag in found:
        run(program, "check", "-q", "%s:%s" % (layout, tag))
        seen = json.loads(run("skopeo", "inspect", "oci:%s:%s" % (layout, tag)))
        layers = [layer["digest"] for layer in manifest(layout, tag)["layers"]]
        require(seen["Layers"] == layers, "skopeo sees other layers in %s", tag)
    listed = run("umoci", "ls", "--layout", layout).decode().split()
    require(sorted(listed) == sorted(found), "umoci lists %s, not %s", listed, sorted(found))
    return found


def require_clean(layout):
    """Nothing but what the images of a layout need is left of all those that worked on it."""
    require(stored(layout) == reachable(layout), "left over: %s",
            sorted(stored(layout).keys() ^ reachable(layout).keys()))
    left = []
    for path, _, names in os.walk(os.path.join(layout, ".microfs")):
        left.extend(os.path.relpath(os.path.join(path, name), layout) for name in names)
    # The lock stays: removing a lock that another program waits for would give two of them.
    left = [name for name in left if name != ".microfs/lock"]
    require(not left, "left over: %s", left)
