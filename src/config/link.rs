//! Links to devices: as written in a device file or under `links:`, and as meant for one device.
//!
//! A written link may leave to the profile how the serial port is set. What neither says is never guessed: with a wrong
//! parity nothing is heard, and somebody searches for days.

use super::device_values::Endpoint;
use super::folder;
use crate::document::{Content, Diagnostics, Fields, Node, Place, Problem, closest};
use crate::modbus::UnitId;
use crate::profile::{Access, DeviceProfile, Parity, SerialDefaults};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// How a device is reached. Devices whose links are equal (but for [`Link::allow_reserved_units`]) share one line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Link {
    /// Where it goes.
    pub far_end: FarEnd,
    /// Requests unanswered at one time, 1 to 16; always 1 where frames have no transaction id. Default 1.
    pub in_flight: u8,
    /// What is sent comes back before the reply. Default false.
    pub echo: bool,
    /// Log every byte. Default false.
    pub trace: bool,
    /// Unit ids 0 and 248 to 255 are ordinary on this serial line. Default false.
    pub allow_reserved_units: bool,
}

/// Where a link goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FarEnd {
    /// Modbus TCP.
    Tcp(Endpoint),
    /// RTU frames over TCP.
    RtuOverTcp(Endpoint),
    /// Modbus/TCP Security.
    Tls {
        /// The server; its certificate must name this host.
        endpoint: Endpoint,
        /// PEM file: who may have signed the server's certificate.
        ca: PathBuf,
        /// PEM files: our own certificate, and its key.
        identity: Option<(PathBuf, PathBuf)>,
    },
    /// A serial port.
    Serial(SerialLine),
}

/// A serial port with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SerialLine {
    /// As in `/dev/ttyUSB0`.
    pub path: PathBuf,
    /// Bits a second.
    pub baud: u32,
    /// 8; in ASCII also 7. Default 8, in ASCII 7.
    pub data_bits: u8,
    /// Never a default.
    pub parity: Parity,
    /// 1 or 2. Default 1.
    pub stop_bits: u8,
    /// The driver switches the transmitter. Default false.
    pub rs485: bool,
    /// ASCII framing in place of RTU.
    pub ascii: bool,
}

/// The links that a configuration names.
#[derive(Debug, Clone, Default)]
pub struct Links(BTreeMap<String, Written>);

/// A link as written.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub(super) struct Written {
    to: To,
    baud: Option<u32>,
    data_bits: Option<u8>,
    parity: Option<Parity>,
    stop_bits: Option<u8>,
    rs485: bool,
    echo: bool,
    in_flight: u8,
    trace: bool,
    allow_reserved_units: bool,
}

#[derive(Debug, Clone)]
enum To {
    Tcp(Endpoint),
    RtuOverTcp(Endpoint),
    Tls(Endpoint, PathBuf, Option<(PathBuf, PathBuf)>),
    Serial(PathBuf),
    Ascii(PathBuf),
}

/// The keys that say where a link goes; each excludes the others.
const KINDS: [&str; 5] = ["tcp", "serial", "rtu_over_tcp", "tls", "ascii"];

/// Every other key, and the kinds for which it does something.
const OPTIONS: [(&str, &[&str]); 12] = [
    ("baud", &["serial", "ascii"]),
    ("data_bits", &["serial", "ascii"]),
    ("parity", &["serial", "ascii"]),
    ("stop_bits", &["serial", "ascii"]),
    ("rs485", &["serial", "ascii"]),
    ("echo", &["serial", "ascii", "rtu_over_tcp"]),
    ("in_flight", &["tcp", "tls"]),
    ("trace", &KINDS),
    ("allow_reserved_units", &["serial", "ascii", "rtu_over_tcp"]),
    ("ca", &["tls"]),
    ("cert", &["tls"]),
    ("key", &["tls"]),
];

impl Link {
    /// What two devices must agree on to share it: everything but the unit ids that are allowed.
    pub(super) fn shared(&self) -> (&FarEnd, u8, bool, bool) {
        (&self.far_end, self.in_flight, self.echo, self.trace)
    }

