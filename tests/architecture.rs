//! Keeps the law of the house: which room may import which, and which rooms touch no clock, disk or socket.
//!
//! Reads `use` lines and inline `crate::` paths of every file under `src/`; comments do not count. It is itself tested
//! with planted violations at the foot.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const ROOMS: [&str; 16] = [
    "cli",
    "codec",
    "config",
    "document",
    "fuzz",
    "gateway",
    "modbus",
    "model",
    "mqtt",
    "poll",
    "profile",
    "shadow",
    "simulate",
    "transport",
    "twin",
    "admin",
];

/// What each room may import of the others. `room::Name` allows that one name.
fn may_import(room: &str) -> Vec<&'static str> {
    match room {
        "modbus" | "model" | "document" | "transport" => vec![],

        "profile" => vec!["document", "modbus", "model"],
        "poll" => vec!["modbus", "profile", "model"],
        "codec" => vec!["modbus", "profile", "model", "poll"],
        "twin" => vec!["model"],
        "shadow" => vec!["model", "profile", "twin"],
        "mqtt" => vec!["shadow::Publication", "shadow::Qos", "shadow::Ticket"],
        "simulate" => vec!["modbus", "profile", "model", "codec", "transport"],
        "config" => vec!["document", "modbus", "model", "profile", "*::Options"],
        "gateway" => ROOMS.into_iter().filter(|r| *r != "cli").collect(),
        "fuzz" => vec!["document", "modbus", "model", "poll", "profile"],
        "cli" | "main" => ROOMS.to_vec(),
        other => panic!("a room without a line in the law: {other}"),
    }
}

const DICTIONARIES: [&str; 4] = ["document", "modbus", "model", "profile"];

const PURE: [&str; 8] = ["codec", "document", "modbus", "model", "poll", "profile", "shadow", "twin"];

/// What a pure room may not name, with the reason.
const EFFECTS: [(&str, &str); 10] = [
    ("std::fs", "the disk"),
    ("std::net", "sockets"),
    ("std::env", "the environment"),
    ("std::process", "the process"),
    ("std::thread", "threads"),
    ("SystemTime::now", "wall time"),
    ("Instant::now", "a clock"),
    ("tokio::net", "sockets"),
    ("tokio::time", "a clock"),
    ("fastrand", "chance"),
];

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    place: String,
    what: String,
}

#[test]
fn no_room_imports_what_the_law_forbids() {
    let mut found = Vec::new();
    for (file, room) in sources() {
        let text = fs::read_to_string(&file).unwrap();
        found.extend(imports_against_the_law(&file.display().to_string(), &room, &text));
    }
    assert!(found.is_empty(), "imports against the law:\n{found:#?}");
}

#[test]
fn pure_rooms_have_no_effects() {
    let mut found = Vec::new();
    let tests = test_modules();
    for (file, room) in sources() {
        if PURE.contains(&room.as_str()) && !tests.contains(&file) {
            let text = fs::read_to_string(&file).unwrap();
            found.extend(effects(&file.display().to_string(), &text));
        }
    }
    assert!(found.is_empty(), "effects in pure rooms:\n{found:#?}");
}

#[test]
fn every_file_says_what_it_is() {
    let silent: Vec<_> = sources()
        .into_iter()
        .filter(|(file, _)| !fs::read_to_string(file).unwrap().starts_with("//!"))
        .map(|(file, _)| file)
        .collect();
    assert!(silent.is_empty(), "files without a head: {silent:?}");
}

#[test]
fn no_file_is_named_for_nothing() {
    let banned =
        ["util", "utils", "helper", "helpers", "common", "misc", "core", "base", "manager", "service", "processor"];
    for (file, _) in sources() {
        let stem = file.file_stem().unwrap().to_str().unwrap();
        assert!(!banned.contains(&stem), "{} says nothing about what it owns", file.display());
    }
}

/// Files that are compiled for tests only: `#[cfg(test)] mod name;`.
fn test_modules() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for (file, _) in sources() {
        let text = fs::read_to_string(&file).unwrap();
        let folder = if file.ends_with("mod.rs") { file.parent().unwrap().to_owned() } else { file.with_extension("") };
        for (_, after) in text.match_indices("#[cfg(test)]").map(|(at, m)| (at, text[at + m.len()..].trim_start())) {
            if let Some(name) = after.strip_prefix("mod ").and_then(|m| m.split_once(';')).map(|(name, _)| name) {
                found.insert(folder.join(name).with_extension("rs"));
            }
        }
    }
    found
}

