//! What `fieldshadow check` does: every mistake in configuration, profiles and devices; nothing is contacted.

use super::devices::{DeviceSetup, scan_devices, scan_files};
use super::folder::{self, MAX_FILES};
use super::layers::FIRST;
use super::library::{Library, ProfileFile};
use super::link::Links;
use super::settings::{Config, Purpose};
use crate::document::{Diagnostics, Document};
use crate::model::DeviceId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a check found.
#[derive(Debug)]
pub struct Checked {
    /// Every mistake, and warnings.
    pub diagnostics: Diagnostics,
    /// Profiles without mistakes.
    pub profiles: Vec<Arc<ProfileFile>>,
    /// Devices without mistakes.
    pub devices: Vec<DeviceSetup>,
}

/// What a file is, by its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Profile,
    Devices,
    Configuration,
}

impl Checked {
    fn new() -> Self {
        Self { diagnostics: Diagnostics::of("".into(), "".into()), profiles: Vec::new(), devices: Vec::new() }
    }

    /// Checks all that a configuration names: the profiles of its search path and the devices of its folder.
    pub fn of_config(config: &Config) -> Self {
        let mut checked = Self::new();
        checked.diagnostics.append(config.not_available.clone());
        let library = Library::new(config.profiles.clone());
        for listed in library.list() {
            match listed.profile {
                Ok(file) => checked.profiles.push(file),
                Err(wrong) => checked.diagnostics.append(wrong),
            }
        }
        let scan = scan_devices(&config.devices, &library, &config.links, Some(&config.gateway.id));
        checked.devices = scan.setups;
        checked.refuse(scan.refused.into_iter().map(|refused| refused.diagnostics));
        checked
    }

    /// Takes over mistakes; those of a file that several devices share are said once.
    fn refuse(&mut self, refused: impl Iterator<Item = Diagnostics>) {
        let mut said = std::collections::HashSet::new();
        let known: Vec<String> = self.diagnostics.iter().map(ToString::to_string).collect();
        said.extend(known);
        for diagnostics in refused {
            let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
            if !lines.iter().all(|line| said.contains(line)) {
                self.diagnostics.append(diagnostics);
            }
            said.extend(lines);
        }
    }
}

/// Checks files, and folders with all `*.yaml` in and below them; their keys say what each file is.
///
/// `library` finds the profiles that devices name; those among the paths come first. `gateway` is the gateway's own
/// name, where it is known. Devices may name `links`, and those of the configurations among the paths.
pub fn check_paths(paths: &[PathBuf], mut library: Library, links: &Links, gateway: Option<&DeviceId>) -> Checked {
    let mut checked = Checked::new();
    let mut files = Vec::new();
    for path in paths {
        if let Err(error) = collect(path, 0, &mut files) {
            let mut wrong = Diagnostics::of(path.display().to_string().into(), "".into());
            wrong.report(FIRST, format!("cannot be read: {error}"));
            checked.diagnostics.append(wrong);
        }
    }
    let mut device_files = Vec::new();
    let mut links = links.clone();
    for file in files {
        let name = file.display().to_string();
        let text = match folder::read_text(&file) {
            Ok(text) => text,
            Err(error) => {
                let mut wrong = Diagnostics::of(name.into(), "".into());
                wrong.report(FIRST, format!("cannot be read: {error}"));
                checked.diagnostics.append(wrong);
                continue;
            }
        };
        match Document::parse(&name, &text).map(|document| sort_of(&document)) {
            Ok(Sort::Devices) => device_files.push(file),
            Ok(Sort::Profile) => match library.open_file(&file) {
                Ok(profile) => {
                    library.give(Arc::clone(&profile));
                    checked.profiles.push(profile);
                }
                Err(wrong) => checked.diagnostics.append(wrong),
            },
            Ok(Sort::Configuration) => {
                let folder = file.parent().unwrap_or(Path::new(""));
                match Config::of_text(&name, &text, folder, std::iter::empty(), "", Purpose::Gateway) {
                    Ok(config) => {
                        links.add(&config.links);
                        checked.diagnostics.append(config.not_available);
                    }
                    Err(wrong) => checked.diagnostics.append(wrong),
                }
            }
            Err(wrong) => checked.diagnostics.append(wrong),
        }
    }
    let scan = scan_files(&device_files, &library, &links, gateway);
    checked.devices = scan.setups;
    checked.refuse(scan.refused.into_iter().map(|refused| refused.diagnostics));
    checked
}

fn sort_of(document: &Document) -> Sort {
    let has = |key| document.root().get(key).is_some();
    if has("device") || has("devices") && document.root().get("devices").is_some_and(|n| n.scalar().is_none()) {
        Sort::Devices
    } else if has("profile") && has("groups") {
        Sort::Profile
    } else {
        Sort::Configuration
    }
}

