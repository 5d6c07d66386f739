//! Waking at a time: to a millisecond, or to some ten microseconds.
//!
//! The runtime's own timer has a grain of a millisecond and is late by up to two, which is more than the silence between
//! two frames of a serial line. The kernel's timers are not: one wakes the runtime as received bytes do, so that nothing
//! waits for it. It costs a descriptor; lines over TCP do without.

use super::Clock;
use crate::model::Mono;
use std::future::pending;
use std::pin::Pin;
use tokio::time::{Instant, Sleep};

/// Wakes once at a time that is set. Made for one task.
#[derive(Debug)]
pub(super) struct Alarm {
    clock: Clock,
    set: Option<Mono>,
    timer: Timer,
}

#[derive(Debug)]
enum Timer {
    Runtime(Pin<Box<Sleep>>),
    #[cfg(target_os = "linux")]
    Kernel(kernel::Timer),
}

impl Alarm {
    /// An alarm that is not set, of the runtime's grain. To be called within a runtime.
    pub(super) fn coarse(clock: Clock) -> Self {
        Self { clock, set: None, timer: Timer::runtime() }
    }

    /// The same, precise where the kernel gives a timer.
    pub(super) fn precise(clock: Clock) -> Self {
        #[cfg(target_os = "linux")]
        if let Ok(timer) = kernel::Timer::new() {
            return Self { clock, set: None, timer: Timer::Kernel(timer) };
        }
        Self::coarse(clock)
    }

    /// Sets it, or takes it back. Costs nothing where nothing changes.
    pub(super) fn set(&mut self, at: Option<Mono>) {
        if at == self.set {
            return;
        }
        self.set = at;
        if let Some(at) = at {
            self.arm(at);
        }
    }

    fn arm(&mut self, at: Mono) {
        match &mut self.timer {
            Timer::Runtime(sleep) => sleep.as_mut().reset(self.clock.instant(at)),
            #[cfg(target_os = "linux")]
            Timer::Kernel(timer) => {
                if timer.arm(at.0.saturating_sub(self.clock.mono().0)).is_err() {
                    self.timer = Timer::runtime();
                    self.arm(at);
                }
            }
        }
    }

    /// Waits for the time that is set; for ever where none is. Then it is no longer set. Safe to cancel.
    pub(super) async fn ring(&mut self) {
        let Some(at) = self.set else { return pending().await };
        while self.clock.mono() < at {
            match &mut self.timer {
                Timer::Runtime(sleep) => sleep.as_mut().await,
                #[cfg(target_os = "linux")]
                Timer::Kernel(timer) => {
                    if timer.rang().await.is_err() {
                        self.timer = Timer::runtime();
                    }
                }
            }
            if self.clock.mono() < at {
                self.arm(at);
            }
        }
        self.set = None;
    }
}

impl Timer {
    fn runtime() -> Self {
        Self::Runtime(Box::pin(tokio::time::sleep_until(Instant::now())))
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use rustix::io::read;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;
    use tokio::io::unix::AsyncFd;

    /// A timer of the kernel.
    #[derive(Debug)]
    pub(super) struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            #[expect(deprecated, reason = "sound for a descriptor that is owned; its successor asks for unsafe code")]
            let registered = AsyncFd::new(fd)?;
            Ok(Self(registered))
        }

        /// Rings once, so much later; whatever was armed before does not.
        pub(super) fn arm(&mut self, left: Duration) -> io::Result<()> {
            // Zero would mean never.
            let left = left.max(Duration::from_nanos(1));
            let time = Itimerspec {
                it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() },
            };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &time)?;
            Ok(())
        }

        pub(super) async fn rang(&mut self) -> io::Result<()> {
            loop {
                let mut ready = self.0.readable().await?;
                let mut times = [0; 8];
                if let Ok(result) = ready.try_io(|fd| Ok(read(fd.get_ref(), &mut times)?)) {
                    return result.map(|_| ());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn it_rings_in_time_and_not_before() {
        let clock = Clock::start();
        let mut alarm = Alarm::precise(clock);
        let mut late = Vec::new();
        for _ in 0..50 {
            let at = clock.mono() + Duration::from_micros(1750);
            alarm.set(Some(at));
            alarm.ring().await;
            let now = clock.mono();
            assert!(now >= at);
            late.push(now.since(at));
        }
        late.sort();
        // The runtime's timer is 1.3 ms late here. The middle one only: the machine may be busy with other tests.
        assert!(late[25] < Duration::from_micros(400), "{late:?}");
    }

    #[tokio::test]
    async fn it_can_be_set_anew_and_taken_back() {
        let clock = Clock::start();
        for mut alarm in [Alarm::precise(clock), Alarm::coarse(clock)] {
            let soon = |ms| Some(clock.mono() + Duration::from_millis(ms));
            alarm.set(soon(5));
            tokio::time::sleep(Duration::from_millis(20)).await;
            // It rang meanwhile, but for another time than this.
            let at = soon(30);
            alarm.set(at);
            alarm.ring().await;
            assert!(clock.mono() >= at.unwrap());
            alarm.set(soon(10));
            alarm.set(None);
            assert!(timeout(Duration::from_millis(40), alarm.ring()).await.is_err());
            // What is past rings at once; a wait that was given up loses nothing.
            alarm.set(soon(0));
            timeout(Duration::from_secs(1), alarm.ring()).await.unwrap();
            alarm.set(soon(20));
            assert!(timeout(Duration::from_millis(1), alarm.ring()).await.is_err());
            timeout(Duration::from_secs(1), alarm.ring()).await.unwrap();
        }
    }
}
