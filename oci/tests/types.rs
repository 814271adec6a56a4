//! Platforms and media types.
#![allow(clippy::unwrap_used)]

use microfs_oci::{Compression, LayerKind, OciError, Platform};

#[test]
fn platform_variants_compare_as_engines_do() {
    let rank = |wanted: &str, offered: &str| {
        let parse = |text: &str| text.parse::<Platform>().unwrap();
        parse(wanted).accepts(&parse(offered))
    };
    for (wanted, offered) in [
        ("linux/amd64", "linux/x86_64"),
        ("linux/amd64", "linux/amd64/v1"),
        ("linux/arm64", "linux/arm64/v8"),
        ("linux/aarch64", "linux/arm64"),
        ("linux/arm", "linux/arm/v7"),
        ("linux/armhf", "linux/arm/7"),
        ("Linux/AMD64", "linux/amd64"),
        ("linux/386", "linux/i686"),
    ] {
        assert_eq!(rank(wanted, offered), Some(u32::MAX), "{wanted} {offered}");
    }
    assert!(rank("linux/amd64/v3", "linux/amd64/v2") > rank("linux/amd64/v3", "linux/amd64"));
    for (wanted, offered) in [
        ("linux/amd64", "linux/amd64/v3"),
        ("linux/amd64", "linux/386"),
        ("linux/arm/v6", "linux/arm/v7"),
        ("linux/amd64", "windows/amd64"),
        ("linux/amd64", "linux/amd64/odd"),
    ] {
        assert_eq!(rank(wanted, offered), None, "{wanted} {offered}");
    }
    for bad in ["", "linux", "linux/", "/amd64", "a/b/c/d", "a/b c"] {
        assert!(matches!(bad.parse::<Platform>(), Err(OciError::InvalidPlatform { .. })), "{bad}");
    }
}

#[test]
fn layer_types_are_recognised() {
    let tar = |compression, distributable| LayerKind::Tar { compression, distributable };
    let docker = "application/vnd.docker.image.rootfs";
    let oci = "application/vnd.oci.image.layer";
    for (text, kind) in [
        (microfs_oci::media_type::MICROFS_LAYER.to_owned(), LayerKind::Microfs),
        (format!("{oci}.v1.tar"), tar(Compression::None, true)),
        (format!("{oci}.v1.tar+gzip"), tar(Compression::Gzip, true)),
        (format!("{oci}.v1.tar+zstd"), tar(Compression::Zstd, true)),
        (format!("{oci}.v1.tar+bzip2"), tar(Compression::Bzip2, true)),
        (format!("{oci}.v1.tar+xz"), tar(Compression::Xz, true)),
        (format!("{oci}.nondistributable.v1.tar"), tar(Compression::None, false)),
        (format!("{oci}.nondistributable.v1.tar+zstd"), tar(Compression::Zstd, false)),
        (format!("{docker}.diff.tar"), tar(Compression::None, true)),
        (format!("{docker}.diff.tar.gzip"), tar(Compression::Gzip, true)),
        (format!("{docker}.diff.tar.zstd"), tar(Compression::Zstd, true)),
        (format!("{docker}.foreign.diff.tar.gzip"), tar(Compression::Gzip, false)),
        (format!("{oci}.v1.tar+gzip+encrypted"), LayerKind::Unknown),
        (format!("{oci}.v1.tar+"), LayerKind::Unknown),
        (format!("{oci}.v1.tarx"), LayerKind::Unknown),
        (format!("{oci}.v1.targzip"), LayerKind::Unknown),
        (String::new(), LayerKind::Unknown),
    ] {
        assert_eq!(LayerKind::of(&text.as_str().into()), kind, "{text}");
    }
}
