//! The world: virtual time, links with their far ends, and the road from the bus to what the broker is told.

use super::chance::{self, Chance};
use super::faults::{LinkFaults, Travel};
use super::judge::{DeviceJudge, Judged, Statement, broken, change_fits, hold, is_a_change, root_fits, state_fits};
use super::memory::Micros;
use super::plant::{Health, Spec};
use super::wire::{Answer, Asked, Frame, answer};
use fieldshadow::codec::Decoder;
use fieldshadow::modbus::{Envelope, LineSpeed, UnitId};
use fieldshadow::model::{
    Batch, Configuration, Cycle, DeviceId, Epoch, Fault, GroupId, GroupResult, Layout, Mono, Reading, Revision, Stamp,
    Wall,
};
use fieldshadow::poll::{Bus, BusOptions, CycleReport, Deed, UnitSetup};
use fieldshadow::profile::Intervals;
use fieldshadow::shadow::{self, Outgoing, ShadowSync, Ticket};
use fieldshadow::twin::{Committed, Root, StatusState, Store};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Mutants: worlds that lie within the protocol, or a road that is wrong, so that the judge has something to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Now and then a reply to an earlier request comes under the transaction id of the present one.
    OldUnderNewTid,
    /// Half of the registers of a reply are of the instant after.
    Torn,
    /// A register holds a word that it never held.
    WrongWord,
    /// The batch has some readings of the batch before.
    MixedBatch,
    /// A message has digits of the message before.
    OldMessage,
    /// A device that counts as good drops a fifth of its replies.
    SecretlyLazy,
    /// A silent device is said to be back long before it is.
    SecretlySilent,
    /// The far end says a reply has come before it was asked twice: the bus seems to speak too early.
    ImpatientJudge,
    /// On serial lines replies come later than the bus can bear: the next request is out by then.
    TooLate,
    /// The judge's line speaks for longer than the bus knows.
    SlowLine,
}

#[derive(Debug)]
enum Event {
    /// Of a connection: its link and number.
    Far(usize, u64, Far),
    Connected(usize, u64, bool),
    Tick,
    Broker(bool),
    Accept(Ticket, u64),
    PublisherWakes,
    Reconfigure(usize),
    Return(usize),
    WallStep,
    Look,
    Silent(usize),
    Back(usize),
    /// The device was back at that time.
    ShouldBeBack(usize, Micros),
}

#[derive(Debug)]
enum Far {
    /// The device lets go of these bytes; and which requests' waits end by them, with the length after which.
    Send(Vec<u8>, Vec<(usize, Asked)>, bool),
    /// The same on a serial line, in pieces that end at these places, but not if it would not be over before that time; and
    /// whether others who speak just then drown it.
    Speak(Spoken),
    Bytes(Vec<u8>, Vec<Asked>),
    Close,
    Silence,
}

/// What a device says on a serial line.
#[derive(Debug)]
struct Spoken {
    bytes: Vec<u8>,
    ends: Vec<(usize, Asked)>,
    /// Where the first frame ends: what follows comes without a silence, hence in small pieces.
    first_end: usize,
    before: Micros,
    late: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "they are independent facts of a link")]
struct Link {
    /// A serial line, and whether it gives back what is sent.
    line: Option<LineSpeed>,
    echoes: bool,
    /// When the last byte, of either side, was over on it, as far as anybody here can know.
    last_byte: Micros,
    /// What was said since this connection still comes, even if we closed the port meanwhile and opened it again.
    unbroken_since: u64,
    bus: Bus,
    options: BusOptions,
    travel: Travel,
    faults: LinkFaults,
    is_clean: bool,
    /// Rises with each connect and disconnect.
    connection: u64,
    up: bool,
    half_open: bool,
    /// The line to us is busy with a frame until then.
    busy_until: Micros,
    /// Requests that the bus may still wait for, and until when.
    open: Vec<(Asked, Micros)>,
    /// When the last exchange of each unit was over.
    quiet_since: HashMap<u8, Micros>,
    armed: Option<(Mono, Micros)>,
    devices: Vec<usize>,
    /// Requests that nobody answered in time, or not soon: whose, and how long the wait was.
    waits: Vec<(u8, Micros)>,
}

impl Link {
    /// How long so many bytes take.
    fn time_of(&self, bytes: usize) -> Micros {
        self.line.map_or(0, |line| line.time_of(bytes).as_nanos().div_ceil(1000) as Micros)
    }

    /// Whether something of a connection still happens.
    fn reaches(&self, connection: u64, far: &Far) -> bool {
        let is_of_now =
            if self.line.is_some() { connection >= self.unbroken_since } else { connection == self.connection };
        is_of_now && (self.up || (self.line.is_some() && matches!(far, Far::Speak(_))))
    }

    /// A wait for a reply that is longer than any way to and fro, and keeps others from the line.
    fn long_wait(&self) -> Micros {
        LONG_WAIT + self.time_of(270)
    }
}

pub struct Device {
    pub spec: Spec,
    link: usize,
    layout: Arc<Layout>,
    decoder: Decoder,
    pub judge: DeviceJudge,
    last_reply: Option<Frame>,
    /// Reconfigured or taken off in this run.
    touched: bool,
    present: bool,
    next_cycle: Cycle,
    /// Requests sent, and those within the present silence.
    requests: u64,
    requests_in_silence: u64,
    before: Option<Batch>,
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub virtual_us: Micros,
    pub requests: u64,
    pub replies_believed: u64,
    pub timeouts: u64,
    pub dropped_frames: u64,
    pub cycles: u64,
    pub commits: u64,
    pub messages: u64,
    /// Those of them that were read, by kind.
    pub states: u64,
    pub changes: u64,
    pub reconnects: u64,
    pub good_devices_judged: u64,
    pub silences_judged: u64,
    pub roots_lost: u64,
    pub serial_lines: u64,
    pub serial_requests: u64,
    pub late_replies: u64,
    pub crc_errors: u64,
    pub echo_bytes: u64,
}

