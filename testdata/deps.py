#!/usr/bin/env python3
"""Checks who depends on whom: between crates, and between modules of `pkg`.

Crates come from `cargo metadata`; modules from the `crate::` and `super::` paths
of the sources, tests left out. A module that the table below does not name is an
error, so a new one says here what it may use. Prints each arrow that is not
allowed and exits with 1 when there is one.
"""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Crate of the workspace -> crates of the workspace it may use.
CRATES = {
    "microfs": set(),
    "microfs-oci": set(),
    "microfs-fuse": {"microfs"},
    "microfs-cli": {"microfs", "microfs-oci", "microfs-fuse"},
    "rofsbench": set(),
}

# Crate of the workspace -> crates from elsewhere that must not be below it, near or far.
FOREIGN = {
    "microfs": {"oci-spec", "clap", "anyhow", "ureq"},
    "microfs-oci": {"blake3", "clap", "anyhow"},
    "microfs-fuse": {"oci-spec", "clap", "anyhow"},
}

# Module of pkg -> modules of pkg it may use. `tree` and `format` are the bottom
# pair: records name tree's types and limits.
BOTTOM = {"tree", "format"}
BLOB = BOTTOM | {"compress", "source", "error"}
MODULES = {
    "tree": {"format"},
    "format": {"tree"},
    "compress": {"format"},
    "source": {"format"},
    "error": BOTTOM | {"compress"},
    "reader": BLOB,
    "writer": BOTTOM | {"compress"},
    "stack": BLOB | {"reader"},
    "scan": BOTTOM,
    "archive": BOTTOM | {"writer"},
    "delta": BLOB | {"reader", "scan", "stack", "writer"},
    "build": BOTTOM | {"scan", "writer"},
    "compare": BOTTOM | {"error", "scan", "stack"},
    "check": BOTTOM | {"error", "reader", "source", "stack"},
    "extract": BOTTOM | {"error", "source", "stack"},
    "dump": BOTTOM | {"error", "stack"},
    "walk": BOTTOM | {"error", "reader", "stack"},
    "export": BOTTOM | {"archive", "error", "reader", "stack", "walk"},
    "squash": BOTTOM | {"error", "stack", "walk", "writer"},
}


def crate_arrows():
    """Yields a message for each arrow between crates that is not allowed."""
    version = subprocess.check_output(["rustc", "-vV"], cwd=ROOT, text=True)
    host = re.search(r"^host: (.*)$", version, flags=re.M)[1]
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    below = {}
    for node in metadata["resolve"]["nodes"]:
        below[node["id"]] = [
            dependency["pkg"]
            for dependency in node["deps"]
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
        ]
    for member in metadata["workspace_members"]:
        name = names[member]
        if name not in CRATES:
            yield f"crate {name}: not in the table of testdata/deps.py"
            continue
        seen, todo = set(), list(below[member])
        while todo:
            package = todo.pop()
            if package not in seen:
                seen.add(package)
                todo += below[package]
        found = {names[package] for package in seen}
        bad = (found & set(CRATES)) - CRATES[name]
        bad |= found & FOREIGN.get(name, set())
        for other in sorted(bad):
            yield f"crate {name} -> {other}"


def without_comments(text):
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def heads(text, start):
    """First segments of the use group that opens at text[start] == '{'."""
    depth, word, first = 0, "", True
    for character in text[start:]:
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        if depth == 0:
            break
        if depth == 1 and character in "{,":
            first, word = True, ""
        elif depth == 1 and first and re.match(r"\w", character):
            word += character
        elif depth == 1 and first and word:
            yield word
            first = False
    if first and word:
        yield word


def paths(text, prefix):
    """First segments of all paths that start with `prefix`."""
    for match in re.finditer(r"(?<![\w:$])" + prefix + r"\s*::\s*(\{|\w+)", text):
        if match[1] == "{":
            yield from heads(text, match.start(1))
        else:
            yield match[1]


def is_test(path):
    parts = path.split("/")
    return parts[-1] == "tests.rs" or "tests" in parts[:-1]


def module_arrows():
    """Yields a message for each arrow between pkg's modules that is not allowed."""
    source = os.path.join(ROOT, "pkg", "src")
    with open(os.path.join(source, "lib.rs"), encoding="utf-8") as file:
        library = without_comments(file.read())
    modules = set(re.findall(r"\bmod (\w+);", library))
    exported = {}
    for module, names in re.findall(r"pub use (?:self|crate)::(\w+)::(\{[^}]*\}|\w+)", library):
        for name in re.findall(r"\w+", names):
            exported[name] = module
    arrows = {}
    for folder, _, files in os.walk(source):
        for file in files:
            path = os.path.relpath(os.path.join(folder, file), source)
            if not file.endswith(".rs") or path == "lib.rs" or is_test(path):
                continue
            module = path.split("/")[0].removesuffix(".rs")
            depth = len(path.split("/")) - (file == "mod.rs")
            with open(os.path.join(source, path), encoding="utf-8") as opened:
                text = without_comments(opened.read())
            to_root = r"\s*::\s*".join(["super"] * depth)
            for name in [*paths(text, "crate"), *paths(text, to_root)]:
                if name == "super":
                    continue
                used = exported.get(name, name)
                if used not in modules:
                    yield f"pkg/src/{path}: cannot tell which module crate::{name} is"
                elif used != module:
                    arrows.setdefault((module, used), path)
    for module in sorted(modules - set(MODULES)):
        yield f"pkg module {module}: not in the table of testdata/deps.py"
    for (module, used), path in sorted(arrows.items()):
        if module in MODULES and used not in MODULES[module]:
            yield f"pkg module {module} -> {used} (pkg/src/{path})"
    yield from cycles(modules, set(arrows))


def cycles(modules, arrows):
    """Yields a message for each module that reaches itself."""
    arrows = arrows - {("tree", "format")} if ("format", "tree") in arrows else arrows
    for module in sorted(modules):
        seen, todo = set(), [module]
        while todo:
            at = todo.pop()
            for origin, used in arrows:
                if origin == at and used not in seen:
                    seen.add(used)
                    todo.append(used)
        if module in seen:
            yield f"pkg module {module} is part of a cycle"


def main():
    bad = [*crate_arrows(), *module_arrows()]
    for message in bad:
        print(f"deps: not allowed: {message}")
    if not bad:
        print(f"deps: {len(CRATES)} crates and the modules of pkg keep to their arrows")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