    /// Whether frames go over a serial line in the end, where 1 to 247 are the devices' numbers.
    fn is_serial(&self) -> bool {
        matches!(self.far_end, FarEnd::RtuOverTcp(_) | FarEnd::Serial(_))
    }

    /// Whether a device may have this number here.
    pub(super) fn admits(&self, unit_id: UnitId, profile: &DeviceProfile) -> Result<(), (String, &'static str)> {
        if !self.is_serial() || self.allow_reserved_units {
            return Ok(());
        }
        match unit_id.0 {
            0 if profile.points.iter().any(|p| p.access != Access::Write) => Err((
                "unit_id 0 speaks to all devices of a serial line and none answers: nothing can be read".into(),
                "write the device's own number, 1 to 247; or add `allow_reserved_units: true` to the link",
            )),
            248.. => Err((
                format!("unit_id {unit_id} is reserved on a serial line"),
                "write the device's own number, 1 to 247; or add `allow_reserved_units: true` to the link",
            )),
            _ => Ok(()),
        }
    }
}

impl FarEnd {
    /// The port or the host: only one link can go there.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Tcp(endpoint) | Self::RtuOverTcp(endpoint) | Self::Tls { endpoint, .. } => endpoint.to_string(),
            Self::Serial(line) => line.path.display().to_string(),
        }
    }
}

impl fmt::Display for FarEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key())?;
        match self {
            Self::Tcp(_) => Ok(()),
            Self::RtuOverTcp(_) => f.write_str(" (RTU)"),
            Self::Tls { .. } => f.write_str(" (TLS)"),
            Self::Serial(line) => {
                let parity = match line.parity {
                    Parity::None => 'N',
                    Parity::Even => 'E',
                    Parity::Odd => 'O',
                };
                let ascii = if line.ascii { " ASCII" } else { "" };
                write!(f, " ({} {}{parity}{}{ascii})", line.baud, line.data_bits, line.stop_bits)
            }
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.far_end.fmt(f)
    }
}

impl Links {
    /// No names.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads `links:` of a configuration. Files are looked for in `folder`.
    pub(super) fn read(node: &Node, folder: &Path, wrong: &mut Diagnostics) -> Self {
        let mut links = BTreeMap::new();
        if node.is_null() {
            return Self(links);
        }
        let Some(mapping) = wrong.keep(node.mapping()) else { return Self(links) };
        mapping.report_duplicates(wrong);
        for entry in &mapping.entries {
            let name = entry.name();
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')) {
                wrong
                    .report(entry.key.place, format!("`{name}` is no name of a link"))
                    .remedy("letters, digits, `_`, `-` and `.`");
                continue;
            }
            if let Some(link) = Written::read(&entry.value, folder, wrong) {
                links.entry(name.to_owned()).or_insert(link);
            }
        }
        Self(links)
    }

    /// Takes over the names of another configuration; those that are there stay.
    pub(super) fn add(&mut self, more: &Self) {
        for (name, link) in &more.0 {
            self.0.entry(name.clone()).or_insert_with(|| link.clone());
        }
    }

    /// Reads a device's `link`: a mapping, or one of these names.
    pub(super) fn link_of(&self, node: &Node, folder: &Path, wrong: &mut Diagnostics) -> Option<Written> {
        if !matches!(node.content, Content::Scalar(_)) {
            return Written::read(node, folder, wrong);
        }
        let name = wrong.keep(node.text())?;
        if let Some(link) = self.0.get(name) {
            return Some(link.clone());
        }
        let near = closest(name, self.0.keys().map(String::as_str));
        let diagnostic = wrong.report(node.place, format!("the configuration has no link `{name}` under `links`"));
        match near {
            Some(near) => diagnostic.remedy(format!("did you mean `{near}`?")),
            None => diagnostic.remedy("add it there, or write the link here, as in {tcp: \"192.168.1.50:502\"}"),
        };
        None
    }
}