impl Figures {
    pub fn add(&mut self, of: &Self) {
        self.virtual_us += of.virtual_us;
        self.requests += of.requests;
        self.replies_believed += of.replies_believed;
        self.timeouts += of.timeouts;
        self.dropped_frames += of.dropped_frames;
        self.cycles += of.cycles;
        self.commits += of.commits;
        self.messages += of.messages;
        self.states += of.states;
        self.changes += of.changes;
        self.reconnects += of.reconnects;
        self.good_devices_judged += of.good_devices_judged;
        self.silences_judged += of.silences_judged;
        self.roots_lost += of.roots_lost;
        self.serial_lines += of.serial_lines;
        self.serial_requests += of.serial_requests;
        self.late_replies += of.late_replies;
        self.crc_errors += of.crc_errors;
        self.echo_bytes += of.echo_bytes;
    }
}

pub struct World {
    chance: Chance,
    now: Micros,
    wall_offset: i64,
    /// By time, and in the order in which they were made.
    events: BTreeMap<(Micros, u64), Event>,
    serial: u64,
    links: Vec<Link>,
    pub devices: Vec<Device>,
    by_id: HashMap<DeviceId, usize>,
    store: Store,
    judged: Revision,
    sync: ShadowSync,
    broker_up: bool,
    /// Connections to the broker so far.
    broker_life: u64,
    outstanding: usize,
    broker_delay: Micros,
    publisher_sleeps: bool,
    held: Option<Arc<Root>>,
    mutant: Option<Mutant>,
    last_message: HashMap<usize, Vec<u8>>,
    figures: Figures,
    length: Micros,
    seed: u64,
    reads_one_in: u64,
}

impl World {
    /// Everything in it comes from the seed.
    pub fn new(seed: u64, length: Micros, mutant: Option<Mutant>) -> Self {
        let mut chance = Chance::new(seed);
        let store = Store::new(Epoch(1), &fieldshadow::twin::Options { ring_entries: 128, ring_bytes: 64 << 20 });
        let sync = ShadowSync::new(
            shadow::Options {
                min_interval: Duration::from_millis(chance.pick(&[0, 0, 500, 3000])),
                heartbeat: Duration::from_secs(chance.pick(&[5, 60])),
                ..shadow::Options::new(DeviceId::new("gateway").expect("a name"), "0")
            },
            &store.root(),
            Stamp::default(),
        );
        let mut world = Self {
            now: 0,
            wall_offset: 1_796_000_000_000,
            events: BTreeMap::new(),
            serial: 0,
            links: Vec::new(),
            devices: Vec::new(),
            by_id: HashMap::new(),
            store,
            judged: Revision(0),
            sync,
            broker_up: false,
            broker_life: 0,
            outstanding: 0,
            broker_delay: chance.pick(&[1000, 20_000, 300_000]),
            publisher_sleeps: false,
            held: None,
            mutant,
            last_message: HashMap::new(),
            figures: Figures::default(),
            length,
            seed,
            reads_one_in: if mutant.is_some() || seed.is_multiple_of(10) { 1 } else { 6 + seed % 5 },
            chance,
        };
        world.build();
        world
    }

    fn build(&mut self) {
        // A long world is a small one.
        let links = if self.length > LONG { 1 } else { self.chance.pick(&[1, 1, 1, 1, 2, 3]) };
        for l in 0..links {
            let serial = matches!(self.mutant, Some(Mutant::TooLate | Mutant::SlowLine)) || self.chance.happens(0.4);
            let line = serial.then(|| LineSpeed {
                baud: self.chance.pick(&[2400, 9600, 9600, 19_200, 38_400, 115_200]),
                bits_per_character: self.chance.pick(&[10, 11]),
            });
            let in_flight = if line.is_some() { 1 } else { self.chance.pick(&[1, 1, 1, 4, 16]) };
            let echoes = line.is_some() && self.chance.happens(0.3);
            // Now and then the setting does not say what the line does.
            let echo = line.is_some() && (echoes != self.chance.happens(0.1));
            let is_clean = self.mutant.is_some() || self.chance.happens(0.6);
            let mut faults = if is_clean { LinkFaults::default() } else { LinkFaults::drawn(&mut self.chance) };
            if line.is_some() {
                faults.on_serial_line();
            }
            if in_flight > 1 {
                // The next reply would fill the truncated one up, and nothing on the wire would show it.
                faults.truncated = 0.0;
            }
            let options = BusOptions {
                in_flight,
                line,
                echo,
                seed: self.chance.draw(),
                spread: self.chance.happens(0.7),
                silent_resets: self.chance.pick(&[3, 3, 1, 10]),
                ..BusOptions::default()
            };
            self.links.push(Link {
                bus: Bus::new(if line.is_some() { Envelope::rtu() } else { Envelope::mbap() }, options.clone()),
                line,
                echoes,
                last_byte: 0,
                unbroken_since: 0,
                options,
                travel: Travel::drawn(&mut self.chance),
                faults,
                is_clean,
                connection: 0,
                up: false,
                half_open: false,
                busy_until: 0,
                open: Vec::new(),
                quiet_since: HashMap::new(),
                armed: None,
                devices: Vec::new(),
                waits: Vec::new(),
            });
            let mut load = 0.0;
            let most = if self.length > LONG { 2 } else { self.chance.pick(&[1, 2, 2, 3, 6]) };
            for d in 0..most {
                let health = match self.mutant {
                    Some(Mutant::SecretlySilent) => Health::Spells,
                    Some(_) => Health::Good,
                    None => match self.chance.below(10) {
                        0..=4 => Health::Good,
                        5..=6 => Health::Spells,
                        _ => Health::Faulty,
                    },
                };
                let unit = self.chance.within(1, 30) as u8 * 8 + d as u8;
                let mut spec = Spec::drawn(&mut self.chance, &format!("l{l}d{d}"), unit, health, self.length);
                if self.mutant == Some(Mutant::SecretlyLazy) {
                    spec.faults.drop = 0.2;
                    spec.retries = 0;
                    spec.profile.timing.retries = 0;
                }
                if line.is_some() {
                    spec.faults.on_serial_line();
                }
                if !self.add(l, spec, in_flight, &mut load) {
                    break;
                }
            }
        }
        self.plan();
    }

