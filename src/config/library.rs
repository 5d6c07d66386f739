//! Where profiles are found: in the folders of the search path, then among those built into the binary.

use super::folder;
use super::layers::FIRST;
use crate::document::{Diagnostics, Document, closest};
use crate::profile::{DeviceProfile, builtin, parse};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Finds profiles by name: `VENDOR/MODEL.yaml` under each folder, the first match wins, then the built-in ones.
///
/// A file is read anew at each look-up, and judged anew only when its text has changed.
#[derive(Debug)]
pub struct Library {
    folders: Vec<PathBuf>,
    /// Profiles that stand before all folders, by name: those that `check` was given.
    given: HashMap<String, Arc<ProfileFile>>,
    /// What each file held last.
    known: Mutex<HashMap<String, (Arc<str>, Judged)>>,
}

type Judged = Result<Arc<ProfileFile>, Diagnostics>;

/// Most files remembered; beyond, all are forgotten and read again.
const MAX_KNOWN: usize = 4096;

/// A profile and where it comes from.
#[derive(Debug)]
pub struct ProfileFile {
    /// The profile.
    pub profile: Arc<DeviceProfile>,
    /// Where it stands.
    pub origin: Origin,
    /// Equal as long as nothing that a device's polling or shadow depends on has changed. Within one process only.
    pub fingerprint: u64,
}

/// Where a profile stands. `Display` gives the path, `built in` or `inline`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File(PathBuf),
    /// In the binary.
    BuiltIn,
    /// In a device file.
    Inline,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::BuiltIn => f.write_str("built in"),
            Self::Inline => f.write_str("inline"),
        }
    }
}

/// Why a look-up gave no profile.
#[derive(Debug)]
pub enum NotFound {
    /// There is none of that name or version: what is wrong, and what would be right.
    Nowhere {
        /// What is wrong.
        message: String,
        /// What would be right.
        remedy: Option<String>,
    },
    /// There is one, with mistakes.
    Broken(Diagnostics),
}

/// One line of the list of profiles.
#[derive(Debug)]
pub struct Listed {
    /// `vendor/model`, by the file's place.
    pub name: String,
    /// Where it stands.
    pub origin: Origin,
    /// Another of the same name stands before it.
    pub shadowed: bool,
    /// The profile, or its mistakes.
    pub profile: Judged,
}

impl ProfileFile {
    pub(super) fn new(profile: DeviceProfile, origin: Origin) -> Self {
        // The tests of a profile, and the places of their lines, change nothing for a device.
        let tests_apart = DeviceProfile { tests: Vec::new(), ..profile.clone() };
        let mut hasher = DefaultHasher::new();
        format!("{tests_apart:?}").hash(&mut hasher);
        Self { profile: Arc::new(profile), origin, fingerprint: hasher.finish() }
    }
}

