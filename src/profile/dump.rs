//! A dump: registers and bits of one device as somebody read them, by wire address.
//!
//! `{"holding": {"0": 1450, "0x0B1A": [5400, 41]}, "coil": {"0": true}}`: the key is the first address, the value one
//! register or a run of them. What is missing cannot be read.

use crate::document::{Content, Diagnostics, Node, Number, Problem};
use crate::modbus::{Address, AddressRange, Table};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Registers and bits of one device; what is missing cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dump {
    registers: BTreeMap<(Table, u16), u16>,
    bits: BTreeMap<(Table, u16), bool>,
}

/// One register or bit, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Register(u16),
    Bit(bool),
}

impl Dump {
    /// Reads the JSON form. The error names line and column.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Reads the same form from YAML, reporting every mistake.
    pub fn from_node(node: &Node, wrong: &mut Diagnostics) -> Self {
        let mut dump = Self::default();
        let Some(tables) = wrong.keep(node.mapping()) else { return dump };
        tables.report_duplicates(wrong);
        for entry in &tables.entries {
            let Some(table) = wrong.keep(table_of(&entry.key)) else { continue };
            let Some(runs) = wrong.keep(entry.value.mapping()) else { continue };
            runs.report_duplicates(wrong);
            for run in &runs.entries {
                let Some(address) = Number::parse(run.name()).and_then(Number::integer) else {
                    wrong.add_problem(
                        Problem::new(run.key.place, format!("`{}` is no address", run.name()))
                            .remedy("write a wire address: 0 to 65535, decimal or 0x hex"),
                    );
                    continue;
                };
                let cells = match &run.value.content {
                    Content::Sequence(items) => items.as_slice(),
                    Content::Scalar(_) | Content::Mapping(_) => std::slice::from_ref(&run.value),
                };
                for (at, cell) in (address..).zip(cells) {
                    if let Err(why) = wrong.keep(cell_of(table, cell)).map_or(Ok(()), |c| dump.put(table, at, c)) {
                        wrong.report(cell.place, why);
                        break;
                    }
                }
            }
        }
        dump
    }

    /// The JSON form: registers in a row make one run.
    pub fn to_json(&self) -> serde_json::Value {
        let mut tables = serde_json::Map::new();
        for table in Table::ALL {
            let mut runs: Vec<(u16, Vec<serde_json::Value>)> = Vec::new();
            let mut push = |address: u16, value: serde_json::Value| match runs.last_mut() {
                Some((start, run)) if usize::from(*start) + run.len() == usize::from(address) => run.push(value),
                _ => runs.push((address, vec![value])),
            };
            self.registers_of(table).for_each(|(a, v)| push(a.0, v.into()));
            self.bits_of(table).for_each(|(a, v)| push(a.0, v.into()));
            if !runs.is_empty() {
                let runs = runs.into_iter().map(|(start, run)| (start.to_string(), run.into()));
                tables.insert(table.to_string(), serde_json::Value::Object(runs.collect()));
            }
        }
        tables.into()
    }

    /// Sets one register. Does nothing for a table of bits.
    pub fn set_register(&mut self, table: Table, address: Address, value: u16) {
        if !table.is_bits() {
            self.registers.insert((table, address.0), value);
        }
    }

    /// Sets one bit. Does nothing for a table of registers.
    pub fn set_bit(&mut self, table: Table, address: Address, value: bool) {
        if table.is_bits() {
            self.bits.insert((table, address.0), value);
        }
    }

    /// All registers of a range, or nothing if one of them is missing.
    pub fn registers(&self, table: Table, range: AddressRange) -> Option<Vec<u16>> {
        (u32::from(range.start().0)..range.end()).map(|a| self.registers.get(&(table, a as u16)).copied()).collect()
    }

    /// All bits of a range, or nothing if one of them is missing.
    pub fn bits(&self, table: Table, range: AddressRange) -> Option<Vec<bool>> {
        (u32::from(range.start().0)..range.end()).map(|a| self.bits.get(&(table, a as u16)).copied()).collect()
    }

