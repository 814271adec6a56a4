"""Images on their way: through other layouts, archives and a registry, copied by skopeo."""
import contextlib
import hashlib
import json
import shutil
import socket
import subprocess
import urllib.request

from machine import Case, microfs, need, run, wait_until
from trees import LAYOUT, TRUE, check_images_are_as_built, content, differences, files, images, rootfs

SKOPEO = ["skopeo", "copy", "--quiet", "--preserve-digests"]
MICROFS_LAYER = "application/vnd.oci.image.layer.microfs.v1"


def setUpModule():
    need(skopeo="skopeo", umoci="umoci", docker_registry="docker-registry, or see rootfs.sh")
    images()


def tearDownModule():
    check_images_are_as_built()


def converted(directory):
    """Converts an image of three tar layers, and gives the tree that GNU tar and rm make of them."""
    tree = directory / "tree"
    run("cp", "--archive", "--no-target-directory", rootfs() / "srv/tree", tree)
    source = directory / "source"
    run("umoci", "init", "--layout", source)
    run("umoci", "new", "--image", f"{source}:t")

    def layer(name, root, *words):
        archive = directory / name
        run("tar", "--create", "--format=posix", "--pax-option=delete=atime,delete=ctime", "--numeric-owner",
            "--sort=name", "--xattrs", "--xattrs-include=*", "--file", archive, "--directory", root, *words)
        run("umoci", "raw", "add-layer", "--image", f"{source}:t", archive)

    layer("first.tar", tree, ".")
    # Whiteouts, an opaque directory, a hard link and attributes.
    upper = directory / "upper"
    for name in (".wh.gone", "emptied/.wh..wh..opq", "old/new"):
        (upper / name).parent.mkdir(parents=True, exist_ok=True)
        (upper / name).touch()
    (upper / "link").hardlink_to(upper / "old/new")
    run("setfattr", "-n", "user.key", "-v", "value", upper / "old")
    layer("second.tar", upper, "emptied", "old", "link", ".wh.gone")
    (tree / "gone").unlink()
    shutil.rmtree(tree / "emptied")
    run("tar", "--extract", "--file", directory / "second.tar", "--directory", tree, "--exclude=.wh.*", "--xattrs",
        "--xattrs-include=*", "--numeric-owner", "--preserve-permissions")
    usr = rootfs() / "usr/lib"
    layer("third.tar", usr, "python3")
    run("cp", "--archive", usr / "python3", tree)
    # No layer after the first has the root.
    run("touch", "--reference", rootfs() / "srv/tree", tree)
    layout = directory / "converted"
    microfs("convert", "--quiet", f"{source}:t", f"{layout}:t")
    return layout, tree


def image(layout, tag):
    """Digest of an image's manifest, and digest and media type of each of its blobs, from the layout's own files."""
    entries = json.loads((layout / "index.json").read_text())["manifests"]
    found = [entry for entry in entries if entry["annotations"]["org.opencontainers.image.ref.name"] == tag]
    assert len(found) == 1, entries
    manifest = json.loads(blob(layout, found[0]["digest"]).read_text())
    blobs = {part["digest"]: part["mediaType"] for part in [manifest["config"], *manifest["layers"]]}
    return found[0]["digest"], blobs | {found[0]["digest"]: found[0]["mediaType"]}


def blob(layout, digest):
    return layout / "blobs" / digest.replace(":", "/")


