//! Which reads bring the values of a group: as few as the device's limits allow.
//!
//! Values that share an address, or that an even-only device can read only together, become one *atom*; an atom is
//! never cut. Atoms stand sorted, and a read takes some in a row. Whether a row may be one read depends on its hull
//! alone and stays true for every part of it, so a table of the best end for each beginning finds the cheapest reads: on
//! TCP the fewest and, among those, the fewest addresses; on a serial line those that take the least time on the wire.

use crate::modbus::{Address, AddressRange, LineSpeed, Table};
use crate::model::GroupId;
use crate::profile::Limits;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// One value that a group needs: its addresses come in one reply or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wanted {
    /// Table it lies in.
    pub table: Table,
    /// All of its addresses.
    pub range: AddressRange,
}

/// What experience with a device adds to its limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Experience {
    /// Atoms that were refused by themselves: always read alone.
    pub alone: BTreeSet<Wanted>,
    /// First addresses of atoms that no read may join with what lies before them.
    pub cuts: BTreeSet<(Table, Address)>,
}

/// The reads of one group. `Display` gives lines for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Ascending by table and address; disjoint.
    pub atoms: Vec<Wanted>,
    /// Ascending; every atom is in exactly one.
    pub reads: Vec<Read>,
}

/// One read of a [`Plan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The table.
    pub table: Table,
    /// The addresses: from the first atom's first to the last atom's last.
    pub range: AddressRange,
    /// Index of its first atom.
    pub first: u16,
    /// Index after its last atom.
    pub end: u16,
}

/// Why a group cannot be read within the limits. The profile is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// One value (or several over the same registers) needs more than one read may ask for.
    #[error("{table} {range}: {} addresses at once, the device allows {most} per read", range.count())]
    TooWide {
        /// The table.
        table: Table,
        /// What must come at once.
        range: AddressRange,
        /// The limit.
        most: u16,
    },
    /// A value lies across a boundary that no read may cross.
    #[error("{table} {range} lies across a multiple of {boundary}, which no read may cross")]
    Boundary {
        /// The table.
        table: Table,
        /// What must come at once.
        range: AddressRange,
        /// The limit.
        boundary: u16,
    },
    /// Reading a value would read an address that must never be read.
    #[error("{table} {range} cannot be read without {hole}, which is never to be read")]
    Hole {
        /// The table.
        table: Table,
        /// What must come at once.
        range: AddressRange,
        /// The hole.
        hole: AddressRange,
    },
    /// A `together` group with values in two tables.
    #[error("a group read together lies in two tables, {0} and {1}: one request reads one")]
    TwoTables(Table, Table),
    /// A `together` group would have to bridge more than the gap allowed.
    #[error(
        "a group read together would bridge {gap} addresses nobody asked for before {table} {at}: allowed are {most}"
    )]
    Gap {
        /// The table.
        table: Table,
        /// First address after the gap.
        at: Address,
        /// How wide it is.
        gap: u32,
        /// The limit.
        most: u16,
    },
    /// More values than a plan can hold: 65535.
    #[error("{0} values in one group are too many")]
    TooMany(usize),
}

/// What reads cost on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadCost {
    /// Each read counts most, then each address.
    Count,
    /// Time on the wire: each read has its own share, and each byte of values.
    Wire {
        /// Request, the reply's frame, two silences and the device's turnaround.
        read: Duration,
        /// One byte.
        byte: Duration,
    },
}

impl ReadCost {
    /// Bytes of a read's request and reply beside the values.
    const FRAME_BYTES: usize = 8 + 5;

    /// What reads cost on a serial line, from a device that needs so much silence beyond the line's own.
    pub fn on_line(line: LineSpeed, turnaround: Duration) -> Self {
        let read = line.time_of(Self::FRAME_BYTES) + line.silence() * 2 + turnaround;
        Self::Wire { read, byte: line.time_of(1) }
    }

    /// One read's cost: of no meaning but to be added up and compared.
    fn of(self, table: Table, count: u16) -> u64 {
        match self {
            Self::Count => (1 << 32) + u64::from(count),
            Self::Wire { read, byte } => (read + byte * u32::from(value_bytes(table, count))).as_nanos() as u64,
        }
    }
}

/// Bytes that so many values take in a reply.
fn value_bytes(table: Table, count: u16) -> u16 {
    if table.is_bits() { count.div_ceil(8) } else { count.saturating_mul(2) }
}

/// Every group that the limits make impossible, and why.
pub type PlanErrors = Vec<(GroupId, PlanError)>;

