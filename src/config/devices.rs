//! Device files: which devices there are, and which of them cannot run, with the reason.
//!
//! One bad file stops only its own devices. Where a file is no YAML at all, the names in it are still recognised, so
//! that each device's status can say what is wrong.

use super::device_values::{Selection, Writes, device_id, intervals, labels};
use super::folder;
use super::layers::FIRST;
use super::library::{Library, NotFound, Origin, ProfileFile};
use super::link::{Link, Links};
use super::restrict::{with_intervals, with_points};
use crate::document::{Content, Diagnostics, Document, Fields, Node, Place};
use crate::modbus::UnitId;
use crate::model::DeviceId;
use crate::profile::{DeviceProfile, parse_node};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A device, ready to be polled.
#[derive(Debug, Clone)]
pub struct DeviceSetup {
    /// Its name.
    pub device: DeviceId,
    /// Its profile as it uses it: own intervals and left-out points are in already. Shared where nothing differs.
    pub profile: Arc<DeviceProfile>,
    /// Where the profile stands.
    pub origin: Origin,
    /// How it is reached.
    pub link: Link,
    /// Who it is there.
    pub unit_id: UnitId,
    /// Free labels, usable in topic templates.
    pub place: BTreeMap<String, String>,
    /// What may be written.
    pub writes: Writes,
    /// Equal as long as nothing of all this has changed. Within one process only.
    pub fingerprint: u64,
    /// `file:line:column` of its name.
    pub stands_at: String,
    /// The file that names it.
    pub file: PathBuf,
}

/// A device, or a file, that cannot be used.
#[derive(Debug, Clone)]
pub struct Refused {
    /// Which device, where that could be told.
    pub device: Option<DeviceId>,
    /// Which file.
    pub file: PathBuf,
    /// Why.
    pub diagnostics: Diagnostics,
}

/// What a devices folder holds.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// Devices that can run, in order of files.
    pub setups: Vec<DeviceSetup>,
    /// Those that cannot.
    pub refused: Vec<Refused>,
}

/// Reads all `*.yaml` of a folder. Names that begin with `.` or end in `~` are passed over; a file that vanishes
/// meanwhile is no error; files above 1 MiB and more than 10 000 of them are. `links` are those that devices may name.
pub fn scan_devices(folder: &Path, library: &Library, links: &Links, gateway: Option<&DeviceId>) -> Scan {
    match folder::yaml_files(folder) {
        Ok(files) => scan_files(&files, library, links, gateway),
        Err(error) => {
            let mut diagnostics = Diagnostics::of(folder.display().to_string().into(), "".into());
            diagnostics.report(FIRST, format!("the folder of devices cannot be read: {error}"));
            let refused = vec![Refused { device: None, file: folder.to_owned(), diagnostics }];
            Scan { setups: Vec::new(), refused }
        }
    }
}

/// The same for a list of files.
pub(super) fn scan_files(files: &[PathBuf], library: &Library, links: &Links, gateway: Option<&DeviceId>) -> Scan {
    let mut reader =
        Reader { library, links, gateway, candidates: Vec::new(), refused: Vec::new(), shared: HashMap::new() };
    for file in files {
        reader.file(file);
    }
    reader.refuse_twins();
    reader.refuse_other_settings();
    reader.finish()
}

/// A device as far as it could be read.
struct Candidate {
    device: Option<DeviceId>,
    setup: Option<DeviceSetup>,
    file: PathBuf,
    /// Place of its name, of its link and of its unit id.
    marks: Marks,
    wrong: Diagnostics,
}

#[derive(Clone, Copy)]
struct Marks {
    device: Place,
    link: Place,
}

struct Reader<'a> {
    library: &'a Library,
    links: &'a Links,
    gateway: Option<&'a DeviceId>,
    candidates: Vec<Candidate>,
    refused: Vec<Refused>,
    /// Profiles changed by device files, by their fingerprint.
    shared: HashMap<u64, Arc<DeviceProfile>>,
}

