//! Files of a folder, read within bounds.

use crate::document::Document;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Most files taken of one folder.
pub(super) const MAX_FILES: usize = 10_000;

/// The `*.yaml` files of a folder in name order, without those that begin with `.`.
///
/// More than [`MAX_FILES`] are an error: a part of a folder is no folder.
pub(super) fn yaml_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let shown = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| !name.starts_with('.'));
        let taken = shown && path.extension().is_some_and(|extension| extension == "yaml");
        if taken && !path.is_dir() {
            if files.len() == MAX_FILES {
                return Err(io::Error::other(format!("more than {MAX_FILES} files")));
            }
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The text of a file; one that is larger than a document may be, or no UTF-8, is an error.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let most = Document::MAX_BYTES as u64;
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    // A pipe or a device would be read for ever, or never answer.
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("the file is larger than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + String::from_utf8_lossy(&error.as_bytes()[..at]).matches('\n').count();
        io::Error::other(format!("not UTF-8 (line {line})"))
    })
}

/// `host:port`, with an IPv6 address in brackets; the port may be left out where there is a default.
pub(super) fn host_and_port(text: &str, default_port: Option<u16>) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':') || !c.is_ascii();
    if host.is_empty() || host.len() > 253 || !host.chars().all(|c| fit(c) && !c.is_control() && !c.is_whitespace()) {
        return None;
    }
    let port = match port {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => port.parse().ok().filter(|p| *p > 0)?,
        Some(_) => return None,
        None => default_port?,
    };
    Some((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_port() {
        let read = |text| host_and_port(text, None);
        assert_eq!(read("192.168.1.50:502"), Some(("192.168.1.50".into(), 502)));
        assert_eq!(read("[fe80::1]:502"), Some(("fe80::1".into(), 502)));
        assert_eq!(read("plc.example:1"), Some(("plc.example".into(), 1)));
        for odd in ["", "x", ":502", "x:", "x:0", "x:65536", "x:+5", "::1:502", "[x]:5", "a b:5", "x/y:5", "[::1]502"] {
            assert_eq!(read(odd), None, "{odd}");
        }
        assert_eq!(host_and_port("x", Some(7)), Some(("x".into(), 7)));
    }

    #[test]
    fn only_yaml_files_within_bounds_are_read() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.yaml", ".hidden.yaml", "c.yaml~", "readme.md"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(folder.path().join("d.yaml")).unwrap();
        let files = yaml_files(folder.path()).unwrap();
        assert_eq!(files, [folder.path().join("a.yaml"), folder.path().join("b.yaml")]);
        let large = folder.path().join("large");
        std::fs::write(&large, vec![b'#'; Document::MAX_BYTES + 1]).unwrap();
        assert!(read_text(&large).unwrap_err().to_string().contains("larger than"));
        std::fs::write(&large, b"a\n\xff").unwrap();
        assert!(read_text(&large).unwrap_err().to_string().contains("line 2"));
        assert!(read_text(folder.path()).is_err());
    }
}