impl Plan {
    /// The fewest reads for these values (in any order, repeated or not). A `together` group gets one read or an error.
    pub fn new(wanted: &[Wanted], limits: &Limits, together: bool, experience: &Experience) -> Result<Self, PlanError> {
        Self::with_cost(wanted, limits, together, experience, ReadCost::Count)
    }

    /// The cheapest reads for these values on a link.
    pub fn with_cost(
        wanted: &[Wanted],
        limits: &Limits,
        together: bool,
        experience: &Experience,
        cost: ReadCost,
    ) -> Result<Self, PlanError> {
        if wanted.len() > usize::from(u16::MAX) {
            return Err(PlanError::TooMany(wanted.len()));
        }
        let mut atoms = atoms(wanted, limits);
        if together {
            atoms = one_atom(&atoms, limits)?.into_iter().collect();
        }
        for atom in &atoms {
            check(*atom, limits)?;
        }
        let reads = cheapest_reads(&atoms, limits, experience, cost);
        Ok(Self { atoms, reads })
    }

    /// Time that all reads take on a serial line: requests, replies, silences and the device's turnaround.
    pub fn line_time(&self, line: LineSpeed, turnaround: Duration) -> Duration {
        let cost = ReadCost::on_line(line, turnaround);
        Duration::from_nanos(self.reads.iter().map(|r| cost.of(r.table, r.range.count())).sum())
    }

    /// Addresses that all reads ask for, wanted or bridged.
    pub fn addresses(&self) -> u32 {
        self.reads.iter().map(|r| u32::from(r.range.count())).sum()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut registers, mut bits) = (0, 0);
        for read in &self.reads {
            *(if read.table.is_bits() { &mut bits } else { &mut registers }) += u32::from(read.range.count());
        }
        write!(f, "{} requests, {registers} registers", self.reads.len())?;
        if bits > 0 {
            write!(f, ", {bits} bits")?;
        }
        for read in &self.reads {
            write!(f, "\n  {} {} ({})", read.table, read.range, read.range.count())?;
        }
        Ok(())
    }
}

/// Values as atoms: widened where the device reads even addresses only, joined where they then overlap.
fn atoms(wanted: &[Wanted], limits: &Limits) -> Vec<Wanted> {
    let mut sorted: Vec<Wanted> = wanted.iter().map(|w| widened(*w, limits)).collect();
    sorted.sort_unstable();
    let mut atoms: Vec<Wanted> = Vec::with_capacity(sorted.len());
    for next in sorted {
        match atoms.last_mut() {
            Some(last) if last.table == next.table && last.range.overlaps(next.range) => {
                last.range = last.range.hull(next.range);
            }
            _ => atoms.push(next),
        }
    }
    atoms
}

fn widened(wanted: Wanted, limits: &Limits) -> Wanted {
    if !limits.even || wanted.table.is_bits() {
        return wanted;
    }
    let start = wanted.range.start().0 & !1;
    let end = (wanted.range.end() + 1) & !1;
    let count = u16::try_from(end - u32::from(start)).unwrap_or(u16::MAX);
    Wanted { range: AddressRange::new(Address(start), count).unwrap_or(wanted.range), ..wanted }
}

/// All atoms of a `together` group as one, if the gaps between them may be bridged.
fn one_atom(atoms: &[Wanted], limits: &Limits) -> Result<Option<Wanted>, PlanError> {
    let Some(mut whole) = atoms.first().copied() else { return Ok(None) };
    for next in &atoms[1..] {
        if next.table != whole.table {
            return Err(PlanError::TwoTables(whole.table, next.table));
        }
        let gap = u32::from(next.range.start().0) - whole.range.end();
        let most = gap_allowed(whole.table, limits);
        if gap > u32::from(most) {
            return Err(PlanError::Gap { table: next.table, at: next.range.start(), gap, most });
        }
        whole.range = whole.range.hull(next.range);
    }
    Ok(Some(whole))
}

fn check(atom: Wanted, limits: &Limits) -> Result<(), PlanError> {
    let Wanted { table, range } = atom;
    let most = most_per_read(table, limits);
    if range.count() > most {
        return Err(PlanError::TooWide { table, range, most });
    }
    if let Some(boundary) = limits.boundary
        && crosses(range, boundary)
    {
        return Err(PlanError::Boundary { table, range, boundary });
    }
    if let Some((_, hole)) = limits.holes.iter().find(|(t, hole)| *t == table && hole.overlaps(range)) {
        return Err(PlanError::Hole { table, range, hole: *hole });
    }
    Ok(())
}