    /// Adds a device, unless its link had too much to do then.
    fn add(&mut self, l: usize, spec: Spec, in_flight: u8, load: &mut f64) -> bool {
        let layout = Arc::new(spec.profile.layout(&Intervals::new()));
        let setup = UnitSetup::from_profile(
            spec.id.clone(),
            fieldshadow::model::Generation(1),
            UnitId(spec.unit),
            &spec.profile,
            &layout,
            Cycle(1),
        );
        let line = self.links[l].line;
        let plans = setup.plans(line).unwrap_or_else(|e| panic!("{}: {e:?}", spec.id));
        let travel = &self.links[l].travel;
        let round_trip = (2 * (travel.delay + travel.jitter) + 3000 + travel.timer_late) as f64;
        let own = (round_trip + spec.turnaround as f64) / 1e6;
        let mut wanted = 0.0;
        let mut alone = 0.0;
        for (group, plan) in &plans {
            if let Some(every) = spec.groups[usize::from(group.0)].every {
                let on_line = line.map_or(0.0, |line| plan.line_time(line, Duration::ZERO).as_secs_f64());
                wanted += on_line * 1e6 / every as f64;
                alone += on_line * 1e6 / every as f64;
                let rate = 1e6 / every as f64 * plan.reads.len() as f64;
                wanted += rate * round_trip / 1e6;
                alone += rate * own;
            }
        }
        if alone > 0.4 || *load + wanted > if in_flight == 1 { 0.35 } else { 0.8 } {
            return !self.devices.is_empty() || *load > 0.0 || self.links[l].devices.is_empty();
        }
        *load += wanted;
        let index = self.devices.len();
        let now = self.stamp();
        let generation = self.store.configure(&spec.id, Configuration::Ready(Arc::clone(&layout)), now);
        let judge = DeviceJudge::new(&spec, generation, 1, layout.intervals.len());
        self.links[l].bus.put(now, UnitSetup { generation, ..setup }).expect("it was planned before");
        self.links[l].devices.push(index);
        self.by_id.insert(spec.id.clone(), index);
        self.devices.push(Device {
            decoder: Decoder::new(&spec.profile),
            spec,
            link: l,
            layout,
            judge,
            last_reply: None,
            touched: false,
            present: true,
            next_cycle: Cycle(1),
            requests: 0,
            requests_in_silence: 0,
            before: None,
        });
        true
    }

    /// What happens in this world without being asked for.
    fn plan(&mut self) {
        self.at(500_000, Event::Tick);
        self.at(100_000, Event::Broker(true));
        self.at(1_000_000, Event::Look);
        if self.mutant.is_none() && self.chance.happens(0.3) {
            self.at(self.length / 2, Event::WallStep);
        }
        for d in 0..self.devices.len() {
            if self.mutant.is_none() && self.chance.happens(0.25) {
                let at = self.chance.within(1_000_000, self.length);
                self.at(at, Event::Reconfigure(d));
                self.devices[d].touched = true;
            }
            for (from, to) in self.devices[d].spec.spells.clone() {
                self.at(from, Event::Silent(d));
                self.at(to, Event::Back(d));
            }
        }
        if self.mutant == Some(Mutant::SecretlySilent) {
            // What the judge believes, and what is.
            for device in &mut self.devices {
                device.spec.spells.truncate(1);
                for spell in &mut device.spec.spells {
                    spell.1 += 200_000_000;
                }
            }
        }
    }

    fn at(&mut self, at: Micros, event: Event) {
        self.serial += 1;
        self.events.insert((at.max(self.now), self.serial), event);
    }

    fn stamp(&self) -> Stamp {
        let mono = Mono(Duration::from_micros(self.now));
        Stamp { mono, wall: Wall((self.wall_offset + (self.now / 1000) as i64) as u64) }
    }

    /// Lives through all of it. Statements are judged at each event.
    pub fn run(mut self) -> Judged<Figures> {
        for l in 0..self.links.len() {
            self.act(l)?;
        }
        self.commits(None)?;
        loop {
            let event = self.events.first_key_value().map_or(Micros::MAX, |((at, _), _)| *at);
            let wake = self.links.iter().enumerate().filter_map(|(l, link)| Some((link.armed?.1, l))).min();
            let next = wake.map_or(event, |(at, _)| at.min(event));
            if next > self.length {
                break;
            }
            self.now = self.now.max(next);
            if event <= next {
                if let Some((_, event)) = self.events.pop_first() {
                    self.happen(event)?;
                }
            } else if let Some((_, l)) = wake {
                self.links[l].armed = None;
                let now = self.stamp();
                self.links[l].bus.handle_timeout(now);
                self.act(l)?;
            }
            self.publish()?;
        }
        self.now = self.length;
        self.rates()?;
        self.figures.virtual_us = self.length;
        Ok(self.figures)
    }

    fn happen(&mut self, event: Event) -> Judged {
        let now = self.stamp();
        match event {
            Event::Connected(l, connection, well) if connection == self.links[l].connection => {
                let link = &mut self.links[l];
                if well {
                    link.up = true;
                    link.half_open = false;
                    if link.line.is_none() {
                        link.busy_until = self.now;
                    }
                    link.bus.handle_connected(now);
                } else {
                    link.bus.handle_connect_failed(now, Fault::Refused);
                }
                self.act(l)
            }
            Event::Far(l, connection, far) if self.links[l].reaches(connection, &far) => self.far(l, far),
            Event::Connected(..) | Event::Far(..) => Ok(()),
            Event::Tick => {
                self.at(self.now + 500_000, Event::Tick);
                self.store.tick(now);
                self.commits(None)
            }
            Event::Broker(up) => {
                let stays =
                    if up { self.chance.within(1_000_000, 120_000_000) } else { self.chance.within(0, 20_000_000) };
                self.at(self.now + stays, Event::Broker(!up));
                self.broker_up = up;
                self.outstanding = 0;
                self.broker_life += 1;
                if up {
                    self.devices.iter_mut().for_each(|d| d.judge.said_rev = 0);
                    self.sync.handle_connected(now);
                } else {
                    self.sync.handle_disconnected(now);
                }
                Ok(())
            }
            Event::Accept(ticket, life) => {
                if life == self.broker_life {
                    self.outstanding -= 1;
                    self.sync.handle_published(ticket);
                }
                Ok(())
            }
            Event::PublisherWakes => {
                self.publisher_sleeps = false;
                Ok(())
            }
            Event::WallStep => {
                self.wall_offset += self.chance.pick(&[-3_600_000, -2000, 5000, 86_400_000]);
                Ok(())
            }
            Event::Look => self.look(),
            Event::Reconfigure(d) => self.reconfigure(d),
            Event::Return(d) => self.put_back(d),
            Event::Silent(d) => {
                self.devices[d].requests_in_silence = 0;
                Ok(())
            }
            Event::Back(d) => self.was_silent(d),
            Event::ShouldBeBack(d, since) => self.is_back(d, since),
        }
    }

