//! What must hold at every event, judged by the world's own knowledge of what was in which register when.

use super::memory::Micros;
use super::plant::{Kind, Spec, Worth};
use fieldshadow::modbus::Table;
use fieldshadow::model::{Condition, DeviceId, Generation, PointId, QualityCode};
use fieldshadow::poll::{CycleReport, Part, PartOutcome};
use fieldshadow::twin::{Commit, DeviceTwin, Root};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

/// What was broken: the number of the statement, and how.
#[derive(Debug, Clone)]
pub struct Violation {
    pub statement: Statement,
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    /// A value was in its register at some instant between request and reply.
    WasThere,
    /// The values of one read are of one instant, and no reader sees two cycles of a group.
    OneInstant,
    /// A good device keeps its rate.
    Rate,
    /// A silent device is offline soon, and back soon.
    Offline,
    /// Versions and revisions rise, and no commit changes nothing.
    Rising,
    /// Nothing grows without a bound.
    Bounded,
    /// The wire's rules: one request a unit, limits, holes, pauses.
    Wire,
}

pub type Judged<T = ()> = Result<T, Violation>;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.statement, self.what)
    }
}

/// Says that a statement does not hold.
pub fn broken<T>(statement: Statement, what: impl Into<String>) -> Judged<T> {
    Err(Violation { statement, what: what.into() })
}

/// `hold!(statement, condition, "how it was broken")`.
macro_rules! hold {
    ($statement:expr, $condition:expr, $($how:tt)*) => {
        if !$condition {
            return $crate::judge::broken($statement, format!($($how)*));
        }
    };
}
pub(crate) use hold;

/// What a device's twin must show, of one version.
#[derive(Debug, Clone)]
pub struct Picture {
    pub version: u64,
    /// Per point, the pattern of the value.
    pub patterns: Vec<Option<u32>>,
    pub codes: Vec<Option<QualityCode>>,
}

/// The judge of one device.
#[derive(Debug)]
pub struct DeviceJudge {
    pub generation: Generation,
    pub picture: Rc<Picture>,
    /// Pictures before it, the newest last.
    kept: VecDeque<Rc<Picture>>,
    /// When each range was last asked for.
    pub asked: BTreeMap<(Table, u16, u16), Micros>,
    failures: u64,
    /// Per interval: cycles in which every group was read, and all that were reported.
    pub good: Vec<u64>,
    pub all: Vec<u64>,
    last_cycle: Vec<u64>,
    pub said_rev: u64,
}

/// Pictures kept for messages that were made late.
const KEPT: usize = 2048;

impl DeviceJudge {
    pub fn new(spec: &Spec, generation: Generation, version: u64, intervals: usize) -> Self {
        let points = spec.points.len();
        Self {
            generation,
            picture: Rc::new(Picture { version, patterns: vec![None; points], codes: vec![None; points] }),
            kept: VecDeque::new(),
            asked: BTreeMap::new(),
            failures: 0,
            good: vec![0; intervals],
            all: vec![0; intervals],
            last_cycle: vec![0; intervals],
            said_rev: 0,
        }
    }

    pub fn reconfigured(&mut self, spec: &Spec, generation: Generation, version: u64) {
        self.generation = generation;
        self.failures = 0;
        let points = spec.points.len();
        self.show(Picture { version, patterns: vec![None; points], codes: vec![None; points] });
    }