impl Library {
    /// A library with this search path; folders that do not exist are passed over.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders, given: HashMap::new(), known: Mutex::default() }
    }

    /// Puts a profile before all folders.
    pub(super) fn give(&mut self, file: Arc<ProfileFile>) {
        self.given.insert(file.profile.name.to_string(), file);
    }

    /// The profile that a user names: a file's path where such a file exists, else a name with or without a version.
    pub fn open(&self, name_or_path: &str) -> Judged {
        let path = Path::new(name_or_path);
        if path.is_file() {
            return self.open_file(path);
        }
        self.find(name_or_path).map_err(|not_found| match not_found {
            NotFound::Broken(wrong) => wrong,
            NotFound::Nowhere { message, remedy } => {
                let mut wrong = Diagnostics::of(name_or_path.into(), "".into());
                wrong.report(FIRST, message).remedy = remedy;
                wrong
            }
        })
    }

    /// The profile of this file.
    pub fn open_file(&self, path: &Path) -> Judged {
        let name = path.display().to_string();
        match folder::read_text(path) {
            Ok(text) => self.judge(&name, &text, Origin::File(path.to_owned())),
            Err(error) => {
                let mut wrong = Diagnostics::of(name.into(), "".into());
                wrong.report(FIRST, format!("cannot be read: {error}"));
                Err(wrong)
            }
        }
    }

    /// The profile of this name; `@1.2` behind it takes versions 1.2.x only.
    pub fn find(&self, name: &str) -> Result<Arc<ProfileFile>, NotFound> {
        let (name, pin) = name.split_once('@').map_or((name, None), |(name, pin)| (name, Some(pin)));
        let fit = |part: &str, more: &[char]| {
            let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || more.contains(&c);
            !part.is_empty() && part.chars().all(allowed)
        };
        if !name.split_once('/').is_some_and(|(vendor, model)| fit(vendor, &[]) && fit(model, &['.', '_'])) {
            return Err(NotFound::Nowhere {
                message: format!("`{name}` is no name of a profile"),
                remedy: Some("write it as vendor/model, in lower case".into()),
            });
        }
        let mut other_versions = Vec::new();
        for found in self.candidates(name) {
            let file = found.map_err(NotFound::Broken)?;
            if &*file.profile.name != name {
                return Err(NotFound::Broken(self.misplaced(name, &file)));
            }
            match pin {
                Some(pin) if !matches_pin(&file.profile.version, pin) => {
                    other_versions.push(format!("{} ({})", file.profile.version, file.origin));
                }
                _ => return Ok(file),
            }
        }
        if let Some(pin) = pin.filter(|_| !other_versions.is_empty()) {
            return Err(NotFound::Nowhere {
                message: format!("profile `{name}` has no version {pin}"),
                remedy: Some(format!("there is {}", other_versions.join(", "))),
            });
        }
        let names = self.names();
        Err(NotFound::Nowhere {
            message: format!("no profile `{name}` in the search path, nor built in"),
            remedy: Some(match closest(name, names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`fieldshadow profile list` shows those that there are".into(),
            }),
        })
    }

    /// All profiles of the search path and the built-in ones, in order of names, shadowed ones too.
    pub fn list(&self) -> Vec<Listed> {
        let mut listed = Vec::new();
        for folder in &self.folders {
            for (name, path) in profile_files(folder) {
                let profile = self.open_file(&path).and_then(|file| {
                    if *file.profile.name == *name { Ok(file) } else { Err(self.misplaced(&name, &file)) }
                });
                listed.push(Listed { name, origin: Origin::File(path), shadowed: false, profile });
            }
        }
        for (name, text) in builtin() {
            let profile = self.judge(&built_in_name(name), text, Origin::BuiltIn);
            listed.push(Listed { name: (*name).to_owned(), origin: Origin::BuiltIn, shadowed: false, profile });
        }
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        for i in 1..listed.len() {
            listed[i].shadowed = listed[i].name == listed[i - 1].name;
        }
        listed
    }

    /// Every place where a profile of this name may stand, in order; lazily, so that a broken one behind the first does
    /// not matter.
    fn candidates<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Judged> + 'a {
        let given = self.given.get(name).map(|file| Ok(Arc::clone(file)));
        let files = self.folders.iter().map(move |folder| folder.join(format!("{name}.yaml")));
        let built_in = builtin().iter().filter(move |(n, _)| *n == name);
        given
            .into_iter()
            .chain(files.filter(|path| path.is_file()).map(|path| self.open_file(&path)))
            .chain(built_in.map(|(name, text)| self.judge(&built_in_name(name), text, Origin::BuiltIn)))
    }

    fn names(&self) -> BTreeSet<String> {
        let files = self.folders.iter().flat_map(|folder| profile_files(folder)).map(|(name, _)| name);
        files.chain(self.given.keys().cloned()).chain(builtin().iter().map(|(name, _)| (*name).to_owned())).collect()
    }

    fn judge(&self, name: &str, text: &str, origin: Origin) -> Judged {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, judged)) = known.get(name).filter(|(known, _)| **known == *text) {
            return judged.clone();
        }
        let judged = Document::parse(name, text)
            .and_then(|document| parse(&document))
            .map(|profile| Arc::new(ProfileFile::new(profile, origin)));
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(name.to_owned(), (text.into(), judged.clone()));
        judged
    }

    /// A file whose place says another name than its content: whoever looks for either would be misled.
    fn misplaced(&self, name: &str, file: &ProfileFile) -> Diagnostics {
        let path = file.origin.to_string();
        let text =
            self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&path).map(|(text, _)| Arc::clone(text));
        let document = Document::parse(&path, text.as_deref().unwrap_or_default());
        let place = document.as_ref().ok().and_then(|d| d.at(&["profile"])).map_or(FIRST, |node| node.place);
        let mut wrong = Diagnostics::of(path.into(), text.unwrap_or_default());
        wrong
            .report(place, format!("the file's place says `{name}`, its content `{}`", file.profile.name))
            .remedy(format!("move it to {}.yaml, or rename the profile", file.profile.name));
        wrong
    }
}

fn built_in_name(name: &str) -> String {
    format!("built-in:{name}")
}

/// Whether a version begins with the numbers of a pin: 1.2.3 fits `1`, `1.2` and `1.2.3`, not `1.20`.
fn matches_pin(version: &str, pin: &str) -> bool {
    let mut parts = version.split('.');
    pin.split('.').all(|pinned| parts.next() == Some(pinned))
}

