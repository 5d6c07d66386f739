//! A real broker for tests: mosquitto on a free loopback port, killed when dropped.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Mosquitto {
    port: u16,
    config: tempfile::NamedTempFile,
    child: Option<Child>,
}

impl Mosquitto {
    /// Starts one, or says that the test is skipped where there is none on this machine.
    pub(crate) fn start() -> Option<Self> {
        let program = Self::program()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let config = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(config.path(), format!("listener {port} 127.0.0.1\nallow_anonymous true\n")).unwrap();
        let mut broker = Self { port, config, child: None };
        broker.restart_with(program);
        Some(broker)
    }

    fn program() -> Option<&'static str> {
        let found = ["/usr/sbin/mosquitto", "/usr/bin/mosquitto", "/usr/local/sbin/mosquitto"]
            .into_iter()
            .find(|path| std::path::Path::new(path).exists());
        if found.is_none() {
            println!("skipped: no mosquitto");
        }
        found
    }

    pub(crate) fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// As by `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn restart(&mut self) {
        self.restart_with(Self::program().unwrap());
    }

    fn restart_with(&mut self, program: &str) {
        self.kill();
        let child = Command::new(program)
            .arg("-c")
            .arg(self.config.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(Instant::now() < deadline, "mosquitto does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        self.kill();
    }
}