    /// The far end does something on the present connection.
    fn far(&mut self, l: usize, far: Far) -> Judged {
        let now = self.stamp();
        match far {
            Far::Send(bytes, ends, glue) => {
                let mut at = self.now.max(self.links[l].busy_until);
                if glue {
                    at = at.next_multiple_of(8000);
                }
                let mut rest = &bytes[..];
                let mut done = 0;
                while !rest.is_empty() {
                    let split = self.links[l].travel.split;
                    let n = if self.chance.happens(split) {
                        self.chance.within(1, rest.len() as u64) as usize
                    } else {
                        rest.len()
                    };
                    let ended = |(end, _): &&(usize, Asked)| (done + 1..=done + n).contains(end);
                    let ends: Vec<Asked> = ends.iter().filter(ended).map(|(_, asked)| *asked).collect();
                    let connection = self.links[l].connection;
                    self.at(at, Event::Far(l, connection, Far::Bytes(rest[..n].to_vec(), ends)));
                    rest = &rest[n..];
                    done += n;
                    if !rest.is_empty() {
                        at += self.chance.within(0, 3000);
                    }
                }
                self.links[l].busy_until = at;
                Ok(())
            }
            Far::Speak(spoken) => {
                self.speak(l, spoken);
                Ok(())
            }
            Far::Bytes(mut bytes, mut ends) => {
                // What is due at the same instant comes in one piece.
                while let Some(next) = self.events.first_entry()
                    && next.key().0 == self.now
                    && let Event::Far(other, c, Far::Bytes(..)) = next.get()
                    && (*other, *c) == (l, self.links[l].connection)
                {
                    if let Event::Far(_, _, Far::Bytes(more, also)) = next.remove() {
                        bytes.extend(more);
                        ends.extend(also);
                    }
                }
                for asked in ends {
                    self.over(l, asked);
                }
                self.links[l].last_byte = self.now;
                self.links[l].bus.handle_received(now, &bytes);
                self.act(l)
            }
            Far::Close => {
                self.hang_up(l);
                self.links[l].unbroken_since = self.links[l].connection;
                self.links[l].bus.handle_disconnected(now);
                self.act(l)
            }
            Far::Silence => {
                self.links[l].half_open = true;
                Ok(())
            }
        }
    }

    /// A request's wait is over.
    fn over(&mut self, l: usize, asked: Asked) {
        let link = &mut self.links[l];
        if let Some(i) = link.open.iter().position(|(a, _)| a.tid == asked.tid && a.at == asked.at) {
            // A reply after the deadline may find the wait over, or the timer late: the pause began no sooner than this.
            let (_, until) = link.open.swap_remove(i);
            if self.now - asked.at > link.long_wait() {
                link.waits.push((asked.unit, self.now - asked.at));
            }
            link.quiet_since.insert(asked.unit, until.min(self.now));
        }
    }

    fn hang_up(&mut self, l: usize) {
        let link = &mut self.links[l];
        link.connection += 1;
        link.up = false;
        for (asked, _) in std::mem::take(&mut link.open) {
            if self.now - asked.at > link.long_wait() {
                link.waits.push((asked.unit, self.now - asked.at));
            }
        }
        link.quiet_since.clear();
    }

    /// Does what a bus wants done.
    fn act(&mut self, l: usize) -> Judged {
        while let Some(report) = self.links[l].bus.poll_report() {
            self.report(&report)?;
        }
        while let Some(deed) = self.links[l].bus.poll_deed() {
            // Who is silent may be silent for good: on a line that says nothing about the port.
            let link = &self.links[l];
            let wanted = link.devices.iter().any(|d| self.devices[*d].present);
            hold!(Statement::Wire, link.line.is_none() || !link.up || !wanted, "{deed:?} for a port that is open");
            self.hang_up(l);
            if deed == Deed::Connect {
                let (faults, connection) = (self.links[l].faults.clone(), self.links[l].connection);
                let at = self.now + self.chance.within(100, 20_000);
                if !self.chance.happens(faults.hang) {
                    let well = !self.chance.happens(faults.refuse);
                    self.at(at, Event::Connected(l, connection, well));
                }
            }
        }
        let bytes = self.links[l].bus.transmit().to_vec();
        // The socket takes it in two pieces now and then.
        let first = if bytes.is_empty() { 0 } else { self.chance.within(0, bytes.len() as u64) as usize };
        self.links[l].bus.handle_sent(first);
        self.links[l].bus.handle_sent(bytes.len() - first);
        hold!(Statement::Bounded, bytes.len() <= 16 * 12, "{} bytes to send at once", bytes.len());
        if self.links[l].line.is_some() {
            if !bytes.is_empty() {
                let asked = Asked::parse_rtu(self.now, &bytes)?;
                self.takes_the_line(l, &bytes)?;
                self.asked(l, asked)?;
            }
        } else {
            for adu in bytes.chunks(12) {
                let asked = Asked::parse(self.now, adu)?;
                self.asked(l, asked)?;
            }
        }
        self.bounds(l)?;
        let wake = self.links[l].bus.poll_timeout();
        if self.links[l].armed.map(|(mono, _)| mono) != wake {
            let late = self.chance.within(0, self.links[l].travel.timer_late);
            // Times of the bus are finer than this world's.
            self.links[l].armed =
                wake.map(|mono| (mono, (mono.0.as_nanos().div_ceil(1000) as Micros + late).max(self.now)));
        }
        Ok(())
    }

    /// A request is on the line from now on: was it silent before?
    fn takes_the_line(&mut self, l: usize, request: &[u8]) -> Judged {
        let link = &self.links[l];
        let silence = link.line.map_or(0, |line| line.silence().as_micros() as Micros);
        let free = link.last_byte + silence + u64::from(self.mutant == Some(Mutant::SlowLine)) * 100;
        hold!(Statement::Wire, link.last_byte == 0 || free <= self.now, "speaks at {}, not before {free}", self.now);
        let (end, connection, echoes) = (self.now + link.time_of(request.len()), link.connection, link.echoes);
        let link = &mut self.links[l];
        link.last_byte = end;
        self.figures.serial_requests += 1;
        if echoes && link.busy_until <= self.now {
            let cut = self.chance.within(0, request.len() as u64) as usize;
            let at = self.now + self.links[l].time_of(cut);
            if cut > 0 {
                self.at(at, Event::Far(l, connection, Far::Bytes(request[..cut].to_vec(), Vec::new())));
            }
            if cut < request.len() {
                self.at(end, Event::Far(l, connection, Far::Bytes(request[cut..].to_vec(), Vec::new())));
            }
        }
        Ok(())
    }