/// Name and path of each `VENDOR/MODEL.yaml` under a folder, in order; nothing where it cannot be read.
fn profile_files(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut vendors: Vec<PathBuf> =
        folder.read_dir().into_iter().flatten().flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    vendors.sort();
    vendors.truncate(folder::MAX_FILES);
    let mut files = Vec::new();
    for vendor in vendors {
        for path in folder::yaml_files(&vendor).unwrap_or_default() {
            let model = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".yaml"));
            if let (Some(vendor), Some(model)) = (vendor.file_name().and_then(|n| n.to_str()), model) {
                files.push((format!("{vendor}/{model}"), path));
            }
        }
    }
    files
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::fs;

    /// A small profile of this name and version.
    pub(in crate::config) fn yaml(name: &str, version: &str) -> String {
        format!(
            "profile: {name}\nversion: {version}\ngroups:\n  fast: {{every: 500ms, points: {{a: {{address: 0, type: \
             u16}}, b.c: {{address: 1, type: u16, access: rw}}}}}}\n  slow: {{every: 5s, points: {{d: {{address: 9, \
             type: u16}}}}}}\n"
        )
    }

    fn put(folder: &Path, name: &str, text: &str) {
        let path = folder.join(format!("{name}.yaml"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn message(not_found: NotFound) -> String {
        match not_found {
            NotFound::Nowhere { message, remedy } => format!("{message}; {}", remedy.unwrap_or_default()),
            NotFound::Broken(wrong) => wrong.lines(),
        }
    }

    #[test]
    fn the_first_folder_wins_unless_a_version_is_pinned() {
        let (own, shipped) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(own.path(), "acme/meter", &yaml("acme/meter", "2.0.0"));
        put(shipped.path(), "acme/meter", &yaml("acme/meter", "1.2.3"));
        put(shipped.path(), "acme/drive", &yaml("acme/drive", "1.0.0"));
        let library = Library::new(vec![own.path().into(), "/no/such".into(), shipped.path().into()]);
        let version = |name| library.find(name).map(|f| f.profile.version.to_string()).map_err(message);
        assert_eq!(version("acme/meter").unwrap(), "2.0.0");
        assert_eq!(version("acme/meter@1.2").unwrap(), "1.2.3");
        assert_eq!(version("acme/meter@1").unwrap(), "1.2.3");
        assert!(
            version("acme/meter@1.20").unwrap_err().starts_with("profile `acme/meter` has no version 1.20; there is")
        );
        assert_eq!(
            version("acme/mter").unwrap_err(),
            "no profile `acme/mter` in the search path, nor built in; did you mean `acme/meter`?"
        );
        for odd in ["meter", "Acme/meter", "acme/../x", "/etc/passwd", "acme/a/b", ""] {
            assert!(version(odd).unwrap_err().contains("is no name of a profile"), "{odd}");
        }
        let listed = library.list();
        let names: Vec<_> =
            listed.iter().filter(|l| l.origin != Origin::BuiltIn).map(|l| (&*l.name, l.shadowed)).collect();
        assert_eq!(names, [("acme/drive", false), ("acme/meter", false), ("acme/meter", true)]);
    }

    #[test]
    fn a_changed_file_is_read_anew_and_comments_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "acme/meter", &yaml("acme/meter", "1.0.0"));
        let library = Library::new(vec![folder.path().into()]);
        let first = library.find("acme/meter").unwrap();
        assert!(Arc::ptr_eq(&first, &library.find("acme/meter").unwrap()), "judged twice");
        put(folder.path(), "acme/meter", &("# a comment\n".to_owned() + &yaml("acme/meter", "1.0.0")));
        let second = library.find("acme/meter").unwrap();
        assert_eq!(first.fingerprint, second.fingerprint);
        put(folder.path(), "acme/meter", &yaml("acme/meter", "1.0.0").replace("address: 9", "address: 8"));
        assert_ne!(library.find("acme/meter").unwrap().fingerprint, first.fingerprint);
    }

    #[test]
    fn broken_and_misplaced_profiles_are_located() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "acme/broken", "profile: acme/broken\nversion: 1\n");
        put(folder.path(), "acme/other", &yaml("acme/meter", "1.0.0"));
        let library = Library::new(vec![folder.path().into()]);
        let broken = message(library.find("acme/broken").unwrap_err());
        assert!(broken.contains("acme/broken.yaml:2:10: "), "{broken}");
        let misplaced = message(library.find("acme/other").unwrap_err());
        assert!(misplaced.contains("acme/other.yaml:1:10: the file's place says `acme/other`"), "{misplaced}");
        assert!(library.list().iter().filter(|l| l.origin != Origin::BuiltIn).all(|l| l.profile.is_err()));
        let path = folder.path().join("acme/other.yaml");
        assert_eq!(&*library.open(&path.display().to_string()).unwrap().profile.name, "acme/meter");
        assert!(library.open("/no/such.yaml").unwrap_err().lines().contains("is no name of a profile"));
    }
}