@contextlib.contextmanager
def registry(directory):
    """A registry on the loopback interface."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    configuration = directory / "registry.yml"
    configuration.write_text(
        f"version: 0.1\nlog: {{accesslog: {{disabled: true}}, level: error}}\n"
        f"storage: {{filesystem: {{rootdirectory: {directory}/registry}}}}\nhttp: {{addr: '{address}'}}\n")
    with open(directory / "registry.log", "wb") as log:
        server = subprocess.Popen(["docker-registry", "serve", configuration], stdout=log, stderr=log)

    def answers():
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://{address}/v2/", timeout=10).status == 200
        return False

    try:
        wait_until(answers, lambda: (directory / "registry.log").read_text())
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)


class Copies(Case):
    def assert_same_image(self, layout, tag, other, other_tag):
        """All blobs are equal, byte by byte."""
        self.assertEqual(image(layout, tag), image(other, other_tag))
        for digest in image(layout, tag)[1]:
            run("cmp", blob(layout, digest), blob(other, digest))
            self.assertEqual("sha256:" + run("sha256sum", blob(other, digest)).split()[0], digest)

    def assert_mounts(self, layout, tag, tree):
        """As microfs sees it, and as GNU tar does."""
        microfs("check", "--quiet", f"{layout}:{tag}")
        with self.mounted(image=f"{layout}:{tag}") as at:
            microfs("diff", f"{layout}:{tag}", tree)
            microfs("diff", f"{layout}:{tag}", at)
            self.assertEqual(differences(content(tree), content(at)), [])

    def check(self, layout, tag, tree):
        digest, blobs = image(layout, tag)
        self.assertIn(MICROFS_LAYER, blobs.values())
        source = f"oci:{layout}:{tag}"
        # Through another layout, an archive and a plain directory.
        ways = [f"oci:{self.dir}/way:w", f"oci-archive:{self.dir}/way.tar:w", f"dir:{self.dir}/way.dir"]
        for start, end in zip([source, *ways], [*ways, f"oci:{self.dir}/copy:c"]):
            run(*SKOPEO, start, end)
        self.assert_same_image(layout, tag, self.dir / "copy", "c")
        self.assert_mounts(self.dir / "copy", "c", tree)
        # Through a registry, there to another repository, and back by tag and by digest.
        plain = ["--src-tls-verify=false", "--dest-tls-verify=false"]
        with registry(self.dir) as address:
            one, two = (f"docker://{address}/{name}" for name in ("microfs/one:v1", "two:latest"))
            for start, end in ((source, one), (one, two), (one, f"oci:{self.dir}/pulled:by-tag"),
                               (f"docker://{address}/two@{digest}", f"oci:{self.dir}/pulled:by-digest")):
                run(*SKOPEO, *plain, start, end)
            self.check_registry(f"http://{address}/v2/microfs/one", layout, digest, blobs)
            # What is there already is not sent again: the same image, then an image of some of its layers.
            before = files(self.dir / "registry")
            run(*SKOPEO, *plain, source, one)
            self.assertEqual(files(self.dir / "registry"), before)
        for by in ("by-tag", "by-digest"):
            self.assert_same_image(layout, tag, self.dir / "pulled", by)
        self.assert_mounts(self.dir / "pulled", "by-digest", tree)

    def check_registry(self, repository, layout, digest, blobs):
        """What a client other than skopeo is given."""
        with urllib.request.urlopen(urllib.request.Request(
                f"{repository}/manifests/v1", headers={"Accept": blobs[digest]}), timeout=60) as answer:
            self.assertEqual(answer.headers["Docker-Content-Digest"], digest)
            self.assertEqual(answer.headers["Content-Type"], blobs[digest])
            self.assertEqual(answer.read(), blob(layout, digest).read_bytes())
        for one in set(blobs) - {digest}:
            with urllib.request.urlopen(f"{repository}/blobs/{one}", timeout=60) as answer:
                self.assertEqual("sha256:" + hashlib.file_digest(answer, "sha256").hexdigest(), one)

    def test_a_built_image(self):
        self.check(LAYOUT, "true", rootfs())

    def test_a_converted_image(self):
        layout, tree = converted(self.dir)
        self.assertEqual(list(image(layout, "t")[1].values()).count(MICROFS_LAYER), 3)
        self.check(layout, "t", tree)

    def test_into_a_layout_with_other_images(self):
        """What is copied in, or built on, leaves the others alone."""
        layout, tree = converted(self.dir)
        run(*SKOPEO, f"oci:{LAYOUT}:true", f"oci:{layout}:large")
        microfs("gc", layout)
        self.assert_mounts(layout, "t", tree)
        self.assert_same_image(LAYOUT, "true", layout, "large")
        microfs("untag", layout, "large")
        microfs("gc", layout)
        run(*SKOPEO, f"oci:{layout}:t", f"oci:{self.dir}/after:t")
        self.assert_same_image(layout, "t", self.dir / "after", "t")
        self.assertEqual(set(image(layout, "t")[1]),
                         {"sha256:" + name.split("/")[-1] for name in files(layout / "blobs")})