    /// A device speaks on the line, now or when it is free.
    fn speak(&mut self, l: usize, spoken: Spoken) {
        let Spoken { bytes, ends, first_end, before, late } = spoken;
        let link = &self.links[l];
        let (begin, connection) = (self.now.max(link.busy_until), link.connection);
        let end = begin + link.time_of(bytes.len());
        if (late && link.busy_until > self.now) || end >= before {
            return;
        }
        let mut done = 0;
        while done < bytes.len() {
            let left = bytes.len() - done;
            let n = if done == 0 {
                self.chance.within(1, 8)
            } else if done >= first_end {
                self.chance.within(1, 3)
            } else if self.chance.happens(self.links[l].travel.split) {
                self.chance.within(1, left as u64)
            } else {
                left as u64
            };
            // Up to three bytes of what follows may come with a frame's end.
            let most = if done < first_end { first_end - done + 3 } else { left };
            let n = (n as usize).min(left).min(most);
            let ended = |(end, _): &&(usize, Asked)| (done + 1..=done + n).contains(end);
            let over: Vec<Asked> = ends.iter().filter(ended).map(|(_, asked)| *asked).collect();
            let at = begin + self.links[l].time_of(done + n);
            self.at(at, Event::Far(l, connection, Far::Bytes(bytes[done..done + n].to_vec(), over)));
            done += n;
        }
        self.links[l].busy_until = end;
    }

    /// Looked at now and then: what grows without a bound stays large.
    fn bounds(&self, l: usize) -> Judged {
        if !self.serial.is_multiple_of(16) {
            return Ok(());
        }
        let link = &self.links[l];
        let depth = link.bus.counters().queue_depth as usize;
        let most: usize = link.devices.iter().map(|d| self.devices[*d].spec.points.len()).sum();
        hold!(Statement::Bounded, depth <= most, "{depth} requests wait, there are {most} points");
        Ok(())
    }

    /// A request goes out.
    fn asked(&mut self, l: usize, asked: Asked) -> Judged {
        self.figures.requests += 1;
        let link = &mut self.links[l];
        hold!(Statement::Wire, link.up, "{asked:?} without a connection");
        let of = link.devices.iter().copied().find(|d| self.devices[*d].spec.unit == asked.unit);
        let Some(d) = of else { return broken(Statement::Wire, format!("{asked:?} to nobody")) };
        for (old, until) in std::mem::take(&mut link.open) {
            if until <= self.now {
                link.waits.push((old.unit, until - old.at));
                link.quiet_since.insert(old.unit, until);
            } else {
                link.open.push((old, until));
            }
        }
        let device = &mut self.devices[d];
        hold!(Statement::Wire, device.present, "{asked:?} to a device that was taken off");
        if let Some((other, until)) = link.open.iter().find(|(a, _)| a.unit == asked.unit) {
            return broken(Statement::Wire, format!("{asked:?} while {other:?} is in flight until {until}"));
        }
        let most = usize::from(link.options.in_flight);
        hold!(Statement::Wire, link.open.len() < most, "{asked:?}: {} in flight already", link.open.len());
        if let Some(since) = link.quiet_since.get(&asked.unit) {
            let free = since + device.spec.turnaround + u64::from(self.mutant == Some(Mutant::ImpatientJudge)) * 50_000;
            hold!(Statement::Wire, free <= self.now, "{asked:?} before the pause is over at {free}");
        }
        asked.is_legal(&device.spec)?;
        let on_wire = link.time_of(8);
        link.open.push((asked, self.now + on_wire + device.spec.timeout));
        device.requests += 1;
        device.judge.asked.insert((asked.table, asked.first, asked.count), self.now);
        if device.spec.is_silent(self.now) {
            device.requests_in_silence += 1;
        }
        let heard = link.line.is_none() || link.busy_until <= self.now;
        if link.line.is_some() {
            link.busy_until = link.busy_until.max(self.now + on_wire);
        }
        // Who is spoken to while another speaks does not hear it.
        if heard {
            self.answer(l, d, &asked);
        }
        Ok(())
    }

    /// The far end answers, or not.
    fn answer(&mut self, l: usize, d: usize, asked: &Asked) {
        let travel = self.links[l].travel.clone();
        let way = |chance: &mut Chance| travel.delay + chance.within(0, travel.jitter);
        let sent = self.now + self.links[l].time_of(8);
        let arrives = sent + way(&mut self.chance);
        let works = self.chance.within(0, 3000);
        let read_at = arrives + self.chance.within(0, works);
        let device = &mut self.devices[d];
        let timeout = device.spec.timeout;
        let mut answer = answer(asked, &device.spec, read_at, device.last_reply.as_ref(), &mut self.chance);
        self.mutate(d, asked, read_at, &mut answer);
        let device = &mut self.devices[d];
        let own = answer.frames.iter().rfind(|f| asked.ends_by(f)).cloned();
        device.last_reply = own.or(device.last_reply.take());
        let mut leaves = arrives + works + way(&mut self.chance);
        if answer.slow {
            leaves = leaves.max(sent + self.chance.within(0, timeout * 9 / 10));
        }
        if answer.late {
            leaves = sent + timeout + self.chance.within(1, timeout);
        }
        let mut before = sent + 2 * timeout;
        if self.mutant == Some(Mutant::TooLate) && self.chance.happens(0.05) {
            (leaves, before) = (sent + 2 * timeout + self.chance.within(0, 30_000), Micros::MAX);
        }
        let (faults, connection) = (self.links[l].faults.clone(), self.links[l].connection);
        if self.chance.happens(faults.half_open) {
            self.at(self.now, Event::Far(l, connection, Far::Silence));
        }
        if self.links[l].half_open {
            return;
        }
        if self.chance.happens(faults.close_instead) {
            self.at(leaves, Event::Far(l, connection, Far::Close));
            return;
        }
        if self.links[l].line.is_some() {
            let spoken = self.spoken(l, asked, &answer, before);
            if !spoken.bytes.is_empty() {
                self.at(leaves, Event::Far(l, connection, Far::Speak(spoken)));
            }
            if self.chance.happens(faults.close_after) {
                let after = leaves + self.chance.within(0, 50_000);
                self.at(after, Event::Far(l, connection, Far::Close));
            }
            return;
        }
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        if self.chance.happens(faults.noise_before) {
            let n = self.chance.within(1, 20) as usize;
            bytes.extend(self.chance.bytes(n));
        }
        for frame in &answer.frames {
            let mut raw = frame.bytes();
            if answer.surplus {
                raw[5] += 1;
            }
            bytes.extend(raw);
            if asked.ends_by(frame) {
                ends.push((bytes.len(), *asked));
            }
        }
        if !bytes.is_empty() && self.chance.happens(faults.truncated) {
            // Nothing follows until the bus has given this one up: what followed would fill it up, and nothing on the
            // wire would show it.
            bytes.truncate(self.chance.within(1, bytes.len() as u64) as usize);
            ends.retain(|(end, _)| *end <= bytes.len());
            self.at(leaves, Event::Far(l, connection, Far::Send(bytes, ends, false)));
            self.links[l].busy_until = self.now + 2 * timeout;
            return;
        }
        if self.chance.happens(faults.noise_after) {
            let n = self.chance.within(1, 20) as usize;
            bytes.extend(self.chance.bytes(n));
        }
        if !bytes.is_empty() {
            let glue = self.chance.happens(travel.glue);
            self.at(leaves, Event::Far(l, connection, Far::Send(bytes, ends, glue)));
        }
        if self.chance.happens(faults.close_after) {
            let after = leaves + self.chance.within(0, 5000);
            self.at(after, Event::Far(l, connection, Far::Close));
        }
    }