impl Written {
    fn read(node: &Node, folder: &Path, wrong: &mut Diagnostics) -> Option<Self> {
        let before = wrong.len();
        let mut fields = Fields::open(node, "a link", wrong)?;
        let entries = &fields.mapping().entries;
        let kinds: Vec<&'static str> =
            KINDS.into_iter().filter(|kind| entries.iter().any(|e| e.name() == *kind)).collect();
        let misspelt = entries.iter().any(|e| closest(e.name(), KINDS).is_some());
        let kind = match kinds[..] {
            [kind] => Some(kind),
            [] => {
                if !misspelt {
                    wrong
                        .report(
                            fields.start(),
                            format!("a link needs one of {}", KINDS.map(|k| format!("`{k}`")).join(", ")),
                        )
                        .remedy("as in link: {tcp: \"192.168.1.50:502\"} or link: {serial: /dev/ttyUSB0, …}");
                }
                None
            }
            _ => {
                wrong
                    .report(node.place, format!("a link is one of these, not {}", kinds.join(" and ")))
                    .remedy("keep one of them");
                None
            }
        };
        for (key, kinds) in OPTIONS {
            if let (Some(entry), Some(kind)) = (fields.entry(key), kind)
                && !kinds.contains(&kind)
            {
                wrong
                    .report(entry.key.place, format!("`{key}` does nothing on a link by `{kind}`"))
                    .remedy(format!("leave `{key}` out; it belongs to {}", kinds.join(", ")));
            }
        }
        let mut number = |key: &'static str, bounds: std::ops::RangeInclusive<i128>, wrong: &mut Diagnostics| {
            fields.optional(key).and_then(|n| wrong.keep(n.integer_within(key, bounds)))
        };
        let baud = number("baud", SerialDefaults::BAUD, wrong).map(|n| n as u32);
        let data_bits = number("data_bits", SerialDefaults::DATA_BITS, wrong).map(|n| n as u8);
        let stop_bits = number("stop_bits", SerialDefaults::STOP_BITS, wrong).map(|n| n as u8);
        let in_flight = number("in_flight", 1..=16, wrong).map_or(1, |n| n as u8);
        let parity = fields.optional("parity").and_then(|n| wrong.keep(n.word(&Parity::WORDS)));
        let mut truth = |key: &'static str, wrong: &mut Diagnostics| {
            fields.optional(key).and_then(|n| wrong.keep(n.boolean())).unwrap_or(false)
        };
        let (rs485, echo, trace) = (truth("rs485", wrong), truth("echo", wrong), truth("trace", wrong));
        let allow_reserved_units = truth("allow_reserved_units", wrong);
        let start = fields.start();
        let mut file = |key: &'static str, wrong: &mut Diagnostics| {
            let node = fields.optional(key)?;
            match wrong.keep(node.text())? {
                "" => {
                    wrong.add_problem(node.expects("a file's name"));
                    None
                }
                name => Some(folder.join(name)),
            }
        };
        let (ca, cert, key) = (file("ca", wrong), file("cert", wrong), file("key", wrong));
        let given = |name: &str| fields.mapping().entries.iter().any(|e| e.name() == name);
        if kind == Some("tls") {
            if !given("ca") {
                wrong
                    .report(start, "a link by `tls` needs `ca`")
                    .remedy("add `ca: FILE`: the certificate of who signed the server's, in PEM form");
            }
            if given("cert") != given("key") {
                wrong.report(start, "`cert` and `key` go together").remedy("give both, or none");
            }
        }
        let mut to = None;
        for name in KINDS {
            let Some(node) = fields.optional(name) else { continue };
            let read = match name {
                "serial" => wrong.keep(port(node)).map(To::Serial),
                "ascii" => wrong.keep(port(node)).map(To::Ascii),
                "rtu_over_tcp" => wrong.keep(endpoint(node, "4001")).map(To::RtuOverTcp),
                "tls" => wrong
                    .keep(endpoint(node, "802"))
                    .and_then(|at| Some(To::Tls(at, ca.clone()?, cert.clone().zip(key.clone())))),
                _ => wrong.keep(endpoint(node, "502")).map(To::Tcp),
            };
            to = to.or(read);
        }
        if kind == Some("serial")
            && data_bits == Some(7)
            && let Some(node) = fields.optional("data_bits")
        {
            wrong.report(node.place, "RTU needs 8 data bits").remedy("write 8; or is the device set to ASCII?");
        }
        fields.close(&[], wrong);
        kind?;
        // Of what is half understood nothing else shall be said.
        let to = to.filter(|_| wrong.len() == before)?;
        Some(Self { to, baud, data_bits, parity, stop_bits, rs485, echo, in_flight, trace, allow_reserved_units })
    }

    /// The link as one device uses it: what it leaves out of a serial port's settings, the profile says. What neither
    /// says is reported at `place`.
    pub(super) fn resolve(&self, profile: &DeviceProfile, place: Place, wrong: &mut Diagnostics) -> Option<Link> {
        let far_end = match &self.to {
            To::Tcp(endpoint) => FarEnd::Tcp(endpoint.clone()),
            To::RtuOverTcp(endpoint) => FarEnd::RtuOverTcp(endpoint.clone()),
            To::Tls(endpoint, ca, identity) => {
                FarEnd::Tls { endpoint: endpoint.clone(), ca: ca.clone(), identity: identity.clone() }
            }
            To::Serial(path) => FarEnd::Serial(self.line(path, false, profile, place, wrong)?),
            To::Ascii(path) => FarEnd::Serial(self.line(path, true, profile, place, wrong)?),
        };
        let Self { in_flight, echo, trace, allow_reserved_units, .. } = *self;
        Some(Link { far_end, in_flight, echo, trace, allow_reserved_units })
    }

    fn line(
        &self,
        path: &Path,
        ascii: bool,
        profile: &DeviceProfile,
        place: Place,
        wrong: &mut Diagnostics,
    ) -> Option<SerialLine> {
        let theirs = profile.serial;
        let mut missing = |key: &str, remedy: &str| {
            wrong
                .report(place, format!("the link says no `{key}`, and neither does profile `{}`", profile.name))
                .remedy(format!("add `{key}: …` as it is set in the device: {remedy}"));
        };
        let baud = self.baud.or(theirs.baud);
        if baud.is_none() {
            missing("baud", "9600 or 19200 in most");
        }
        let parity = self.parity.or(theirs.parity);
        if parity.is_none() {
            missing("parity", "none, even or odd");
        }
        let data_bits = self.data_bits.or(theirs.data_bits).unwrap_or(if ascii { 7 } else { 8 });
        if !ascii && data_bits != 8 && self.data_bits.is_none() {
            wrong
                .report(place, format!("profile `{}` says {data_bits} data bits: that is ASCII", profile.name))
                .remedy(format!(
                    "write {{ascii: {}}}, or set the device to RTU and add `data_bits: 8`",
                    path.display()
                ));
        }
        Some(SerialLine {
            path: path.to_owned(),
            baud: baud?,
            data_bits,
            parity: parity?,
            stop_bits: self.stop_bits.or(theirs.stop_bits).unwrap_or(1),
            rs485: self.rs485,
            ascii,
        })
    }
}