    /// All registers of a table, by address.
    pub fn registers_of(&self, table: Table) -> impl Iterator<Item = (Address, u16)> + '_ {
        self.registers.range((table, 0)..=(table, u16::MAX)).map(|((_, a), v)| (Address(*a), *v))
    }

    /// All bits of a table, by address.
    pub fn bits_of(&self, table: Table) -> impl Iterator<Item = (Address, bool)> + '_ {
        self.bits.range((table, 0)..=(table, u16::MAX)).map(|((_, a), v)| (Address(*a), *v))
    }

    /// Whether nothing can be read.
    pub fn is_empty(&self) -> bool {
        self.registers.is_empty() && self.bits.is_empty()
    }

    fn put(&mut self, table: Table, address: i128, cell: Cell) -> Result<(), String> {
        let Ok(at) = u16::try_from(address) else {
            return Err(format!("address {address} is beyond 0 to 65535"));
        };
        let before = match cell {
            Cell::Register(value) if !table.is_bits() => self.registers.insert((table, at), value).is_some(),
            Cell::Bit(value) if table.is_bits() => self.bits.insert((table, at), value).is_some(),
            Cell::Register(_) => return Err(format!("{table} {at} is a bit: true or false")),
            Cell::Bit(_) => return Err(format!("{table} {at} is a register: a number from 0 to 65535")),
        };
        if before { Err(format!("{table} {at} is given twice")) } else { Ok(()) }
    }
}

fn table_of(key: &Node) -> Result<Table, Problem> {
    key.word(&Table::ALL.map(|t| (t.as_str(), t)))
}

fn cell_of(table: Table, node: &Node) -> Result<Cell, Problem> {
    if table.is_bits() {
        node.boolean().map(Cell::Bit)
    } else {
        node.integer_within("a register", 0..=65535).map(|n| Cell::Register(n as u16))
    }
}

impl<'de> Deserialize<'de> for Dump {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DumpVisitor)
    }
}

struct DumpVisitor;

impl<'de> Visitor<'de> for DumpVisitor {
    type Value = Dump;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a dump: {\"holding\": {\"0\": 1450, \"0x0B1A\": [5400, 41]}, …}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Dump, A::Error> {
        let mut dump = Dump::default();
        while let Some(word) = map.next_key::<String>()? {
            let table = Table::from_word(&word)
                .ok_or_else(|| de::Error::custom(format!("`{word}` is none of coil, discrete, input, holding")))?;
            map.next_value_seed(TableSeed { table, dump: &mut dump })?;
        }
        Ok(dump)
    }
}

struct TableSeed<'a> {
    table: Table,
    dump: &'a mut Dump,
}

impl<'de> de::DeserializeSeed<'de> for TableSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TableSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "the {} table: {{\"ADDRESS\": one value or a run of them}}", self.table)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let address = Number::parse(&key)
                .and_then(Number::integer)
                .filter(|n| (0..=65535).contains(n))
                .ok_or_else(|| de::Error::custom(format!("`{key}` is no address: 0 to 65535, decimal or 0x hex")))?;
            map.next_value_seed(RunSeed { table: self.table, address, dump: self.dump })?;
        }
        Ok(())
    }
}

struct RunSeed<'a> {
    table: Table,
    address: i128,
    dump: &'a mut Dump,
}

impl<'de> de::DeserializeSeed<'de> for RunSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl RunSeed<'_> {
    fn put<E: de::Error>(&mut self, cell: Cell) -> Result<(), E> {
        self.dump.put(self.table, self.address, cell).map_err(E::custom)
    }
}

