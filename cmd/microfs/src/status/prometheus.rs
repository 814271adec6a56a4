//! A report in the text format of Prometheus, version 0.0.4.

use std::fmt::Write;

use super::Report;

/// The value of a label, quoted.
fn label(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

/// All numbers, each with the mount point as a label.
pub fn text(report: &Report, mount_point: &str) -> String {
    let mount = label(mount_point);
    let mut out = String::new();
    let image = label(&report.image);
    let manifest = label(&report.manifest);
    head(&mut out, "mount_info", "gauge", "What is mounted.");
    line(&mut out, "mount_info", &format!("mount={mount},image={image},manifest={manifest}"), 1);
    head(&mut out, "requests_total", "counter", "Requests of the kernel.");
    for (kind, count) in &report.requests {
        line(&mut out, "requests_total", &format!("mount={mount},kind={}", label(kind)), *count);
    }
    let counters = [
        ("read_bytes_total", "Bytes of content sent on request.", report.bytes_read),
        ("decoded_blocks_total", "Blocks read, verified and decoded.", report.blocks_decoded),
        ("decoded_stored_bytes_total", "Stored bytes of those.", report.stored_bytes_read),
        ("decoded_plain_bytes_total", "Plain bytes of those.", report.plain_bytes_decoded),
        ("cache_hits_total", "Blocks found in the cache.", report.cache_hits),
        ("cache_misses_total", "Blocks not found there.", report.cache_misses),
        ("pushes_total", "Runs put into the page cache.", report.pushes),
        ("pushed_bytes_total", "Bytes put there.", report.bytes_pushed),
        ("pushes_wasted_total", "Files pushed and read all the same.", report.pushes_wasted),
        ("pushes_dropped_total", "Pushes left out.", report.pushes_dropped),
        ("errors_total", "Requests failed for damage.", report.errors),
        ("panics_total", "Requests failed for a fault of the server.", report.panics),
    ];
    let of_mount = format!("mount={mount}");
    for (name, help, value) in counters {
        head(&mut out, name, "counter", help);
        line(&mut out, name, &of_mount, value);
    }
    head(&mut out, "cache_bytes", "gauge", "Bytes of blocks in the cache.");
    line(&mut out, "cache_bytes", &of_mount, report.cache_bytes);
    latency(&mut out, report, &mount);
    out
}

fn latency(out: &mut String, report: &Report, mount: &str) {
    head(out, "answer_seconds", "histogram", "Time to find an answer.");
    for (kind, ranges) in &report.latency {
        let mut so_far = 0u64;
        for (below, count) in ranges {
            so_far = so_far.saturating_add(*count);
            let below = below.map_or("+Inf".to_owned(), microseconds);
            let labels = format!("mount={mount},kind={},le=\"{below}\"", label(kind));
            line(out, "answer_seconds_bucket", &labels, so_far);
        }
        let labels = format!("mount={mount},kind={}", label(kind));
        line(out, "answer_seconds_count", &labels, so_far);
    }
}

/// Microseconds as seconds in decimal.
fn microseconds(number: u64) -> String {
    format!("{}.{:06}", number / 1_000_000, number % 1_000_000)
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP microfs_{name} {help}\n# TYPE microfs_{name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: u64) {
    let _ = writeln!(out, "microfs_{name}{{{labels}}} {value}");
}