/// `host:port`. `usual` is the port that is named where there is none.
fn endpoint(node: &Node, usual: &str) -> Result<Endpoint, Problem> {
    let text = node.text()?;
    if let Some((host, port)) = folder::host_and_port(text, None) {
        // Host names are the same in any case: two spellings must not become two connections.
        return Ok(Endpoint { host: host.to_ascii_lowercase(), port });
    }
    let remedy = match folder::host_and_port(text, usual.parse().ok()) {
        Some((host, _)) => format!("write \"{host}:{usual}\", or the port that the device has"),
        None => format!("write it as in \"192.168.1.50:{usual}\""),
    };
    Err(Problem::new(node.place, format!("`{text}` is no host with a port of 1 to 65535")).remedy(remedy))
}

/// A serial port's path.
fn port(node: &Node) -> Result<PathBuf, Problem> {
    let text = node.text()?;
    if text.starts_with('/') && !text.ends_with('/') && !text.chars().any(char::is_control) {
        return Ok(text.into());
    }
    let name = text.trim_matches('/');
    let remedy = if name.is_empty() || name.chars().any(|c| c.is_control() || c == ' ') {
        "write it as in /dev/ttyUSB0 or /dev/serial/by-id/…".to_owned()
    } else {
        format!("write it whole, as in /dev/{name}")
    };
    Err(Problem::new(node.place, format!("`{text}` is no path of a serial port")).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::super::library::{Library, tests::yaml};
    use super::super::{Config, Purpose, Scan, scan_devices};
    use super::*;
    use std::fs;

    const NAMED: &str = "\
links:
  line-1: {serial: /dev/ttyUSB0, baud: 9600, parity: none}
  line-2: {serial: /dev/ttyUSB1}
  fast: {tcp: \"plc:502\", in_flight: 4, trace: true}
";

    fn named(text: &str) -> Result<Links, String> {
        let none = std::iter::empty();
        Config::of_text("c.yaml", text, Path::new("/etc/fieldshadow"), none, "h", Purpose::Gateway)
            .map(|config| config.links)
            .map_err(|wrong| wrong.lines())
    }

    /// Devices of these `(name, link, more)`, numbered from 1; acme/plain says nothing of its port, acme/serial does.
    fn scan(devices: &[(&str, &str, &str)]) -> Scan {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, at) = (folder.path().join("profiles/acme"), folder.path().join("devices.d"));
        fs::create_dir_all(&profiles).unwrap();
        fs::create_dir(&at).unwrap();
        fs::write(profiles.join("plain.yaml"), yaml("acme/plain", "1.0.0")).unwrap();
        let with_serial = yaml("acme/serial", "1.0.0") + "serial: {baud: 57600, parity: none, stop_bits: 2}\n";
        fs::write(profiles.join("serial.yaml"), with_serial).unwrap();
        for (unit, (name, link, more)) in (1..).zip(devices) {
            let more =
                if more.contains("profile:") { (*more).to_owned() } else { format!("profile: acme/plain\n{more}") };
            let more = if more.contains("unit_id:") { more } else { format!("{more}unit_id: {unit}\n") };
            fs::write(at.join(format!("{name}.yaml")), format!("device: {name}\nlink: {link}\n{more}")).unwrap();
        }
        scan_devices(&at, &Library::new(vec![folder.path().join("profiles")]), &named(NAMED).unwrap(), None)
    }

    fn said(scan: &Scan) -> Vec<String> {
        let all: String = scan.refused.iter().map(|r| r.diagnostics.lines()).collect();
        let short = |line: &str| {
            let at = line.find(".yaml:").map_or(0, |end| line[..end].rfind('/').map_or(0, |slash| slash + 1));
            line[at..].to_owned()
        };
        all.lines().map(short).collect()
    }

    /// The one link, or all that is wrong with it.
    fn link(link: &str, more: &str) -> Result<Link, Vec<String>> {
        let scan = scan(&[("a", link, more)]);
        scan.setups.first().map(|setup| setup.link.clone()).ok_or_else(|| said(&scan))
    }

    fn shown(text: &str, more: &str) -> String {
        link(text, more).unwrap_or_else(|said| panic!("{said:#?}")).to_string()
    }

    #[test]
    fn every_kind_of_link_is_read() {
        assert_eq!(shown("{tcp: \"PLC.local:502\"}", ""), "plc.local:502");
        assert_eq!(shown("{rtu_over_tcp: \"10.0.0.1:4001\", echo: true}", ""), "10.0.0.1:4001 (RTU)");
        assert_eq!(shown("{serial: /dev/ttyS1, baud: 9600, parity: even}", ""), "/dev/ttyS1 (9600 8E1)");
        assert_eq!(
            shown("{ascii: /dev/ttyS1, baud: 9600, parity: odd, stop_bits: 2}", ""),
            "/dev/ttyS1 (9600 7O2 ASCII)"
        );
        let tls = link("{tls: \"plc:802\", ca: ca.pem, cert: /etc/gw.pem, key: gw.key, in_flight: 16}", "").unwrap();
        let FarEnd::Tls { endpoint, ca, identity: Some((cert, key)) } = tls.far_end else { panic!("{tls:?}") };
        assert_eq!((endpoint.to_string(), tls.in_flight), ("plc:802".to_owned(), 16));
        assert!(ca.ends_with("devices.d/ca.pem") && key.ends_with("devices.d/gw.key"), "{ca:?}");
        assert_eq!(cert, Path::new("/etc/gw.pem"));
    }

    #[test]
    fn what_a_port_is_set_to_comes_from_the_file_or_the_profile() {
        let profile = "profile: acme/serial\n";
        assert_eq!(shown("{serial: /dev/ttyS1}", profile), "/dev/ttyS1 (57600 8N2)");
        assert_eq!(
            shown("{serial: /dev/ttyS1, baud: 19200, parity: even, stop_bits: 1}", profile),
            "/dev/ttyS1 (19200 8E1)"
        );
        assert_eq!(shown("line-1", profile), "/dev/ttyUSB0 (9600 8N2)");
        assert_eq!(shown("line-2", profile), "/dev/ttyUSB1 (57600 8N2)");
    }

    #[test]
    fn parity_and_speed_are_never_guessed() {
        assert_eq!(
            link("{serial: /dev/ttyS1}", "").unwrap_err(),
            [
                "a.yaml:2:7: the link says no `baud`, and neither does profile `acme/plain`; add `baud: …` as it is set in \
                 the device: 9600 or 19200 in most",
                "a.yaml:2:7: the link says no `parity`, and neither does profile `acme/plain`; add `parity: …` as it is \
                 set in the device: none, even or odd"
            ]
        );
        assert_eq!(link("line-2", "").unwrap_err().len(), 2);
    }

    #[test]
    fn links_by_name() {
        assert_eq!(shown("line-1", ""), "/dev/ttyUSB0 (9600 8N1)");
        let fast = link("fast", "").unwrap();
        assert_eq!((fast.to_string(), fast.in_flight, fast.trace), ("plc:502".into(), 4, true));
        let unknown = link("line-3", "").unwrap_err();
        assert_eq!(
            unknown,
            ["a.yaml:2:7: the configuration has no link `line-3` under `links`; did you mean `line-1`?"]
        );
        let wrong = named("links: {a b: {tcp: \"h:1\"}, c: {tcp: h}, d: 5, e: {serial: ttyS0}}\n").unwrap_err();
        assert_eq!(wrong.lines().count(), 4, "{wrong}");
        assert!(
            wrong.contains("c.yaml:1:59: `ttyS0` is no path of a serial port; write it whole, as in /dev/ttyS0"),
            "{wrong}"
        );
        // Devices by a name share the line of those that write the same.
        let shared = scan(&[("a", "line-1", ""), ("b", "{serial: /dev/ttyUSB0, baud: 9600, parity: none}", "")]);
        assert_eq!(shared.setups[0].link, shared.setups[1].link);
    }

    #[test]
    fn f131_keys_that_do_nothing_here_are_refused() {
        for (text, keys) in [
            ("{tcp: \"h:1\", baud: 9600, parity: none, echo: true, rs485: true, ca: x}", 5),
            ("{serial: /dev/ttyS1, baud: 9600, parity: none, in_flight: 2, key: x}", 2),
            ("{rtu_over_tcp: \"h:1\", baud: 9600, in_flight: 2}", 2),
            ("{tls: \"h:1\", ca: x, allow_reserved_units: true, data_bits: 8}", 2),
        ] {
            let said = link(text, "").unwrap_err();
            assert_eq!(
                said.iter().filter(|line| line.contains("does nothing on a link by")).count(),
                keys,
                "{said:#?}"
            );
            assert_eq!(said.len(), keys, "{said:#?}");
        }
        let baud = link("{tcp: \"h:1\", baud: 9600}", "").unwrap_err();
        assert_eq!(
            baud,
            ["a.yaml:2:20: `baud` does nothing on a link by `tcp`; leave `baud` out; it belongs to serial, ascii"]
        );
    }

    #[test]
    fn f131_mistakes_are_found_at_once() {
        let one = |text: &str, part: &str| {
            let said = link(text, "").unwrap_err();
            assert!(said.len() == 1 && said[0].contains(part), "{text}: {said:#?}");
        };
        one("{tcp: \"h:1\", serial: /dev/x}", "a link is one of these, not tcp and serial");
        one("{}", "a link needs one of `tcp`, `serial`, `rtu_over_tcp`, `tls`, `ascii`");
        one("{serail: /dev/ttyS1}", "unknown key `serail`; did you mean `serial`?");
        one("{tcp: \"h:99999\"}", "is no host with a port");
        one("{tls: plc, ca: x}", "write \"plc:802\"");
        one("{tls: \"h:1\"}", "a link by `tls` needs `ca`");
        one("{tls: \"h:1\", ca: x, cert: y}", "`cert` and `key` go together");
        one("{serial: /dev/ttyS1, baud: 9600, parity: none, data_bits: 7}", "RTU needs 8 data bits");
        one("{tcp: \"h:1\", in_flight: 17}", "in_flight is 17, it may be 1 to 16");
        let many = link("{serial: ttyS1, baud: fast, parity: mark, stop_bits: 3, pace: 1}", "").unwrap_err();
        assert_eq!(many.len(), 5, "{many:#?}");
    }

    #[test]
    fn f106_reserved_unit_ids_are_ordinary_on_tcp_only() {
        let serial = "{serial: /dev/ttyS1, baud: 9600, parity: none}";
        for unit in [0, 247, 248, 255] {
            let more = format!("unit_id: {unit}\n");
            assert!(link("{tcp: \"h:1\"}", &more).is_ok());
            assert!(link(&serial.replace('}', ", allow_reserved_units: true}"), &more).is_ok());
            assert_eq!(link(serial, &more).is_ok(), unit == 247);
            assert_eq!(link("{rtu_over_tcp: \"h:1\"}", &more).is_ok(), unit == 247);
        }
        let said = link(serial, "unit_id: 250\n").unwrap_err();
        assert!(said[0].starts_with("a.yaml:4:10: unit_id 250 is reserved on a serial line; write"), "{said:#?}");
        let write_only = "unit_id: 0\nprofile: {profile: a/b, version: 1.0.0, groups: {g: {points: {x: {address: 1, type: \
                          u16, access: w}}}}}\n";
        assert!(link(serial, write_only).is_ok());
    }

    #[test]
    fn one_port_has_one_set_of_settings() {
        let (right, wrong) =
            ("{serial: /dev/ttyS1, baud: 9600, parity: none}", "{serial: /dev/ttyS1, baud: 9600, parity: even}");
        let two = scan(&[("a", right, ""), ("b", wrong, "")]);
        assert_eq!(two.setups.len(), 0);
        assert!(said(&two)[0].contains("/dev/ttyS1 has other settings here than at "), "{:#?}", said(&two));
        // The one that was dropped in does not stop the others.
        let three = scan(&[
            ("a", right, ""),
            ("b", wrong, ""),
            ("c", right, ""),
            ("d", "{serial: /dev/ttyS2, baud: 9600, parity: even}", ""),
        ]);
        let names: Vec<&str> = three.setups.iter().map(|s| s.device.as_str()).collect();
        assert_eq!(names, ["a", "c", "d"]);
        for (one, other) in [
            ("{tcp: \"h:1\"}", "{rtu_over_tcp: \"h:1\"}"),
            ("{tcp: \"h:1\"}", "{tcp: \"H:1\", in_flight: 2}"),
            ("{serial: /dev/x, baud: 9600, parity: none}", "{ascii: /dev/x, baud: 9600, parity: none, data_bits: 8}"),
        ] {
            assert_eq!(scan(&[("a", one, ""), ("b", other, "")]).setups.len(), 0, "{one} {other}");
        }
        // Who may have which number is no setting of the port.
        let reserved = "{serial: /dev/ttyS1, baud: 9600, parity: none, allow_reserved_units: true}";
        assert_eq!(scan(&[("a", right, ""), ("b", reserved, "unit_id: 250\n")]).setups.len(), 2);
    }

    #[test]
    fn f132_one_unit_of_a_port_twice_is_an_error_only_where_somebody_writes() {
        let serial = "{serial: /dev/ttyS1, baud: 9600, parity: none}";
        assert_eq!(scan(&[("a", serial, "unit_id: 3\n"), ("b", serial, "unit_id: 3\n")]).setups.len(), 2);
        let writes = scan(&[("a", serial, "unit_id: 3\n"), ("b", serial, "unit_id: 3\nwrites: allow\n")]);
        assert!(said(&writes)[0].contains("unit 3 of /dev/ttyS1 is used twice"), "{:#?}", said(&writes));
    }
}