impl Reader<'_> {
    fn file(&mut self, file: &Path) {
        let name = file.display().to_string();
        let text = match folder::read_text(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                let mut diagnostics = Diagnostics::of(name.into(), "".into());
                diagnostics.report(FIRST, format!("cannot be read: {error}"));
                return self.refused.push(Refused { device: None, file: file.to_owned(), diagnostics });
            }
        };
        match Document::parse(&name, &text) {
            Ok(document) => self.document(file, &document),
            Err(diagnostics) => {
                let mut devices: Vec<Option<DeviceId>> = names_in(&text).into_iter().map(Some).collect();
                if devices.is_empty() {
                    devices.push(None);
                }
                let refused = |device| Refused { device, file: file.to_owned(), diagnostics: diagnostics.clone() };
                self.refused.extend(devices.into_iter().map(refused));
            }
        }
    }

    fn document(&mut self, file: &Path, document: &Document) {
        let Some(list) = document.root().get("devices").filter(|_| document.root().get("device").is_none()) else {
            return self.device(file, document, document.root(), Diagnostics::new(document));
        };
        let mut wrong = Diagnostics::new(document);
        if let Some(mut fields) = Fields::open(document.root(), "a file of devices", &mut wrong) {
            fields.optional("devices");
            fields.close(&[], &mut wrong);
        }
        let items = wrong.keep(list.items()).unwrap_or_default();
        if items.is_empty() && (wrong.has_errors() || list.items().is_err()) {
            self.refused.push(Refused { device: None, file: file.to_owned(), diagnostics: wrong });
            return;
        }
        // A mistake beside the list may concern any of them.
        for item in items {
            self.device(file, document, item, wrong.clone());
        }
    }

    fn device(&mut self, file: &Path, document: &Document, node: &Node, mut wrong: Diagnostics) {
        let mut marks = Marks { device: node.place, link: node.place };
        let Some(mut fields) = Fields::open(node, "a device", &mut wrong) else {
            let (device, setup) = (None, None);
            return self.candidates.push(Candidate { device, setup, file: file.to_owned(), marks, wrong });
        };
        let device = fields.required("device", &mut wrong).and_then(|node| {
            marks.device = node.place;
            wrong.keep(device_id(node, self.gateway))
        });
        let profile = fields.required("profile", &mut wrong).and_then(|n| self.profile(document, n, &mut wrong));
        let written = fields.required("link", &mut wrong).and_then(|node| {
            marks.link = node.place;
            self.links.link_of(node, file.parent().unwrap_or(Path::new("")), &mut wrong)
        });
        let unit_id = fields.required("unit_id", &mut wrong).and_then(|node| {
            let number = wrong.keep(node.integer_within("unit_id", 0..=255))?;
            Some((UnitId(number as u8), node.place))
        });
        let place = fields.optional("place").map(|n| labels(n, &mut wrong)).unwrap_or_default();
        let writes = fields.optional("writes");
        let points = fields.optional("points");
        let every = fields.optional("every");
        fields.close(&["commit_with"], &mut wrong);
        let (writes, profile) = match &profile {
            Some(profile) => {
                let writes = writes.map(|n| Writes::read(n, Some(&profile.profile), &mut wrong)).unwrap_or_default();
                (writes, self.adapted(profile, points, every, &mut wrong).map(|p| (p, profile.origin.clone())))
            }
            None => (writes.map(|n| Writes::read(n, None, &mut wrong)).unwrap_or_default(), None),
        };
        let link = profile.as_ref().and_then(|((profile, _), _)| written?.resolve(profile, marks.link, &mut wrong));
        if let (Some(link), Some(((profile, _), _)), Some((unit_id, place))) = (&link, &profile, unit_id)
            && let Err((message, remedy)) = link.admits(unit_id, profile)
        {
            wrong.report(place, message).remedy(remedy);
        }
        let setup = match (&device, profile, link, unit_id) {
            (Some(device), Some(((profile, profile_fingerprint), origin)), Some(link), Some((unit_id, _))) => {
                let mut hasher = DefaultHasher::new();
                (device, profile_fingerprint, &link, unit_id, &place, &writes).hash(&mut hasher);
                Some(DeviceSetup {
                    device: device.clone(),
                    profile,
                    origin,
                    link,
                    unit_id,
                    place,
                    writes,
                    fingerprint: hasher.finish(),
                    stands_at: stands_at(document.file(), marks.device),
                    file: file.to_owned(),
                })
            }
            _ => None,
        };
        self.candidates.push(Candidate { device, setup, file: file.to_owned(), marks, wrong });
    }

    fn profile(&self, document: &Document, node: &Node, wrong: &mut Diagnostics) -> Option<Arc<ProfileFile>> {
        if matches!(node.content, Content::Mapping(_)) {
            return match parse_node(document, node) {
                Ok(profile) => Some(Arc::new(ProfileFile::new(profile, Origin::Inline))),
                Err(mistakes) => {
                    wrong.append(mistakes);
                    None
                }
            };
        }
        let name = wrong.keep(node.text())?;
        match self.library.find(name) {
            Ok(file) => Some(file),
            Err(NotFound::Nowhere { message, remedy }) => {
                wrong.report(node.place, message).remedy = remedy;
                None
            }
            Err(NotFound::Broken(mistakes)) => {
                let count = mistakes.len();
                let plural = if count == 1 { "a mistake" } else { "mistakes" };
                wrong.report(node.place, format!("profile `{name}` has {plural}")).remedy("see there");
                wrong.append(mistakes);
                None
            }
        }
    }

    /// The profile with the device's own intervals and points, and a fingerprint of the outcome.
    fn adapted(
        &mut self,
        file: &ProfileFile,
        points: Option<&Node>,
        every: Option<&Node>,
        wrong: &mut Diagnostics,
    ) -> Option<(Arc<DeviceProfile>, u64)> {
        let intervals = every.map(|node| intervals(node, &file.profile, wrong)).unwrap_or_default();
        let selection = points.map(|node| Selection::read(node, &file.profile, wrong));
        if intervals.is_empty() && selection.is_none() {
            return Some((Arc::clone(&file.profile), file.fingerprint));
        }
        let mut hasher = DefaultHasher::new();
        (file.fingerprint, &intervals, &selection).hash(&mut hasher);
        let fingerprint = hasher.finish();
        if let Some(shared) = self.shared.get(&fingerprint) {
            return Some((Arc::clone(shared), fingerprint));
        }
        let place = every.or(points).map_or(FIRST, |node| node.place);
        let path = |id: crate::model::PointId| &file.profile.points[usize::from(id.0)].path;
        let parted = file.profile.parted_by(&intervals);
        for (point, on) in &parted {
            wrong
                .report(
                    place,
                    format!(
                        "`{}` is valid only with `{}`, which is read at another interval then",
                        path(*point),
                        path(*on)
                    ),
                )
                .remedy("give the groups of both the same interval");
        }
        let mut profile = with_intervals((*file.profile).clone(), &intervals);
        if let Some(selection) = selection {
            profile = match with_points(profile, |point| selection.keeps(&point.path)) {
                Ok(profile) if profile.points.is_empty() => {
                    wrong.report(points.map_or(place, |n| n.place), "no point is left").remedy("leave fewer out");
                    return None;
                }
                Ok(profile) => profile,
                Err(torn) => {
                    for (point, on) in torn {
                        wrong
                            .report(
                                points.map_or(place, |n| n.place),
                                format!("`{point}` is valid only with `{on}`, which is left out"),
                            )
                            .remedy(format!("leave `{point}` out as well"));
                    }
                    return None;
                }
            };
        }
        if !parted.is_empty() {
            return None;
        }
        let profile = Arc::new(profile);
        self.shared.insert(fingerprint, Arc::clone(&profile));
        Some((profile, fingerprint))
    }

    /// One name twice: neither runs, for nobody can tell which is meant. One unit twice: only if nobody writes.
    fn refuse_twins(&mut self) {
        let mut by_name: HashMap<DeviceId, Vec<usize>> = HashMap::new();
        let mut by_unit: HashMap<(String, UnitId), Vec<usize>> = HashMap::new();
        for (i, candidate) in self.candidates.iter().enumerate() {
            if let Some(device) = &candidate.device {
                by_name.entry(device.clone()).or_default().push(i);
            }
            if let Some(setup) = &candidate.setup {
                by_unit.entry((setup.link.far_end.key(), setup.unit_id)).or_default().push(i);
            }
        }
        let place_of = |candidate: &Candidate| stands_at(&candidate.file.display().to_string(), candidate.marks.device);
        for (device, twins) in by_name.iter().filter(|(_, twins)| twins.len() > 1) {
            for i in twins {
                let other = twins.iter().find(|j| *j != i).map(|j| place_of(&self.candidates[*j])).unwrap_or_default();
                let Candidate { wrong, marks, .. } = &mut self.candidates[*i];
                wrong
                    .report(marks.device, format!("device `{device}` stands twice, also at {other}"))
                    .remedy("give one of them another name, or take it out");
            }
        }
        for ((far_end, unit_id), twins) in by_unit.iter().filter(|(_, twins)| twins.len() > 1) {
            let writes = |i: &usize| self.candidates[*i].setup.as_ref().is_some_and(|s| s.writes != Writes::Deny);
            let same_name = |i: &usize| self.candidates[*i].device == self.candidates[twins[0]].device;
            if !twins.iter().any(writes) || twins.iter().all(same_name) {
                continue;
            }
            for i in twins {
                let other = twins.iter().find(|j| *j != i).map(|j| place_of(&self.candidates[*j])).unwrap_or_default();
                let Candidate { wrong, marks, .. } = &mut self.candidates[*i];
                wrong
                    .report(
                        marks.link,
                        format!("unit {unit_id} of {far_end} is used twice, also at {other}, and may be written"),
                    )
                    .remedy("two devices may share a unit only where both say `writes: deny`");
            }
        }
    }

    /// One port or host is one link with one set of settings. Where files differ, those of most devices stand: a file
    /// that is dropped in must not stop a line that runs. Where no settings have most, nobody can tell which are right.
    fn refuse_other_settings(&mut self) {
        let mut by_far_end: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, candidate) in self.candidates.iter().enumerate() {
            if let Some(setup) = candidate.setup.as_ref().filter(|_| !candidate.wrong.has_errors()) {
                by_far_end.entry(setup.link.far_end.key()).or_default().push(i);
            }
        }
        for (far_end, sharers) in by_far_end {
            let link = |i: usize| self.candidates[i].setup.as_ref().map(|s| s.link.shared());
            let alike = |i: usize| sharers.iter().filter(|j| link(**j) == link(i)).count();
            let most = sharers.iter().map(|i| alike(*i)).max().unwrap_or_default();
            if most == sharers.len() {
                continue;
            }
            let standing: Vec<usize> = sharers.iter().copied().filter(|i| alike(*i) == most).collect();
            let one_stands = standing.iter().all(|i| link(*i) == link(standing[0]));
            let refused: Vec<(usize, String)> = sharers
                .iter()
                .filter(|i| !(one_stands && standing.contains(i)))
                .filter_map(|i| {
                    let other = standing.iter().find(|j| link(**j) != link(*i))?;
                    let other = &self.candidates[*other];
                    let at = stands_at(&other.file.display().to_string(), other.marks.link);
                    Some((*i, at))
                })
                .collect();
            for (i, other) in refused {
                let Candidate { wrong, marks, .. } = &mut self.candidates[i];
                wrong
                    .report(marks.link, format!("{far_end} has other settings here than at {other}"))
                    .remedy("one port or host is one link: write the same everywhere, or name it under `links` in the configuration");
            }
        }
    }

    fn finish(self) -> Scan {
        let mut scan = Scan { setups: Vec::new(), refused: self.refused };
        for mut candidate in self.candidates {
            match candidate.setup.take() {
                Some(setup) if !candidate.wrong.has_errors() => scan.setups.push(setup),
                _ => {
                    candidate.wrong.sort();
                    scan.refused.push(Refused {
                        device: candidate.device,
                        file: candidate.file,
                        diagnostics: candidate.wrong,
                    });
                }
            }
        }
        scan
    }
}

