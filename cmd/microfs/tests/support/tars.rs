//! OCI images of tar layers, and what other tools say of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::image::blob;
use super::program::{succeed, tool};

/// Runs shell commands in a folder; returns what they print.
#[track_caller]
pub fn shell(folder: &Path, commands: &str) -> String {
    succeed(tool("sh").args(["-e", "-c", commands]).current_dir(folder))
}

/// `LAYOUT:TAG`.
pub fn named(layout: &Path, tag: &str) -> OsString {
    OsString::from(format!("{}:{tag}", layout.display()))
}

/// By `sha256sum`.
#[track_caller]
pub fn digest(file: &Path) -> String {
    let sum = succeed(tool("sha256sum").arg(file));
    format!("sha256:{}", sum.split(' ').next().unwrap())
}

#[track_caller]
pub fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The manifest behind a tag of a layout whose index is flat.
#[track_caller]
pub fn manifest(layout: &Path, tag: &str) -> Value {
    let index = read_json(&layout.join("index.json"));
    let entries = index["manifests"].as_array().unwrap();
    let name = "org.opencontainers.image.ref.name";
    let entry = entries.iter().find(|entry| entry["annotations"][name] == tag).unwrap();
    read_json(&blob(layout, entry["digest"].as_str().unwrap()))
}

/// The config behind a tag.
#[track_caller]
pub fn config(layout: &Path, tag: &str) -> Value {
    let manifest = manifest(layout, tag);
    read_json(&blob(layout, manifest["config"]["digest"].as_str().unwrap()))
}

/// The files of an image's layers, the lowest first.
#[track_caller]
pub fn layer_files(layout: &Path, tag: &str) -> Vec<PathBuf> {
    let manifest = manifest(layout, tag);
    let layers = manifest["layers"].as_array().unwrap();
    layers.iter().map(|layer| blob(layout, layer["digest"].as_str().unwrap())).collect()
}

/// Adds a blob to a layout; returns its descriptor.
#[track_caller]
fn add_blob(layout: &Path, bytes: &[u8], media_type: &str) -> Value {
    let folder = layout.join("blobs/sha256");
    std::fs::create_dir_all(&folder).unwrap();
    let fresh = folder.join("fresh");
    std::fs::write(&fresh, bytes).unwrap();
    let digest = digest(&fresh);
    std::fs::rename(&fresh, blob(layout, &digest)).unwrap();
    json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
}

/// Writes a layout with one image of plain layers. `more` is added to the
/// config, `annotations` to the manifest.
#[track_caller]
pub fn write_image(layout: &Path, tag: &str, layers: &[PathBuf], more: Value, annotations: Value) {
    let media_type = "application/vnd.oci.image.layer.v1.tar";
    let layers: Vec<Value> = layers
        .iter()
        .map(|file| add_blob(layout, &std::fs::read(file).unwrap(), media_type))
        .collect();
    let diff_ids: Vec<&Value> = layers.iter().map(|layer| &layer["digest"]).collect();
    let mut config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    });
    let fields = more.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(fields);
    let config =
        add_blob(layout, config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json");
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers,
        "annotations": annotations,
    });
    let mut manifest = add_blob(layout, manifest.to_string().as_bytes(), media_type);
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    std::fs::write(layout.join("index.json"), index.to_string()).unwrap();
    std::fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

/// Two layers as a shell makes them: files of all sorts; above them whiteouts,
/// an opaque directory, a directory without an entry, and hard links into the
/// lower layer, to a file that goes and one that is replaced. `base.tar`,
/// `upper.tar` and the tree `merged` of both.
pub const TWO_LAYERS: &str = r#"
    umask 022
    mkdir -p base/bin base/etc/old base/run base/keep/deep base/dev
    seq 100000 >base/bin/tool; chmod 4755 base/bin/tool; ln base/bin/tool base/bin/same
    ln -s ../bin/tool base/etc/link; echo old >base/etc/old/file; echo keep >base/etc/keep
    echo gone >base/etc/gone; mkfifo base/run/pipe; chown 7:8 base/etc/keep
    echo moved >base/etc/moves; echo first >base/etc/changes; echo deep >base/keep/deep/f
    mknod base/dev/null c 1 3; mknod base/dev/disk b 259 70000; chmod 1777 base/run
    setfattr -n user.colour -v green base/etc/keep; setfattr -n trusted.t -v 1 base/keep
    setfacl -m u:5:rw base/etc/keep; setcap cap_net_raw+ep base/bin/tool
    truncate -s 1M base/etc/sparse; printf data | dd of=base/etc/sparse conv=notrunc bs=4096 seek=20 2>/dev/null
    find base -exec touch -h -d @1700000000.123456789 {} +
    tar --format=posix --xattrs --xattrs-include='*' --sparse --sort=name -C base -cf base.tar .

    mkdir -p upper/etc/old upper/bin upper/keep/deep
    cp -p base/etc/moves upper/etc/moves; ln upper/etc/moves upper/etc/moved
    cp -p base/etc/changes upper/etc/changes; ln upper/etc/changes upper/etc/before
    tar --format=posix -C upper -cf upper.tar etc/moves etc/moved etc/changes etc/before
    tar -f upper.tar --delete etc/moves etc/changes
    rm upper/etc/moves upper/etc/moved upper/etc/changes upper/etc/before
    echo second >upper/etc/changes
    echo motd >upper/etc/motd; touch upper/etc/.wh.gone upper/etc/.wh.moves upper/etc/old/.wh..wh..opq
    echo new >upper/etc/old/new; chmod 711 upper/bin upper/etc; echo more >upper/keep/deep/g
    find upper -exec touch -h -d @1700000001.5 {} +
    tar --format=posix --no-recursion -C upper -rf upper.tar etc etc/.wh.gone etc/.wh.moves etc/old \
        etc/old/.wh..wh..opq etc/old/new etc/motd etc/changes bin keep/deep/g

    cp -a base merged
    rm merged/etc/gone merged/etc/old/file
    mv merged/etc/moves merged/etc/moved; mv merged/etc/changes merged/etc/before
    cp -a upper/etc/motd upper/etc/changes merged/etc; cp -a upper/etc/old/new merged/etc/old
    cp -a upper/keep/deep/g merged/keep/deep; chmod 711 merged/bin merged/etc
    touch -h -d @1700000001.5 merged/etc merged/etc/old merged/bin
    touch -h -d @1700000000.123456789 merged/keep merged/keep/deep merged
"#;

/// An image of [`TWO_LAYERS`] in the layout `source`, converted into the
/// layout `image`, both under the tag `t`.
#[track_caller]
pub fn two_layers(folder: &Path, config: Value, annotations: Value) -> PathBuf {
    shell(folder, TWO_LAYERS);
    let layers = [folder.join("base.tar"), folder.join("upper.tar")];
    let source = folder.join("source");
    write_image(&source, "t", &layers, config, annotations);
    let image = folder.join("image");
    super::program::ok(words!["convert", "-q", named(&source, "t"), image, "t"]);
    image
}