    /// The bytes of an answer on a serial line, with what the line adds and damages.
    fn spoken(&mut self, l: usize, asked: &Asked, answer: &Answer, before: Micros) -> Spoken {
        let faults = self.links[l].faults.clone();
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        let mut first_end = None;
        if self.chance.happens(faults.noise_before) {
            let n = self.chance.within(1, 20) as usize;
            bytes.extend(self.chance.bytes(n));
        }
        if self.chance.happens(faults.other_frame) {
            // Nobody here has these unit ids.
            let unit = self.chance.within(1, 7) as u8;
            bytes.extend(Frame { unit, ..asked.reply(&self.devices[self.links[l].devices[0]].spec, self.now) }.rtu());
            first_end = Some(bytes.len());
        }
        for frame in &answer.frames {
            let mut raw = frame.rtu();
            let damaged = self.chance.happens(faults.damage);
            if damaged {
                let at = self.chance.below(raw.len() as u64) as usize;
                raw[at] ^= self.chance.within(1, 255) as u8;
            }
            bytes.extend(raw);
            first_end.get_or_insert(bytes.len());
            if !damaged && asked.is_answered_by(frame) {
                ends.push((bytes.len(), *asked));
            }
        }
        if !bytes.is_empty() && self.chance.happens(faults.truncated) {
            bytes.truncate(self.chance.within(1, bytes.len() as u64) as usize);
            ends.retain(|(end, _)| *end <= bytes.len());
        } else if self.chance.happens(faults.noise_after) {
            let n = self.chance.within(1, 20) as usize;
            bytes.extend(self.chance.bytes(n));
        }
        let first_end = first_end.unwrap_or(bytes.len());
        Spoken { bytes, ends, first_end, before, late: answer.late }
    }

    fn mutate(&mut self, d: usize, asked: &Asked, read_at: Micros, answer: &mut Answer) {
        let spec = &self.devices[d].spec;
        match self.mutant {
            Some(Mutant::OldUnderNewTid) if self.chance.happens(0.01) => {
                answer.frames = vec![asked.reply(spec, self.now.saturating_sub(60_000))];
            }
            Some(Mutant::Torn) if self.chance.happens(0.05) && !asked.table.is_bits() && asked.count > 1 => {
                let mut frame = asked.reply(spec, read_at);
                let after = asked.reply(spec, self.now);
                let half = 2 + usize::from(asked.count) / 2 * 2;
                frame.pdu[half..].copy_from_slice(&after.pdu[half..]);
                answer.frames = vec![frame];
            }
            Some(Mutant::WrongWord) if self.chance.happens(0.01) => {
                let mut frame = asked.reply(spec, read_at);
                let at = 2 + self.chance.below(frame.pdu.len() as u64 - 2) as usize;
                frame.pdu[at] ^= 1;
                answer.frames = vec![frame];
            }
            _ => {}
        }
    }

    /// A cycle is over: decode, commit, judge.
    fn report(&mut self, report: &CycleReport) -> Judged {
        let Some(d) = self.by_id.get(&report.device).copied() else {
            return broken(Statement::Wire, format!("a report of {}", report.device));
        };
        self.figures.cycles += 1;
        let device = &mut self.devices[d];
        hold!(
            Statement::Rising,
            report.generation == device.judge.generation,
            "{}: a report of {:?}",
            report.device,
            report.generation
        );
        device.next_cycle = device.next_cycle.max(report.cycle.next());
        let expected = device.judge.expect(&device.spec, report)?;
        let mut batch = device.decoder.decode(report);
        if self.mutant == Some(Mutant::MixedBatch) {
            let whole = batch.clone();
            if let Some(before) = &device.before {
                for (own, old) in batch.readings.iter_mut().zip(&before.readings).step_by(2) {
                    if own.0 == old.0 && matches!(old.1, Reading::Good(_)) {
                        own.1 = old.1.clone();
                    }
                }
            }
            device.before = Some(whole);
        }
        // Only what was read may move anything.
        let read = |g: GroupId| batch.groups.iter().any(|(id, r)| *id == g && matches!(r, GroupResult::Read(_)));
        let moves = batch.readings.iter().all(|(p, _)| read(device.layout.group_of(*p)));
        hold!(Statement::OneInstant, moves, "{}: readings of a group that failed", report.device);
        let before = Arc::clone(&self.store.root());
        match self.store.commit(&batch) {
            Ok(Committed::Changed(revision)) => self.commits(Some((d, revision, expected))),
            Ok(Committed::Unchanged) => {
                hold!(
                    Statement::Rising,
                    self.store.root().revision == before.revision,
                    "{}: unchanged, and a new revision",
                    report.device
                );
                let root = self.store.root();
                let device = &self.devices[d];
                match root.device(&device.spec.id) {
                    Some(twin) => super::judge::fits(&device.spec, twin, &expected),
                    None => broken(Statement::Rising, format!("{} is gone", report.device)),
                }
            }
            other => broken(Statement::Rising, format!("{}: {other:?}", report.device)),
        }
    }