    fn show(&mut self, picture: Picture) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(std::mem::replace(&mut self.picture, Rc::new(picture)));
    }

    pub fn picture_of(&self, version: u64) -> Option<&Rc<Picture>> {
        if self.picture.version == version {
            return Some(&self.picture);
        }
        let at = self.kept.binary_search_by_key(&version, |p| p.version).ok()?;
        self.kept.get(at)
    }

    /// The tick of a part's values: `WasThere` and `OneInstant`.
    fn tick_of(&self, spec: &Spec, part: &Part) -> Judged<u64> {
        let (first, count) = (part.range.start().0, part.range.count());
        let received = part.received.mono.0.as_micros() as Micros;
        let key = (part.table, first, count);
        let Some(sent) = self.asked.get(&key).copied() else {
            return broken(Statement::WasThere, format!("{} has values of {key:?}, never asked for", spec.id));
        };
        hold!(Statement::WasThere, sent <= received, "{} {key:?}: received at {received} before sent {sent}", spec.id);
        let (memory, table) = (&spec.memory, part.table);
        let tick = match &part.outcome {
            PartOutcome::Registers(words) if words.len() == usize::from(count) => {
                let tick = memory.when_words(table, first, words, sent, received);
                if tick.is_none() {
                    // Each of them alone: then they were there, but not at one instant.
                    let alone = (first..)
                        .zip(words)
                        .all(|(a, w)| memory.when_words(table, a, std::slice::from_ref(w), sent, received).is_some());
                    hold!(Statement::OneInstant, !alone, "{} {key:?}: words of several instants", spec.id);
                }
                tick
            }
            PartOutcome::Bits(bits) if bits.len() == usize::from(count) => {
                memory.when_bits(table, first, bits, sent, received)
            }
            _ => None,
        };
        match tick {
            Some(tick) => Ok(tick),
            None => broken(
                Statement::WasThere,
                format!("{} {key:?}: not in the device between {sent} and {received} µs: {:?}", spec.id, part.outcome),
            ),
        }
    }

    /// What the twin must show after this report is committed.
    pub fn expect(&mut self, spec: &Spec, report: &CycleReport) -> Judged<Picture> {
        let interval = usize::from(report.interval.0);
        hold!(
            Statement::Rising,
            report.cycle.0 > self.last_cycle[interval],
            "{}: cycle {} after {}",
            spec.id,
            report.cycle.0,
            self.last_cycle[interval]
        );
        self.last_cycle[interval] = report.cycle.0;
        let Picture { version, mut patterns, mut codes } = Picture::clone(&self.picture);
        let mut whole = true;
        for reported in &report.groups {
            let index = usize::from(reported.group.0);
            let group = &spec.groups[index];
            let mut ticks = Vec::new();
            for part in &reported.parts {
                let read = matches!(part.outcome, PartOutcome::Registers(_) | PartOutcome::Bits(_));
                ticks.push(if read { Some(self.tick_of(spec, part)?) } else { None });
            }
            let faults = reported.parts.iter().filter(|p| matches!(p.outcome, PartOutcome::Fault(_))).count();
            // A refusal of an earlier cycle, not asked for again, is no reply of this one.
            let fault = |p: &Part| matches!(p.outcome, PartOutcome::Fault(_));
            let replied = reported.parts.iter().any(|p| !fault(p) && p.received.mono >= report.started.mono);
            let failed = faults > 0 && (!group.mark || !replied);
            let refused = reported.parts.iter().any(|p| matches!(p.outcome, PartOutcome::Refused(_)));
            whole &= faults == 0;
            hold!(
                Statement::OneInstant,
                !group.together || reported.parts.len() == 1,
                "{}: a group read together came in {} parts",
                spec.id,
                reported.parts.len()
            );
            for (p, point) in spec.points.iter().enumerate().filter(|(_, p)| p.group == index) {
                let covers = |part: &Part| {
                    let (start, end) = (u32::from(point.address), u32::from(point.address + point.kind.width()));
                    part.table == point.table && u32::from(part.range.start().0) <= start && end <= part.range.end()
                };
                let mut parts = reported.parts.iter().zip(&ticks).filter(|(part, _)| covers(part));
                let (Some((part, tick)), None) = (parts.next(), parts.next()) else {
                    return broken(Statement::OneInstant, format!("{} {}: not in one part", spec.id, point.path));
                };
                let stale = |code: Option<QualityCode>| code.map(|_| QualityCode::Stale);
                if failed {
                    codes[p] = stale(codes[p]);
                } else if group.together && refused {
                    codes[p] = Some(QualityCode::Bad);
                } else {
                    match (&part.outcome, tick) {
                        (PartOutcome::Refused(_), _) => codes[p] = Some(QualityCode::Bad),
                        (_, Some(tick)) => {
                            let pattern = point.pattern(&spec.memory, *tick);
                            match point.kind.worth(pattern) {
                                Worth::Good => {
                                    patterns[p] = Some(pattern);
                                    codes[p] = Some(QualityCode::Good);
                                }
                                Worth::Bad => codes[p] = Some(QualityCode::Bad),
                                Worth::Absent => {
                                    patterns[p] = None;
                                    codes[p] = Some(QualityCode::Absent);
                                }
                            }
                        }
                        _ => codes[p] = stale(codes[p]),
                    }
                }
            }
        }
        let reachable = report.condition == Condition::Reachable;
        self.failures = if reachable { 0 } else { self.failures + 1 };
        if self.failures >= spec.offline_after {
            codes = self.picture.codes.iter().map(|c| c.map(|_| QualityCode::Stale)).collect();
        }
        self.all[interval] += 1;
        self.good[interval] += u64::from(whole && reachable);
        Ok(Picture { version, patterns, codes })
    }

    /// A commit made this state: compares it with what is expected, or, of a commit that was no batch, with the state
    /// before, of which values may only have become stale.
    pub fn committed(&mut self, spec: &Spec, twin: &DeviceTwin, expected: Option<Picture>) -> Judged {
        let by_batch = expected.is_some();
        let mut picture = expected.unwrap_or_else(|| Picture::clone(&self.picture));
        if !by_batch {
            for (p, code) in picture.codes.iter_mut().enumerate() {
                if twin.quality(PointId(p as u16)).code() == Some(QualityCode::Stale) && code.is_some() {
                    *code = Some(QualityCode::Stale);
                }
            }
        }
        picture.version = twin.version.0;
        fits(spec, twin, &picture)?;
        hold!(
            Statement::Rising,
            picture.version >= self.picture.version,
            "{}: version {} after {}",
            spec.id,
            picture.version,
            self.picture.version
        );
        let same = picture.patterns == self.picture.patterns && picture.codes == self.picture.codes;
        if picture.version > self.picture.version {
            self.show(picture);
        } else {
            hold!(Statement::Rising, same, "{}: values changed within version {}", spec.id, picture.version);
        }
        Ok(())
    }
}

