//! Lists the shipped profiles, `device-profiles/VENDOR/MODEL.yaml`, for `profile::builtin`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("device-profiles");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=device-profiles");
    let mut files = Vec::new();
    for vendor in children(&root) {
        files.extend(children(&vendor).into_iter().filter(|f| f.extension().is_some_and(|e| e == "yaml")));
    }
    let mut list = String::from("[\n");
    for file in files {
        let name = file.strip_prefix(&root).expect("it lies there").with_extension("");
        let name = name.to_string_lossy().replace('\\', "/");
        let _ = writeln!(list, "    ({name:?}, include_str!({:?})),", file.to_string_lossy());
    }
    list.push_str("]\n");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("builtin_profiles.rs");
    fs::write(out, list).expect("OUT_DIR is writable");
}

/// Everything in a folder, in the order of names; nothing where there is no folder.
fn children(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    paths
}