fn collect(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    const DEEPEST: usize = 8; // links may go in circles
    if !path.metadata()?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    files.extend(folder::yaml_files(path)?);
    let mut folders: Vec<PathBuf> = path
        .read_dir()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir() && !path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b".")))
        .collect();
    folders.sort();
    if depth < DEEPEST {
        for folder in folders {
            collect(&folder, depth + 1, files)?;
        }
    }
    if files.len() > MAX_FILES {
        return Err(std::io::Error::other(format!("more than {MAX_FILES} files")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::library::tests::yaml;
    use super::*;
    use std::fs;

    #[test]
    fn keys_say_what_a_file_is() {
        for (text, sort) in [
            ("profile: a/b\ngroups: {}\n", Sort::Profile),
            ("device: a\nprofile: {profile: x/y, groups: {}}\n", Sort::Devices),
            ("devices: [{device: a}]\n", Sort::Devices),
            ("devices: /etc/devices.d\n", Sort::Configuration),
            ("mqtt: {}\n", Sort::Configuration),
            ("", Sort::Configuration),
        ] {
            assert_eq!(sort_of(&Document::parse("x", text).unwrap()), sort, "{text}");
        }
    }

    #[test]
    fn a_folder_is_checked_whole_and_its_profiles_serve_its_devices() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("profiles/acme/meter.yaml", &yaml("acme/meter", "1.0.0"));
        put("devices/a.yaml", "device: a\nprofile: acme/meter\nlink: {tcp: \"h:502\"}\nunit_id: 1\n");
        put("devices/b.yaml", "device: b\nprofile: acme/meter\nlink: {tcp: \"h:502\"}\n");
        put("fieldshadow.yaml", "mqtt: {ulr: x}\npublish: {history: true}\n");
        put("broken.yaml", "a: [\n");
        let checked = check_paths(&[folder.path().into()], Library::new(Vec::new()), &Links::none(), None);
        assert_eq!((checked.profiles.len(), checked.devices.len()), (1, 1));
        let lines = checked.diagnostics.lines();
        for line in [
            "fieldshadow.yaml:1:8: unknown key `ulr`",
            "broken.yaml:2:1: not valid YAML",
            "devices/b.yaml:1:1: a device needs `unit_id`",
        ] {
            assert!(lines.contains(line), "{line}\n{lines}");
        }
        let missing = check_paths(&["/no/such".into()], Library::new(Vec::new()), &Links::none(), None);
        assert!(missing.diagnostics.lines().starts_with("/no/such:1:1: cannot be read"));
    }

    #[test]
    fn planted_mistakes_are_found_in_devices() {
        let planted = Path::new("../shared/data/planted/language/bad-devices.yaml");
        if !planted.exists() {
            println!("skipped: no ../shared");
            return;
        }
        let checked = check_paths(&[planted.into()], Library::new(Vec::new()), &Links::none(), None);
        assert!(checked.devices.is_empty());
        let lines = checked.diagnostics.lines();
        let count = |line: u32| lines.lines().filter(|l| l.contains(&format!("bad-devices.yaml:{line}:"))).count();
        for (line, least) in [(2, 2), (3, 1), (4, 1), (5, 2), (6, 1), (7, 2), (8, 1)] {
            assert!(count(line) >= least, "line {line}\n{lines}");
        }
    }

    #[test]
    fn an_installation_is_checked_by_its_configuration() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("p/acme")).unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("p/acme/meter.yaml"), yaml("acme/meter", "1.0.0")).unwrap();
        fs::write(folder.path().join("p/acme/odd.yaml"), "profile: acme/odd\n").unwrap();
        let device = "device: a\nprofile: acme/odd\nlink: {tcp: \"h:502\"}\nunit_id: 1\n";
        fs::write(folder.path().join("d/a.yaml"), device).unwrap();
        let text = "profiles: [p]\ndevices: d\nmqtt: {also: [\"mqtt://x\"]}\n";
        let none = std::iter::empty();
        let config = Config::of_text("c.yaml", text, folder.path(), none, "h", Purpose::Gateway).unwrap();
        let checked = Checked::of_config(&config);
        let lines = checked.diagnostics.lines();
        assert!(lines.contains("c.yaml:3:14: warning: `mqtt.also` is not available"), "{lines}");
        assert!(lines.contains("odd.yaml:1:1: a profile needs `version`"), "{lines}");
        assert!(lines.contains("a.yaml:2:10: profile `acme/odd` has mistakes"), "{lines}");
        assert!(checked.profiles.iter().any(|p| &*p.profile.name == "acme/meter"));
    }
}