/// Whether a twin shows exactly this picture.
pub fn fits(spec: &Spec, twin: &DeviceTwin, picture: &Picture) -> Judged {
    for (p, point) in spec.points.iter().enumerate() {
        let id = PointId(p as u16);
        let (value, pattern) = (twin.value(id), picture.patterns[p]);
        let is = match (value, pattern) {
            (Some(value), Some(pattern)) => point.kind.is(pattern, value),
            (None, None) => true,
            _ => false,
        };
        hold!(
            Statement::WasThere,
            is,
            "{} {} shows {value:?}, its register had {pattern:x?} ({:?})",
            spec.id,
            point.path,
            point.kind
        );
        let (code, expected) = (twin.quality(id).code(), picture.codes[p]);
        hold!(
            Statement::WasThere,
            code == expected,
            "{} {} is {code:?} ({:?}), should be {expected:?}",
            spec.id,
            point.path,
            twin.quality(id)
        );
    }
    Ok(())
}

/// Rising: what holds of every commit by itself.
pub fn is_a_change(commit: &Commit, before: u64) -> Judged {
    let rev = commit.revision.0;
    hold!(Statement::Rising, rev == before + 1, "revision {rev} after {before}");
    hold!(Statement::Rising, !commit.changes.is_empty(), "revision {rev} is of no device");
    for change in &commit.changes {
        let Some((old, new)) = change.old.as_ref().zip(change.new.as_ref()).filter(|_| !change.configured) else {
            continue;
        };
        let moved = !change.values.is_empty() || !change.qualities.is_empty();
        hold!(Statement::Rising, moved || change.status, "{} at {rev}: changes nothing", new.device);
        hold!(
            Statement::Rising,
            new.version.0 == old.version.0 + u64::from(moved) && new.revision.0 == rev && old.revision.0 < rev,
            "{} at {rev}: version {} after {}",
            new.device,
            new.version.0,
            old.version.0
        );
        let all_differ = change.values.iter().all(|p| new.value(*p) != old.value(*p))
            && change.qualities.iter().all(|p| new.quality(*p) != old.quality(*p))
            && (!change.status || new.status != old.status);
        hold!(Statement::Rising, all_differ, "{} at {rev}: says to change what it does not", new.device);
    }
    Ok(())
}

/// A whole root that a reader held for a while.
pub fn root_fits<'a>(root: &Root, of: impl Fn(&DeviceId) -> Option<(&'a Spec, &'a DeviceJudge)>) -> Judged {
    for twin in root.devices() {
        let Some((spec, judge)) = of(&twin.device) else { continue };
        if let Some(picture) = judge.picture_of(twin.version.0) {
            fits(spec, twin, picture)?;
        }
    }
    Ok(())
}