    /// Judges all commits since the last look.
    fn commits(&mut self, mut batch: Option<(usize, Revision, super::judge::Picture)>) -> Judged {
        loop {
            let commits = match self.store.watch(self.judged, 64) {
                Ok(commits) if commits.is_empty() => return Ok(()),
                Ok(commits) => commits,
                Err(e) => return broken(Statement::Bounded, format!("the judge came too late: {e:?}")),
            };
            for commit in commits {
                is_a_change(&commit, self.judged.0)?;
                self.judged = commit.revision;
                self.figures.commits += 1;
                for change in &commit.changes {
                    let Some(new) = &change.new else { continue };
                    let Some(d) = self.by_id.get(&new.device).copied() else { continue };
                    let device = &mut self.devices[d];
                    if change.configured {
                        if new.version.0 > 1 {
                            device.judge.reconfigured(&device.spec, new.generation, new.version.0);
                        }
                        continue;
                    }
                    let expected = batch.take_if(|(of, rev, _)| (*of, *rev) == (d, commit.revision)).map(|b| b.2);
                    device.judge.committed(&device.spec, new, expected)?;
                }
            }
        }
    }

    fn reconfigure(&mut self, d: usize) -> Judged {
        let now = self.stamp();
        let l = self.devices[d].link;
        if self.chance.happens(0.5) {
            let device = &mut self.devices[d];
            device.present = false;
            // Who is taken off is forgotten, with the silence that it is due.
            self.links[l].quiet_since.remove(&device.spec.unit);
            if let Some(next) = self.links[l].bus.remove(now, &device.spec.id) {
                device.next_cycle = device.next_cycle.max(next);
            }
            let removed = self.store.remove(&device.spec.id, now);
            hold!(Statement::Rising, removed.is_ok(), "{removed:?}");
            let longest = self.chance.pick(&[500_000, 10_000_000]);
            let away = self.chance.within(0, longest);
            self.at(self.now + away, Event::Return(d));
            self.commits(None)?;
            return self.act(l);
        }
        self.put_back(d)
    }

    fn put_back(&mut self, d: usize) -> Judged {
        let now = self.stamp();
        let device = &mut self.devices[d];
        let l = device.link;
        device.present = true;
        let layout = Arc::clone(&device.layout);
        let generation = self.store.configure(&device.spec.id, Configuration::Ready(Arc::clone(&layout)), now);
        let setup = UnitSetup::from_profile(
            device.spec.id.clone(),
            generation,
            UnitId(device.spec.unit),
            &device.spec.profile,
            &layout,
            device.next_cycle,
        );
        let put = self.links[l].bus.put(now, setup);
        hold!(Statement::Wire, put.is_ok(), "{put:?}");
        self.commits(None)?;
        self.act(l)
    }

    /// Carries commits to the shadow and its words to the broker.
    fn publish(&mut self) -> Judged {
        if self.publisher_sleeps {
            return Ok(());
        }
        let now = self.stamp();
        for _ in 0..64 {
            match self.store.watch(self.sync.followed(), 256) {
                Ok(commits) if commits.is_empty() => break,
                Ok(commits) => self.sync.handle_commits(&commits, now),
                Err(_) => {
                    self.figures.roots_lost += 1;
                    self.sync.handle_root(&self.store.root(), now);
                }
            }
        }
        if self.sync.poll_timeout().is_some_and(|at| at <= now.mono) {
            self.sync.handle_timeout(now);
        }
        if !self.broker_up {
            return Ok(());
        }
        for _ in 0..32 {
            if self.outstanding >= 16 {
                break;
            }
            let Some(Outgoing { publication, ticket }) = self.sync.poll_publication(now) else { break };
            self.said(&publication.topic, &publication.payload)?;
            if let Some(ticket) = ticket {
                self.outstanding += 1;
                let at = self.now + self.chance.within(100, self.broker_delay);
                self.at(at, Event::Accept(ticket, self.broker_life));
            }
        }
        Ok(())
    }

    fn said(&mut self, topic: &str, payload: &[u8]) -> Judged {
        let mut levels = topic.rsplit('/');
        let (Some(kind), Some(name)) = (levels.next(), levels.next()) else { return Ok(()) };
        let id = DeviceId::new(name).ok();
        let Some(d) = id.and_then(|id| self.by_id.get(&id).copied()) else { return Ok(()) };
        self.figures.messages += 1;
        // To read each of them would cost more than all the rest: of most worlds a part is read, another one by seed.
        if self.reads_one_in > 1
            && !chance::mix(self.figures.messages ^ (self.seed << 32)).is_multiple_of(self.reads_one_in)
        {
            return Ok(());
        }
        let device = &mut self.devices[d];
        match kind {
            "state" if !payload.is_empty() => {
                self.figures.states += 1;
                if self.mutant == Some(Mutant::OldMessage) {
                    let mixed = mixed(payload, self.last_message.get(&d));
                    self.last_message.insert(d, payload.to_vec());
                    return state_fits(&device.spec, &mut device.judge, &mixed);
                }
                state_fits(&device.spec, &mut device.judge, payload)
            }
            "change" => {
                self.figures.changes += 1;
                change_fits(&device.spec, &mut device.judge, payload)
            }
            _ => Ok(()),
        }
    }

    /// A reader looks at what it has held for a while, and takes what is there now.
    fn look(&mut self) -> Judged {
        let now_root = self.store.root();
        for root in [self.held.take(), Some(Arc::clone(&now_root))].into_iter().flatten() {
            root_fits(&root, |id| {
                let device = &self.devices[*self.by_id.get(id)?];
                Some((&device.spec, &device.judge))
            })?;
        }
        self.held = Some(now_root);
        if self.mutant.is_none() && self.chance.happens(0.1) {
            self.publisher_sleeps = true;
            let until = self.now + self.chance.within(100_000, 20_000_000);
            self.at(until, Event::PublisherWakes);
        }
        let again = self.now + self.chance.within(100_000, 5_000_000);
        self.at(again, Event::Look);
        Ok(())
    }