fn stands_at(file: &str, place: Place) -> String {
    format!("{file}:{}:{}", place.line, place.column)
}

/// The names of devices that a broken text still shows: whatever stands behind `device:` at the begin of a line, of an
/// item or of a flow mapping.
fn names_in(text: &str) -> Vec<DeviceId> {
    const MOST: usize = 1000;
    let mut names: Vec<DeviceId> = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches([' ', '\t', '-', '{', '\u{feff}']);
        let Some(rest) = line.strip_prefix("device:") else { continue };
        let name = rest.trim_start().trim_start_matches(['"', '\'']);
        let end =
            name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-'))).unwrap_or(name.len());
        if let Ok(id) = DeviceId::new(&name[..end])
            && !names.contains(&id)
            && names.len() < MOST
        {
            names.push(id);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::library::tests::yaml;
    use super::*;
    use std::fs;
    use std::time::Duration;

    /// A devices folder with these files, and a library that has acme/meter.
    fn scan(files: &[(&str, &str)]) -> Scan {
        let folder = tempfile::tempdir().unwrap();
        let profiles = folder.path().join("profiles");
        fs::create_dir_all(profiles.join("acme")).unwrap();
        fs::write(profiles.join("acme/meter.yaml"), yaml("acme/meter", "1.2.0")).unwrap();
        fs::write(profiles.join("acme/broken.yaml"), "profile: acme/broken\nversion: 1.0.0\n").unwrap();
        let devices = folder.path().join("devices.d");
        fs::create_dir(&devices).unwrap();
        for (name, text) in files {
            fs::write(devices.join(name), text).unwrap();
        }
        scan_devices(&devices, &Library::new(vec![profiles]), &Links::none(), Some(&DeviceId::new("gw-1").unwrap()))
    }

    fn good(name: &str) -> String {
        format!("device: {name}\nprofile: acme/meter@1.2\nlink: {{tcp: \"10.0.0.1:502\"}}\nunit_id: 1\n")
    }

    /// All that was said, with the file's name only.
    fn said(scan: &Scan) -> String {
        let mut out = String::new();
        for refused in &scan.refused {
            for line in refused.diagnostics.lines().lines() {
                let at = line.find(".yaml:").map_or(0, |end| line[..end].rfind('/').map_or(0, |i| i + 1));
                out.push_str(&line[at..]);
                out.push('\n');
            }
        }
        out
    }

    fn ids(scan: &Scan) -> (Vec<String>, Vec<Option<String>>) {
        let refused = scan.refused.iter().map(|r| r.device.as_ref().map(ToString::to_string));
        (scan.setups.iter().map(|s| s.device.to_string()).collect(), refused.collect())
    }

    #[test]
    fn a_device_file_gives_a_device() {
        let scan = scan(&[("a.yaml", &(good("press-3") + "place: {site: north}\nwrites: [b.c]\n"))]);
        assert_eq!(said(&scan), "");
        let setup = &scan.setups[0];
        assert_eq!(setup.device.as_str(), "press-3");
        assert_eq!(setup.link.to_string(), "10.0.0.1:502");
        assert_eq!((setup.unit_id, &*setup.profile.name), (UnitId(1), "acme/meter"));
        assert_eq!(setup.place["site"], "north");
        assert_eq!(setup.writes, Writes::Points(vec!["b.c".into()]));
        assert!(setup.stands_at.ends_with("a.yaml:1:9"), "{}", setup.stands_at);
    }

    #[test]
    fn profiles_are_inline_or_shared() {
        let inline = format!(
            "device: one\nlink: {{tcp: \"h:1\"}}\nunit_id: 0\nprofile:\n  {}",
            yaml("x/y", "1.0.0").trim_end().replace('\n', "\n  ")
        );
        let second = good("three").replace("unit_id: 1", "unit_id: 255");
        let scan = scan(&[("a.yaml", &inline), ("b.yaml", &good("two")), ("c.yaml", &second)]);
        assert_eq!(said(&scan), "");
        assert_eq!((&*scan.setups[0].profile.name, &scan.setups[0].origin), ("x/y", &Origin::Inline));
        assert!(Arc::ptr_eq(&scan.setups[1].profile, &scan.setups[2].profile));
        assert_ne!(scan.setups[1].fingerprint, scan.setups[2].fingerprint);
    }

    #[test]
    fn a_device_s_own_intervals_and_points() {
        let own = "every: {fast: 2s, slow: once}\npoints: {exclude: [b.*]}\n";
        let scan = scan(&[
            ("a.yaml", &(good("a") + own)),
            ("b.yaml", &(good("b").replace("unit_id: 1", "unit_id: 2") + own)),
            ("c.yaml", &(good("c").replace("unit_id: 1", "unit_id: 3") + "points: {include: [d]}\n")),
        ]);
        assert_eq!(said(&scan), "");
        let profile = &scan.setups[0].profile;
        assert_eq!(profile.groups.iter().map(|g| g.every).collect::<Vec<_>>(), [Some(Duration::from_secs(2)), None]);
        assert_eq!(profile.points.iter().map(|p| &*p.path).collect::<Vec<_>>(), ["a", "d"]);
        assert!(Arc::ptr_eq(profile, &scan.setups[1].profile));
        assert_eq!((scan.setups[2].profile.groups.len(), scan.setups[2].profile.points.len()), (1, 1));
    }

    #[test]
    fn f131_every_mistake_of_a_device_is_found_at_once() {
        let text = "\
device: press 3
profile: acme/mter
link: {tcp: \"10.0.0.1\"}
unit_id: 256
unitid: 1
writes: maybe
place: {site: 5}
commit_with: x
";
        assert_eq!(
            said(&scan(&[("a.yaml", text)])),
            "a.yaml:1:9: ` ` cannot stand in a device's name: letters, digits, `:`, `_` and `-` can\n\
             a.yaml:2:10: no profile `acme/mter` in the search path, nor built in; did you mean `acme/meter`?\n\
             a.yaml:3:13: `10.0.0.1` is no host with a port of 1 to 65535; write \"10.0.0.1:502\", or the port that the \
             device has\n\
             a.yaml:4:10: unit_id is 256, it may be 0 to 255; write a number from 0 to 255\n\
             a.yaml:5:1: unknown key `unitid`; did you mean `unit_id`?\n\
             a.yaml:6:9: `maybe` is none of deny, selectors, allow; write `deny`, `selectors` or `allow`\n\
             a.yaml:7:15: expects text, found `5`; write \"5\" in quotes\n\
             a.yaml:8:1: `commit_with` is not available in this version; leave `commit_with` out\n"
        );
        let text = good("a") + "every: {fst: 1s, slow: 5}\npoints: {exclude: [zz], other: 1}\nwrites: [a, b.d]\n";
        assert_eq!(
            said(&scan(&[("a.yaml", &text)])),
            "a.yaml:5:9: profile `acme/meter` has no group `fst`; did you mean `fast`?\n\
             a.yaml:5:24: a duration needs a unit: ms, s, m, h or d; write 5ms or 5s\n\
             a.yaml:6:20: profile `acme/meter` has no point `zz`\n\
             a.yaml:6:25: unknown key `other`; a selection of points has no such key\n\
             a.yaml:7:10: `a` is read only in profile `acme/meter`; leave it out, or give the point `access: rw`\n\
             a.yaml:7:13: profile `acme/meter` has no point `b.d`; did you mean `b.c`?\n"
        );
    }

    #[test]
    fn one_bad_file_stops_only_its_own_devices() {
        let list = "devices:\n  - {device: p1, profile: acme/meter, link: {tcp: \"h:1\"}, unit_id: 1}\n  - {device: p2, \
                    profile: acme/broken, link: {tcp: \"h:1\"}, unit_id: 2}\n";
        let scan = scan(&[
            ("a.yaml", &good("a")),
            ("b.yaml", "device: lost\nprofile: [\n"),
            ("c.yaml", list),
            ("d.yaml", "x: [\n"),
            ("e.yaml~", "x: [\n"),
            (".f.yaml", "x: [\n"),
        ]);
        let (running, refused) = ids(&scan);
        assert_eq!(running, ["a", "p1"]);
        assert_eq!(refused, [Some("lost".into()), None, Some("p2".into())]);
        let said = said(&scan);
        assert!(said.contains("c.yaml:3:27: profile `acme/broken` has a mistake"), "{said}");
        assert!(said.contains("broken.yaml:1:1: a profile needs `groups`"), "{said}");
    }

    #[test]
    fn one_name_twice_stops_both() {
        let twin = good("a").replace("unit_id: 1", "unit_id: 2");
        let scan = scan(&[("a.yaml", &good("a")), ("b.yaml", &twin), ("c.yaml", &good("c"))]);
        assert_eq!(ids(&scan), (vec!["c".to_owned()], vec![Some("a".into()), Some("a".into())]));
        let said = said(&scan);
        assert!(said.contains("a.yaml:1:9: device `a` stands twice, also at "), "{said}");
        assert!(said.contains("b.yaml:1:9: device `a` stands twice, also at "), "{said}");
    }

    #[test]
    fn f132_one_unit_twice_is_an_error_only_where_somebody_writes() {
        let both_deny = scan(&[("a.yaml", &good("a")), ("b.yaml", &(good("b") + "writes: deny\n"))]);
        assert_eq!(both_deny.setups.len(), 2);
        let one_writes = scan(&[("a.yaml", &good("a")), ("b.yaml", &(good("b") + "writes: allow\n"))]);
        assert_eq!(one_writes.setups.len(), 0);
        assert!(
            said(&one_writes).contains("a.yaml:3:7: unit 1 of 10.0.0.1:502 is used twice"),
            "{}",
            said(&one_writes)
        );
        let other_unit = good("b").replace("unit_id: 1", "unit_id: 2") + "writes: allow\n";
        assert_eq!(scan(&[("a.yaml", &good("a")), ("b.yaml", &other_unit)]).setups.len(), 2);
    }

    #[test]
    fn the_gateway_s_name_is_taken() {
        let scan = scan(&[("a.yaml", &good("gw-1"))]);
        assert!(said(&scan).contains("a.yaml:1:9: `gw-1` is the gateway's own name"));
    }

    #[test]
    fn odd_files_are_no_panic() {
        for text in ["", "5", "[]", "devices: []", "devices: 5", "devices: [5]", "device: ~", "devices:\nx: 1\n"] {
            let scan = scan(&[("a.yaml", text)]);
            assert!(scan.setups.is_empty());
            assert_eq!(scan.refused.is_empty(), text == "devices: []", "{text}: {}", said(&scan));
        }
        assert_eq!(
            scan_devices(Path::new("/no/such"), &Library::new(Vec::new()), &Links::none(), None).refused.len(),
            1
        );
    }

    #[test]
    fn f129_words_stay_words() {
        let text = good("on").replace("device: on", "device: \"on\"") + "place: {line: off, area: no}\n";
        let scan = scan(&[("a.yaml", &text)]);
        assert_eq!(said(&scan), "");
        assert_eq!((&*scan.setups[0].place["line"], &*scan.setups[0].place["area"]), ("off", "no"));
    }
}