/// Every source file with its room.
fn sources() -> Vec<(PathBuf, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("lib.rs") {
                let inside = path.strip_prefix(&src).unwrap();
                let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
                files.push((path, room));
            }
        }
    }
    assert!(files.len() > 20, "the tree moved: only {} files found", files.len());
    files.sort();
    files
}

fn imports_against_the_law(file: &str, room: &str, text: &str) -> Vec<Violation> {
    let allowed = may_import(room);
    let own = if room == "main" { "fieldshadow::" } else { "crate::" };
    let mut found = BTreeSet::new();
    let code = code_of(text);
    let tests_from =
        code.find("#[cfg(test)]\nmod tests {").map_or(usize::MAX, |at| code[..at].matches('\n').count() + 1);
    for (line, path) in paths(&code, own) {
        let mut parts = path.split("::");
        let Some(target) = parts.next().filter(|t| ROOMS.contains(t)) else { continue };
        let name = parts.next().unwrap_or("");
        let fits = |rule: &&str| match rule.split_once("::") {
            None => *rule == target,
            Some(("*", only)) => only == name,
            Some((to, only)) => to == target && only == name,
        };
        // Tests have to make what the room is given: they may use the dictionaries.
        let made_for_a_test = line > tests_from && DICTIONARIES.contains(&target);
        if target != room && !made_for_a_test && !allowed.iter().any(fits) {
            found.insert(Violation { place: format!("{file}:{line}"), what: format!("{room} may not import {path}") });
        }
    }
    found.into_iter().collect()
}

fn effects(file: &str, text: &str) -> Vec<Violation> {
    // Tests of a pure room may start threads and read vectors from files.
    let code = code_of(text);
    let code = code.split("#[cfg(test)]").next().unwrap_or("");
    let mut found = Vec::new();
    for (number, line) in (1..).zip(code.lines()) {
        for (word, what) in EFFECTS {
            if line.contains(word) {
                found.push(Violation { place: format!("{file}:{number}"), what: format!("{what}: {word}") });
            }
        }
    }
    found
}

/// The text with comments and string literals blanked, line for line.
fn code_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let cut = line.find("//").unwrap_or(line.len());
        out.push_str(&line[..cut]);
        out.push('\n');
    }
    out
}

/// Every path that begins with `prefix`, brace groups expanded, with its line.
fn paths(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + prefix.len()..];
        for path in expand(rest) {
            found.push((line, path));
        }
    }
    found
}

/// `a::{b, c::d}` becomes `a::b` and `a::c::d`.
fn expand(text: &str) -> Vec<String> {
    let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').collect();
    let rest = text[word.len()..].trim_start();
    if !rest.starts_with('{') {
        return vec![word];
    }
    let mut depth = 0;
    let mut start = 1;
    let mut paths = Vec::new();
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if (c == ',' && depth == 1) || (c == '}' && depth == 0) {
            let inner = rest[start..at].trim();
            if !inner.is_empty() {
                paths.extend(expand(inner).into_iter().map(|p| format!("{word}{p}")));
            }
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    paths
}

#[test]
fn a_planted_violation_is_caught() {
    let law = |room: &str, text: &str| imports_against_the_law("planted.rs", room, text).len();
    assert_eq!(law("twin", "use crate::modbus::Table;\n"), 1);
    assert_eq!(law("twin", "use crate::{model::Batch, shadow::{Publication, Qos}};\n"), 2);
    assert_eq!(law("twin", "fn f() { crate::codec::decode(); }\n"), 1);
    assert_eq!(law("twin", "use crate::model::{Batch, Value};\n// crate::modbus is no import here\n"), 0);
    assert_eq!(law("mqtt", "use crate::shadow::{Publication, Sync};\n"), 1);
    assert_eq!(law("config", "use crate::mqtt::Options;\nuse crate::mqtt::Session;\n"), 1);
    assert_eq!(law("gateway", "use crate::cli::Command;\n"), 1);
    assert_eq!(law("shadow", "#[cfg(test)]\nmod tests {\n    use crate::{modbus::Table, poll::Bus};\n}\n"), 1);
    assert_eq!(effects("planted.rs", "fn now() -> Instant { Instant::now() }\n").len(), 1);
    assert_eq!(effects("planted.rs", "#[cfg(test)]\nmod tests { use std::fs; }\n").len(), 0);
}