fn cheapest_reads(atoms: &[Wanted], limits: &Limits, experience: &Experience, cost: ReadCost) -> Vec<Read> {
    // From the last atom to the first: the cheapest way to read from here on, and where its first read ends.
    let mut best: Vec<(u64, usize)> = vec![(0, atoms.len()); atoms.len() + 1];
    for first in (0..atoms.len()).rev() {
        best[first] = (u64::MAX, first + 1);
        let mut hull = atoms[first].range;
        for end in first + 1..=atoms.len() {
            if end > first + 1 {
                let (before, next) = (atoms[end - 2], atoms[end - 1]);
                if !may_join(hull, before, next, limits, experience) {
                    break;
                }
                hull = hull.hull(next.range);
            }
            let way = best[end].0 + cost.of(atoms[first].table, hull.count());
            if way < best[first].0 {
                best[first] = (way, end);
            }
        }
    }
    let mut reads = Vec::new();
    let mut first = 0;
    while first < atoms.len() {
        let end = best[first].1;
        let range = atoms[first].range.hull(atoms[end - 1].range);
        reads.push(Read { table: atoms[first].table, range, first: first as u16, end: end as u16 });
        first = end;
    }
    reads
}

/// Whether a read over `hull`, which ends with the atom `before`, may go on to `next`.
fn may_join(hull: AddressRange, before: Wanted, next: Wanted, limits: &Limits, experience: &Experience) -> bool {
    let table = before.table;
    if next.table != table {
        return false;
    }
    let gap = u32::from(next.range.start().0) - before.range.end();
    let longer = hull.hull(next.range);
    gap <= u32::from(gap_allowed(table, limits))
        && longer.count() <= most_per_read(table, limits)
        && !limits.boundary.is_some_and(|b| crosses(longer, b))
        && !limits.holes.iter().any(|(t, hole)| *t == table && hole.overlaps(longer))
        && !experience.alone.contains(&before)
        && !experience.alone.contains(&next)
        && !experience.cuts.contains(&(table, next.range.start()))
}

fn gap_allowed(table: Table, limits: &Limits) -> u16 {
    if table.is_bits() { limits.gap_bits } else { limits.gap }
}

fn most_per_read(table: Table, limits: &Limits) -> u16 {
    let most = if table.is_bits() { limits.bits_per_read } else { limits.registers_per_read };
    let most = most.min(table.max_per_read());
    if limits.even && !table.is_bits() { most & !1 } else { most }
}