impl<'de> Visitor<'de> for RunSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.table.is_bits() { "true, false or a run of them" } else { "0 to 65535, or a run of them" })
    }

    fn visit_bool<E: de::Error>(mut self, value: bool) -> Result<(), E> {
        self.put(Cell::Bit(value))
    }

    fn visit_u64<E: de::Error>(mut self, value: u64) -> Result<(), E> {
        let value =
            u16::try_from(value).map_err(|_| E::custom(format!("{value} is no register: a number from 0 to 65535")))?;
        self.put(Cell::Register(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let (table, dump) = (self.table, self.dump);
        let mut address = self.address;
        while items.next_element_seed(CellSeed { table, address, dump: &mut *dump })?.is_some() {
            address += 1;
        }
        Ok(())
    }
}

/// One item of a run: no run itself, so that nothing nests.
struct CellSeed<'a> {
    table: Table,
    address: i128,
    dump: &'a mut Dump,
}

impl<'de> de::DeserializeSeed<'de> for CellSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let cell = if self.table.is_bits() {
            Cell::Bit(bool::deserialize(deserializer)?)
        } else {
            Cell::Register(u16::deserialize(deserializer)?)
        };
        self.dump.put(self.table, self.address, cell).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    const TEXT: &str = r#"{"holding":{"0":1450,"0x0B1A":[5400,41]},"input":{},"coil":{"0":true,"7":[false,true]}}"#;

    fn range(start: u16, count: u16) -> AddressRange {
        AddressRange::new(Address(start), count).unwrap()
    }

    #[test]
    fn a_dump_is_read_alike_from_json_and_yaml() {
        let dump = Dump::from_json(TEXT).unwrap();
        assert_eq!(dump.registers(Table::HoldingRegister, range(0x0B1A, 2)), Some(vec![5400, 41]));
        assert_eq!(dump.registers(Table::HoldingRegister, range(0, 2)), None);
        assert_eq!(dump.bits(Table::Coil, range(7, 2)), Some(vec![false, true]));
        let document =
            Document::parse("d", "{holding: {0: 1450, 0x0B1A: [5400, 41]}, coil: {0: true, 7: [false, true]}}");
        let document = document.unwrap();
        let mut wrong = Diagnostics::new(&document);
        assert_eq!(Dump::from_node(document.root(), &mut wrong), dump);
        assert!(wrong.is_empty());
        assert_eq!(Dump::from_json(&dump.to_json().to_string()).unwrap(), dump);
        assert_eq!(dump.to_json()["holding"], serde_json::json!({"0": [1450], "2842": [5400, 41]}));
        assert_eq!(dump.registers_of(Table::HoldingRegister).count(), 3);
    }

    #[test]
    fn what_is_no_register_is_refused_with_its_place() {
        for (text, said) in [
            (r#"{"holding":{"0":65536}}"#, "65536"),
            (r#"{"holding":{"0":[1,-1]}}"#, "-1"),
            (r#"{"holding":{"0":1.5}}"#, "1.5"),
            (r#"{"holding":{"0":true}}"#, "is a register"),
            (r#"{"holding":{"0":[[1]]}}"#, "invalid type"),
            (r#"{"coil":{"0":1}}"#, "is a bit"),
            (r#"{"holding":{"65535":[1,2]}}"#, "65536 is beyond"),
            (r#"{"holding":{"70000":1}}"#, "no address"),
            (r#"{"holding":{"0":[1,2],"1":3}}"#, "holding 1 is given twice"),
            (r#"{"holdings":{}}"#, "none of coil"),
            (r"[1]", "a dump"),
        ] {
            let error = Dump::from_json(text).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("line 1"), "{text}: {error}");
        }
        let text = "holding: {0: [1, 70000], 0100: 1, x: 1}\nholdings: {0: 1}\ncoil: {0: 1}\ninput: 5\n";
        let document = Document::parse("d", text).unwrap();
        let mut wrong = Diagnostics::new(&document);
        Dump::from_node(document.root(), &mut wrong);
        let lines = wrong.lines();
        assert_eq!(lines.lines().count(), 6, "{lines}");
        assert!(lines.contains("d:1:18: a register is 70000"), "{lines}");
    }
}