    /// A silence is over: was the device offline in time, and probed no more than allowed?
    fn was_silent(&mut self, d: usize) -> Judged {
        let device = &self.devices[d];
        let believed = device.spec.spells.iter().find(|s| s.1 == self.now || self.mutant.is_some()).copied();
        let Some((from, _)) = believed else { return Ok(()) };
        let judged = self.links[device.link].is_clean && device.spec.health == Health::Spells && !device.touched;
        if !judged {
            return Ok(());
        }
        let lasted = self.now - from;
        let others: Micros = self.links[device.link].devices.iter().map(|d| self.devices[*d].spec.timeout).sum();
        let spec = &device.spec;
        let is_serial = self.links[device.link].line.is_some();
        // On a serial line a late reply is waited for once more, and a long frame takes its time.
        let (others, attempt) =
            if is_serial { (others * 3, 2 * spec.timeout + 300_000) } else { (others, spec.timeout) };
        let a_cycle = spec.shortest() + (spec.retries + 1) * (attempt + spec.turnaround) + others;
        let soon = (spec.offline_after + 1) * a_cycle + 1_000_000;
        let root = self.store.root();
        let state = root.device(&spec.id).map(|t| t.status.state);
        if lasted > soon {
            self.figures.silences_judged += 1;
            hold!(
                Statement::Offline,
                state == Some(StatusState::Offline),
                "{} silent for {lasted} µs, {soon} are enough, is {state:?}",
                spec.id
            );
        }
        let (mut pause, mut at, mut probes) = (1_000_000u64, 0u64, 0u64);
        while at < lasted {
            at += pause * 3 / 4;
            pause = (pause * 2).min(30_000_000);
            probes += 1;
        }
        let intervals = device.layout.intervals.len() as u64;
        // It may fall silent within a cycle: then the rest of that one is asked for, too.
        let reads = spec.points.len() as u64;
        let most = (spec.offline_after + intervals + reads) * (spec.retries + 1) + probes + 2;
        hold!(
            Statement::Rate,
            device.requests_in_silence <= most,
            "{} was asked {} times in a silence of {lasted} µs, at most {most} are due",
            spec.id,
            device.requests_in_silence
        );
        // Back within the longest probe pause and a cycle, if it stays.
        let back = self.now + 30_000_000 + spec.longest() + a_cycle + others + 1_000_000;
        let stays = spec.spells.iter().all(|(next, _)| *next <= self.now || *next > back);
        if stays && back < self.length {
            self.at(back, Event::ShouldBeBack(d, self.now));
        }
        Ok(())
    }
}

impl World {
    /// Whether a device that has answered again since then shows it.
    fn is_back(&self, d: usize, since: Micros) -> Judged {
        let device = &self.devices[d];
        let root = self.store.root();
        let Some(twin) = root.device(&device.spec.id) else { return Ok(()) };
        let state = twin.status.state;
        hold!(
            Statement::Offline,
            state != StatusState::Offline,
            "{} answers since {since}, is {state:?} at {}",
            device.spec.id,
            self.now
        );
        for (g, group) in device.spec.groups.iter().enumerate().filter(|(_, g)| g.every.is_some()) {
            let age = twin.last_seen.age(GroupId(g as u16), Mono(Duration::from_micros(self.now)));
            hold!(
                Statement::Offline,
                age.as_micros() as Micros <= self.now - since,
                "{} answers since {since}, group {g} every {:?} was not read since, {age:?} ago at {}",
                device.spec.id,
                group.every,
                self.now
            );
        }
        Ok(())
    }

    /// At the end: good devices have kept their rate.
    fn rates(&mut self) -> Judged {
        for link in &self.links {
            self.figures.reconnects += link.bus.counters().reconnects;
            let counters = link.bus.counters();
            self.figures.replies_believed += counters.traffic.replies;
            self.figures.timeouts += counters.traffic.timeouts;
            self.figures.serial_lines += u64::from(link.line.is_some());
            self.figures.late_replies += counters.late_replies;
            self.figures.crc_errors += counters.traffic.crc_errors;
            self.figures.echo_bytes += counters.echo_bytes;
            self.figures.dropped_frames += counters.transaction_mismatch
                + counters.traffic.unit_mismatch
                + counters.traffic.function_mismatch
                + counters.traffic.length_mismatch;
        }
        for device in &self.devices {
            let link = &self.links[device.link];
            if device.spec.health != Health::Good || device.touched || !link.is_clean {
                continue;
            }
            for (i, interval) in device.layout.intervals.iter().enumerate() {
                let good = device.judge.good[i];
                let Some(every) = interval.every.map(|e| e.as_micros() as Micros) else {
                    hold!(Statement::Rate, good >= 1, "{}: `once` was never read", device.spec.id);
                    continue;
                };
                let ticks = self.length.saturating_sub(1_500_000) / every;
                // One request at a time: nobody is heard while the line waits for one who does not answer. Where that is
                // seldom and short, no cycle is lost by it, else as much as it takes.
                let lost: u64 = if link.options.in_flight == 1 {
                    let others = link.waits.iter().filter(|(unit, _)| *unit != device.spec.unit).map(|(_, long)| *long);
                    let (all, longest) = (others.clone().sum::<Micros>(), others.clone().max().unwrap_or(0));
                    let seldom = all * 20 <= self.length && longest * 4 <= every;
                    if seldom {
                        0
                    } else {
                        others.map(|t| t / every + u64::from(t * 2 > every)).sum::<u64>().max(all / every)
                    }
                } else {
                    0
                };
                let share = if link.line.is_some() { 80 } else { 95 };
                let least = (ticks * share / 100).saturating_sub(lost + 1);
                self.figures.good_devices_judged += 1;
                hold!(
                    Statement::Rate,
                    good >= least,
                    "{} every {every} µs: {good} good cycles of {ticks} ({} reported), {lost} lost to {} waits for others",
                    device.spec.id,
                    device.judge.all[i],
                    link.waits.len()
                );
            }
        }
        Ok(())
    }
}

/// A wait for a reply that is longer than any way to and fro, and keeps others from the line.
const LONG_WAIT: Micros = 30_000;
/// Worlds that last longer have few devices.
const LONG: Micros = 1_000_000_000;

/// A message with the values of the one before.
fn mixed(payload: &[u8], before: Option<&Vec<u8>>) -> Vec<u8> {
    let parse = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    let (Some(mut body), Some(old)) = (parse(payload), before.and_then(|b| parse(b))) else { return payload.to_vec() };
    if let Some(group) = old["reported"].get("g0") {
        body["reported"]["g0"] = group.clone();
    }
    body.to_string().into_bytes()
}