/// A payload of `state`.
pub fn state_fits(spec: &Spec, judge: &mut DeviceJudge, payload: &[u8]) -> Judged {
    let body = parsed(payload)?;
    let (version, rev) = (number(&body, "version")?, number(&body, "rev")?);
    hold!(Statement::Rising, rev >= judge.said_rev, "{}: state of {rev} after {}", spec.id, judge.said_rev);
    judge.said_rev = rev;
    let Some(picture) = judge.picture_of(version) else {
        return broken(Statement::Rising, format!("{}: a state of version {version}, which never was", spec.id));
    };
    let mut keys = 0;
    for (p, point) in spec.points.iter().enumerate() {
        let (group, name) = point.path.split_once('.').unwrap_or_default();
        let value = body["reported"].get(group).and_then(|g| g.get(name));
        keys += usize::from(value.is_some());
        json_fits(spec, p, value, picture.patterns[p])?;
        let code = body["quality"].get(&point.path).map(|q| q["code"].as_str().unwrap_or_default());
        let expected = picture.codes[p].filter(|c| *c != QualityCode::Good).map(QualityCode::as_str);
        hold!(
            Statement::OneInstant,
            code == expected,
            "{} {}: state of version {version} says {code:?}, should say {expected:?}",
            spec.id,
            point.path
        );
    }
    let groups = body["reported"].as_object().into_iter().flat_map(|o| o.values());
    let all: usize = groups.map(|g| g.as_object().map_or(1, serde_json::Map::len)).sum();
    hold!(Statement::WasThere, all == keys, "{}: a state with keys that no point has", spec.id);
    Ok(())
}

/// A payload of `change`.
pub fn change_fits(spec: &Spec, judge: &mut DeviceJudge, payload: &[u8]) -> Judged {
    let body = parsed(payload)?;
    let (version, rev) = (number(&body, "version")?, number(&body, "rev")?);
    hold!(Statement::Rising, rev > judge.said_rev, "{}: change of {rev} after {}", spec.id, judge.said_rev);
    hold!(Statement::Rising, number(&body, "previous_rev")? < rev, "{}: {rev} follows itself", spec.id);
    judge.said_rev = rev;
    let (Some(now), Some(before)) = (judge.picture_of(version), judge.picture_of(version - 1)) else {
        return Ok(());
    };
    for (p, point) in spec.points.iter().enumerate() {
        let (group, name) = point.path.split_once('.').unwrap_or_default();
        let value = body["changed"].get(group).and_then(|g| g.get(name));
        let changed = now.patterns[p] != before.patterns[p];
        json_fits(spec, p, value, now.patterns[p].filter(|_| changed))?;
        let removed = body["removed"].as_array().is_some_and(|r| r.iter().any(|x| x == point.path.as_str()));
        hold!(
            Statement::OneInstant,
            removed == (changed && now.patterns[p].is_none()),
            "{} {}: change of version {version} says removed: {removed}",
            spec.id,
            point.path
        );
    }
    Ok(())
}

fn json_fits(spec: &Spec, p: usize, value: Option<&serde_json::Value>, pattern: Option<u32>) -> Judged {
    let point = &spec.points[p];
    let is = match (value, pattern) {
        (Some(value), Some(pattern)) => point.kind.is_json(pattern, value),
        (None, None) => true,
        _ => false,
    };
    let kind: Kind = point.kind;
    hold!(
        Statement::OneInstant,
        is,
        "{} {}: a message says {value:?}, its picture has {pattern:x?} ({kind:?})",
        spec.id,
        point.path
    );
    Ok(())
}

fn parsed(payload: &[u8]) -> Judged<serde_json::Value> {
    serde_json::from_slice(payload)
        .or_else(|e| broken(Statement::WasThere, format!("no JSON: {e}: {}", String::from_utf8_lossy(payload))))
}

fn number(body: &serde_json::Value, key: &str) -> Judged<u64> {
    match body[key].as_u64() {
        Some(n) => Ok(n),
        None => broken(Statement::Rising, format!("no number `{key}` in {body}")),
    }
}