fn crosses(range: AddressRange, boundary: u16) -> bool {
    let boundary = boundary.max(1);
    range.start().0 / boundary != range.last().0 / boundary
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn holding(start: u16, count: u16) -> Wanted {
        Wanted { table: Table::HoldingRegister, range: AddressRange::new(Address(start), count).unwrap() }
    }

    fn ranges(wanted: &[Wanted], limits: &Limits) -> Vec<(u16, u16)> {
        let plan = Plan::new(wanted, limits, false, &Experience::default()).unwrap();
        plan.reads.iter().map(|r| (r.range.start().0, r.range.count())).collect()
    }

    #[test]
    fn f41_no_register_is_read_that_nobody_asked_for() {
        let wanted = [183, 186, 187, 190, 191].map(|a| holding(a, 1));
        assert_eq!(ranges(&wanted, &Limits::default()), [(183, 1), (186, 2), (190, 2)]);
        assert_eq!(ranges(&wanted, &Limits { gap: 2, ..Limits::default() }), [(183, 9)]);
        let holes = vec![(Table::HoldingRegister, AddressRange::new(Address(185), 1).unwrap())];
        assert_eq!(ranges(&wanted, &Limits { gap: 2, holes, ..Limits::default() }), [(183, 1), (186, 6)]);
    }

    #[test]
    fn gaps_are_bridged_where_that_is_cheaper_on_the_wire() {
        let limits = Limits { gap: 100, ..Limits::default() };
        let reads = |cost, at: u16| {
            let wanted = [holding(0, 1), holding(at, 1)];
            Plan::with_cost(&wanted, &limits, false, &Experience::default(), cost).unwrap().reads.len()
        };
        // 13 characters of frames and 7 of silence: as much as ten registers.
        let line = LineSpeed { baud: 19_200, bits_per_character: 11 };
        let wire = ReadCost::on_line(line, Duration::ZERO);
        assert_eq!((reads(wire, 10), reads(wire, 12)), (1, 2));
        assert_eq!(reads(ReadCost::Count, 90), 1);
        // A device that wants 20 ms between frames: 17 registers more.
        let slow = ReadCost::on_line(line, Duration::from_millis(20));
        assert_eq!((reads(slow, 27), reads(slow, 29)), (1, 2));
        // The profile's limit holds whatever is cheaper.
        let near =
            Plan::with_cost(&[holding(0, 1), holding(2, 1)], &Limits::default(), false, &Experience::default(), wire);
        assert_eq!(near.unwrap().reads.len(), 2);
    }

    #[test]
    fn f43_the_profiles_limit_bounds_every_read() {
        let wanted: Vec<_> = (0..120).map(|a| holding(a, 1)).collect();
        let limits = Limits { registers_per_read: 50, ..Limits::default() };
        let counts: Vec<_> = ranges(&wanted, &limits).iter().map(|r| r.1).collect();
        assert_eq!(counts.len(), 3);
        assert!(counts.iter().all(|n| *n <= 50));
        assert_eq!(counts.iter().sum::<u16>(), 120);
    }

    #[test]
    fn f44_a_limit_of_one_merges_nothing() {
        let limits = Limits { registers_per_read: 1, ..Limits::default() };
        assert_eq!(ranges(&[holding(10, 1), holding(11, 1), holding(12, 1)], &limits), [(10, 1), (11, 1), (12, 1)]);
        let wide = Plan::new(&[holding(10, 2)], &limits, false, &Experience::default());
        assert!(matches!(wide, Err(PlanError::TooWide { most: 1, .. })));
    }

    #[test]
    fn even_devices_get_even_starts_and_counts() {
        let limits = Limits { even: true, registers_per_read: 5, ..Limits::default() };
        assert_eq!(ranges(&[holding(3, 1), holding(7, 2)], &limits), [(2, 2), (6, 4)]);
        assert_eq!(ranges(&[holding(0, 4), holding(4, 1)], &limits), [(0, 4), (4, 2)]);
        assert_eq!(ranges(&[holding(65535, 1)], &limits), [(65534, 2)]);
    }

    #[test]
    fn values_over_the_same_registers_are_read_once() {
        assert_eq!(ranges(&[holding(5, 2), holding(5, 1), holding(5, 2), holding(6, 2)], &Limits::default()), [(5, 3)]);
    }

    #[test]
    fn boundaries_part_reads_and_refuse_values_across() {
        let limits = Limits { boundary: Some(0x100), ..Limits::default() };
        assert_eq!(ranges(&[holding(0xFE, 2), holding(0x100, 2)], &limits), [(0xFE, 2), (0x100, 2)]);
        let across = Plan::new(&[holding(0xFF, 2)], &limits, false, &Experience::default());
        assert!(matches!(across, Err(PlanError::Boundary { boundary: 0x100, .. })));
    }

    #[test]
    fn a_group_read_together_is_one_read_or_refused() {
        let plan = |wanted: &[Wanted], limits: &Limits| Plan::new(wanted, limits, true, &Experience::default());
        let one = plan(&[holding(0, 2), holding(2, 2)], &Limits::default()).unwrap();
        assert_eq!(one.reads.len(), 1);
        let gap = plan(&[holding(0, 2), holding(3, 2)], &Limits::default());
        assert!(matches!(gap, Err(PlanError::Gap { gap: 1, most: 0, .. })));
        assert!(plan(&[holding(0, 2), holding(3, 2)], &Limits { gap: 1, ..Limits::default() }).is_ok());
        let wide = plan(&[holding(0, 100), holding(100, 26)], &Limits::default());
        assert!(matches!(wide, Err(PlanError::TooWide { most: 125, .. })));
        let coil = Wanted { table: Table::Coil, ..holding(0, 1) };
        assert!(matches!(plan(&[coil, holding(0, 1)], &Limits::default()), Err(PlanError::TwoTables(..))));
    }

    #[test]
    fn experience_keeps_reads_apart() {
        let wanted: Vec<_> = (0..6).map(|a| holding(a, 1)).collect();
        let mut experience = Experience::default();
        experience.alone.insert(holding(2, 1));
        experience.cuts.insert((Table::HoldingRegister, Address(5)));
        let plan = Plan::new(&wanted, &Limits::default(), false, &experience).unwrap();
        let reads: Vec<_> = plan.reads.iter().map(|r| (r.range.start().0, r.range.count())).collect();
        assert_eq!(reads, [(0, 2), (2, 1), (3, 2), (5, 1)]);
    }

    #[test]
    fn a_plan_prints_requests_and_registers() {
        let plan = Plan::new(&[holding(0, 2), holding(9, 1)], &Limits::default(), false, &Experience::default());
        assert_eq!(plan.unwrap().to_string(), "2 requests, 3 registers\n  holding 0..1 (2)\n  holding 9 (1)");
    }

    fn limits() -> impl Strategy<Value = Limits> {
        let hole =
            (0..60u16, 1..4u16).prop_map(|(a, n)| (Table::HoldingRegister, AddressRange::new(Address(a), n).unwrap()));
        (4..20u16, 0..5u16, any::<bool>(), proptest::option::of(4..40u16), proptest::collection::vec(hole, 0..3))
            .prop_map(|(most, gap, even, boundary, holes)| Limits {
                registers_per_read: most,
                gap,
                even,
                boundary,
                holes,
                ..Limits::default()
            })
    }

    fn wanted(most: usize) -> impl Strategy<Value = Vec<Wanted>> {
        let one = (prop_oneof![Just(Table::HoldingRegister), Just(Table::InputRegister)], 0..60u16, 1..5u16)
            .prop_map(|(table, a, n)| Wanted { table, range: AddressRange::new(Address(a), n).unwrap() });
        proptest::collection::vec(one, 1..most)
    }

    fn legal(read: &Read, limits: &Limits, atoms: &[Wanted]) -> bool {
        let r = read.range;
        let holes = limits.holes.iter().all(|(t, h)| *t != read.table || !h.overlaps(r));
        let even = !limits.even || (r.start().0.is_multiple_of(2) && r.count().is_multiple_of(2));
        let boundary =
            limits.boundary.is_none_or(|b| (r.start().0..=r.last().0).all(|a| a == r.start().0 || a % b != 0));
        let inside = atoms.windows(2).all(|w| {
            w[0].table == w[1].table && u32::from(w[1].range.start().0) - w[0].range.end() <= u32::from(limits.gap)
        });
        holes && even && boundary && inside && r.count() <= limits.registers_per_read
    }

    /// Fewest reads by trying every way to cut the atoms.
    fn by_force(atoms: &[Wanted], limits: &Limits) -> usize {
        let ways = 1u32 << (atoms.len() - 1);
        (0..ways)
            .filter_map(|cuts| {
                let mut reads = 0;
                let mut first = 0;
                for end in 1..=atoms.len() {
                    if end == atoms.len() || cuts >> (end - 1) & 1 == 1 {
                        let range = atoms[first].range.hull(atoms[end - 1].range);
                        let read = Read { table: atoms[first].table, range, first: 0, end: 0 };
                        if !legal(&read, limits, &atoms[first..end]) {
                            return None;
                        }
                        reads += 1;
                        first = end;
                    }
                }
                Some(reads)
            })
            .min()
            .unwrap()
    }

    proptest! {
        #[test]
        fn plans_are_legal_and_cover_each_value_once(wanted in wanted(40), limits in limits()) {
            let Ok(plan) = Plan::new(&wanted, &limits, false, &Experience::default()) else { return Ok(()) };
            for read in &plan.reads {
                let atoms = &plan.atoms[usize::from(read.first)..usize::from(read.end)];
                prop_assert!(legal(read, &limits, atoms), "{:?} within {:?}", read, limits);
            }
            for w in &wanted {
                let whole = plan.reads.iter().filter(|r| r.table == w.table && r.range.covers(w.range)).count();
                let touched = plan.reads.iter().filter(|r| r.table == w.table && r.range.overlaps(w.range)).count();
                prop_assert_eq!((whole, touched), (1, 1), "{:?} in {:?}", w, plan);
            }
            for pair in plan.reads.windows(2) {
                prop_assert!((pair[0].table, pair[0].range.end()) <= (pair[1].table, u32::from(pair[1].range.start().0))
                    || pair[0].table < pair[1].table);
            }
        }

        #[test]
        fn no_plan_has_fewer_reads(wanted in wanted(9), limits in limits()) {
            let Ok(plan) = Plan::new(&wanted, &limits, false, &Experience::default()) else { return Ok(()) };
            prop_assert_eq!(plan.reads.len(), by_force(&plan.atoms, &limits));
        }

        #[test]
        fn a_value_is_refused_only_for_cause(start in 0..60u16, count in 1..5u16, limits in limits()) {
            let value = holding(start, count);
            let atom = widened(value, &limits);
            let read = Read { table: atom.table, range: atom.range, first: 0, end: 1 };
            let planned = Plan::new(&[value], &limits, false, &Experience::default()).is_ok();
            prop_assert_eq!(planned, legal(&read, &limits, &[atom]));
        }
    }
}
